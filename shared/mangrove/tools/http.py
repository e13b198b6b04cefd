"""SimpleHttp: a file fetched over HTTP by this service itself, continued where it was cut off when the server can."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from email.utils import parsedate_to_datetime

import httpx

from mangrove.integers import parse_integer
from mangrove.net import guard
from mangrove.net.guard import Allowed
from mangrove.problems import Problem, Unreachable
from mangrove.tools import names, unpack, urls

REDIRECTS = 10
BLOCK = 1 << 20  # bytes
PATIENCE = 1.0  # seconds for which small pieces are gathered
SLOWEST = 1024  # bytes per second, on the average of a minute of waiting
MINUTE = 60.0
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_NOTHING_LEFT = re.compile(r"bytes \*/(\d{1,18})")


class NoFile(Problem):
    """The server answers, but not with the file."""


class Wrong(Problem):
    """What the server sends is not what it announced."""


class Answer:
    """A file on its way. `size`: all of it in bytes, None when the server does not say.

    `offset`: where in the file `blocks` begins: what was asked for, or 0 when the server starts over since it cannot
    continue or the file is another one by now. `resumes`: it can be continued later, with `validator`.
    """

    def __init__(
        self, answer: httpx.Response, url: httpx.URL, offset: int, size: int | None, length: int | None
    ) -> None:
        headers = answer.headers
        coding = headers.get("content-encoding", "")
        self.name = names.of(url, headers.get("content-disposition", ""))
        self.offset = offset
        self.validator = _validator(headers)
        self._packed = coding if unpack.needed(coding, self.name) else ""
        self.size = None if self._packed else size
        ranged = offset > 0 or headers.get("accept-ranges", "").strip().lower() == "bytes"
        self.resumes = bool(self.validator and ranged and not self._packed)
        self._answer = answer
        self._length = length

    async def blocks(self) -> AsyncIterator[bytes]:
        """The bytes from `offset` on, in pieces of at most BLOCK; Wrong when they are more or fewer than announced."""
        body = self._sent()
        async for block in unpack.unpacked(self._packed, body) if self._packed else body:
            yield block

    async def _sent(self) -> AsyncIterator[bytes]:
        got = 0
        if self._length == 0:
            return
        async for block in _gathered(_brisk(self._answer)):
            got += len(block)
            if self._length is not None and got > self._length:
                raise Wrong(f"the server sends more than the {self._length} bytes it announced")
            yield block
        if self._length is not None and got < self._length:
            raise Wrong(f"the server sent {got} of {self._length} bytes")


def _validator(headers: httpx.Headers) -> str:
    """What tells whether the file is still the same, for If-Range: a strong ETag or a strong date; "" for neither."""
    tag: str = headers.get("etag", "").strip()
    if tag.startswith('"') and tag.endswith('"') and len(tag) > 2:
        return tag
    changed: str = headers.get("last-modified", "").strip()
    try:
        age = parsedate_to_datetime(headers.get("date", "")) - parsedate_to_datetime(changed)
        return changed if age.total_seconds() >= 1 else ""
    except (TypeError, ValueError, OverflowError):
        return ""


@contextmanager
def _told(host: str) -> Iterator[None]:
    try:
        yield
    except guard.FAILURES as error:
        raise Unreachable(f"{host[:100]}: {guard.reason(error)}") from None


@asynccontextmanager
async def fetch(url: str, allowed: Allowed, offset: int = 0, validator: str = "") -> AsyncIterator[Answer]:
    """The file at `url`, from `offset` on if it is still the one that `validator` names, else from its beginning.

    BadAddress and guard.Refused for an address that may not be asked, also behind redirects; NoFile for an answer
    that is no file; Unreachable when the network fails, here or while the blocks are read.
    """
    start = offset if validator else 0
    async with guard.client(allowed) as client:
        at, answer = await _found(client, url, start, validator)
        try:
            part = _part(answer, start, validator)
            if part is None and answer.status_code in (206, 416) and start:
                await answer.aclose()
                at, answer = await _found(client, url, 0, "")
                part = _part(answer, 0, "")
            if part is None:
                raise NoFile(f"http status code {answer.status_code}")
            yield Answer(answer, at, *part)
        finally:
            await answer.aclose()


Part = tuple[int, int | None, int | None]


def _part(answer: httpx.Response, start: int, wanted: str) -> Part | None:
    """Where the body begins, the file's size, the body's length; None when it is not the file or no fitting part."""
    headers, status = answer.headers, answer.status_code
    told = headers.get("content-range", "").strip()
    if status == 206 and start and (found := _RANGE.fullmatch(told)):
        first, last, size = int(found[1]), int(found[2]), parse_integer(found[3])
        same = _validator(headers) in ("", wanted) and not headers.get("content-encoding", "")
        fits = first == start and last >= first and (size is None or last == size - 1)
        return (first, size, last - first + 1) if same and fits else None
    if status == 416 and start and (found := _NOTHING_LEFT.fullmatch(told)):
        return (start, start, 0) if int(found[1]) == start else None
    if 200 <= status < 204:
        length = parse_integer(headers.get("content-length", ""))
        return 0, length, length
    return None


async def _found(client: httpx.AsyncClient, url: str, offset: int, validator: str) -> tuple[httpx.URL, httpx.Response]:
    """The answer behind all redirects, its body unread, and its address."""
    headers = {"range": f"bytes={offset}-", "if-range": validator} if offset else {}
    at = httpx.URL(urls.checked(url, "SimpleHttp"))
    for _ in range(REDIRECTS + 1):
        client.cookies.clear()
        with _told(at.host):
            answer = await client.send(client.build_request("GET", at, headers=headers), stream=True)
        target = answer.headers.get("location", "")
        if answer.status_code not in (301, 302, 303, 307, 308) or not target:
            return at, answer
        await answer.aclose()
        at = httpx.URL(urls.checked(_joined(at, target), "SimpleHttp"))
    raise Problem(f"more than {REDIRECTS} redirects")


def _joined(at: httpx.URL, target: str) -> str:
    try:
        return str(at.join(target))
    except (httpx.InvalidURL, ValueError):
        raise urls.BadAddress("the server redirects to what is no address") from None


async def _brisk(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The raw body; Unreachable when the network fails or brings next to nothing for a minute."""
    waited, got = 0.0, 0
    asked = time.monotonic()
    with _told(answer.request.url.host):
        async for piece in answer.aiter_raw():
            waited += time.monotonic() - asked
            got += len(piece)
            if waited > MINUTE:
                if got < SLOWEST * waited:
                    raise Unreachable(f"{answer.request.url.host[:100]}: sends less than {SLOWEST} bytes per second")
                waited, got = 0.0, 0
            yield piece
            asked = time.monotonic()


async def _gathered(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in blocks worth a write: at most BLOCK, and none kept for long."""
    # a piece is what one read of the connection gave, 64 KiB
    block, since = bytearray(), time.monotonic()
    try:
        async for piece in pieces:
            if len(block) + len(piece) > BLOCK:
                yield bytes(block)
                block, since = bytearray(), time.monotonic()
            block += piece
            if len(block) == BLOCK or time.monotonic() - since > PATIENCE:
                yield bytes(block)
                block, since = bytearray(), time.monotonic()
    except Problem:
        if block:
            yield bytes(block)  # what came before the failure need not be fetched again
        raise
    if block:
        yield bytes(block)
