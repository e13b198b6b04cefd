"""SimpleHttp: files that this service itself downloads over HTTP, continued after an interruption if the server can."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpx

from mangrove.core.http import parse_integer
from mangrove.core.problems import Problem, Unreachable
from mangrove.net.addresses import AddressPolicy
from mangrove.net.client import MAX_REDIRECTS, make_client, translate_errors
from mangrove.tools import names, urls

BLOCK_SIZE = 1 << 20  # bytes
MAX_DELAY = 1.0  # seconds for which small pieces are collected
MIN_RATE = 1024  # bytes per second, on average over RATE_WINDOW seconds of waiting
RATE_WINDOW = 60.0
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_UNSATISFIED_RANGE = re.compile(r"bytes \*/(\d{1,18})")
RATIO_EXEMPT = 64 << 20  # bytes that may be decompressed at any ratio
MAX_RATIO = 200  # decompressed to received bytes
_COMPRESSED_FILE = re.compile(r"\.(gz|tgz|svgz|bz2|tbz2?|xz|txz|zst|tzst|br|lz4?|z|zip|7z|rar|warc)$", re.IGNORECASE)
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class UnexpectedStatus(Problem):
    """The server answers, but not with the file."""


class LengthMismatch(Problem):
    """The body is longer or shorter than announced."""


class BodyRange(NamedTuple):
    """The start of a body in the file, the file's size and the body's length in bytes; None if unknown."""

    offset: int
    size: int | None
    length: int | None


class FetchResponse:
    """A file that is being received.

    `size`: of the whole file in bytes, None if the server does not report it. `offset`: the position in the file at
    which `iter_blocks` starts: the requested offset, or 0 if the server starts again because it cannot continue or the
    file has changed. `resumable`: it can be continued later, with `validator`.
    """

    def __init__(self, response: httpx.Response, url: httpx.URL, body: BodyRange) -> None:
        headers = response.headers
        encoding = headers.get("content-encoding", "")
        self.name = names.make_file_name(url, headers.get("content-disposition", ""))
        self.offset = body.offset
        self.validator = _get_validator(headers)
        self._encoding = encoding if needs_decoding(encoding, self.name) else ""
        self.size = None if self._encoding else body.size
        accepts_ranges = body.offset > 0 or headers.get("accept-ranges", "").strip().lower() == "bytes"
        self.resumable = bool(self.validator and accepts_ranges and not self._encoding)
        self._response = response
        self._length = body.length

    async def iter_blocks(self) -> AsyncIterator[bytes]:
        """Yield the bytes from `offset` on, in blocks of at most BLOCK_SIZE.

        Raise LengthMismatch for more or fewer than announced, Unreachable for a network failure.
        """
        body = self._iter_body()
        async for block in decode_body(self._encoding, body) if self._encoding else body:
            yield block

    async def _iter_body(self) -> AsyncIterator[bytes]:
        received = 0
        if self._length == 0:
            return
        async for block in _rechunk(_iter_raw(self._response)):
            received += len(block)
            if self._length is not None and received > self._length:
                raise LengthMismatch(f"the server sends more than the {self._length} bytes it announced")
            yield block
        if self._length is not None and received < self._length:
            raise LengthMismatch(f"the server sent {received} of {self._length} bytes")


def _get_validator(headers: httpx.Headers) -> str:
    """Return the validator of the file for If-Range: a strong ETag or a strong date; "" for neither."""
    tag: str = headers.get("etag", "").strip()
    if tag.startswith('"') and tag.endswith('"') and len(tag) > 2:
        return tag
    changed: str = headers.get("last-modified", "").strip()
    try:
        age = parsedate_to_datetime(headers.get("date", "")) - parsedate_to_datetime(changed)
        return changed if age.total_seconds() >= 1 else ""
    except (TypeError, ValueError, OverflowError):
        return ""


@asynccontextmanager
async def fetch(url: str, policy: AddressPolicy, offset: int = 0, validator: str = "") -> AsyncIterator[FetchResponse]:
    """Open the file at `url`, from `offset` on if it still matches `validator`, otherwise from its start.

    Raise InvalidUrl and ForbiddenAddress for a URL that may not be opened, also behind redirects; UnexpectedStatus for
    an answer without a file; Unreachable for a network failure.
    """
    start = offset if validator else 0
    async with make_client(policy) as client:
        location, response = await _send(client, url, start, validator)
        try:
            body = _parse_range(response, start, validator)
            if body is None and response.status_code in (206, 416) and start:
                await response.aclose()
                location, response = await _send(client, url, 0, "")
                body = _parse_range(response, 0, "")
            if body is None:
                raise UnexpectedStatus(f"http status code {response.status_code}")
            yield FetchResponse(response, location, body)
        finally:
            await response.aclose()


def _parse_range(response: httpx.Response, start: int, validator: str) -> BodyRange | None:
    """Return the part of the file in the body; None if it is not the file, or not the requested part."""
    headers, status = response.headers, response.status_code
    content_range = headers.get("content-range", "").strip()
    if status == 206 and start and (match := _CONTENT_RANGE.fullmatch(content_range)):
        first, last, size = int(match[1]), int(match[2]), parse_integer(match[3])
        unchanged = _get_validator(headers) in ("", validator) and not headers.get("content-encoding", "")
        fits = first == start and last >= first and (size is None or last == size - 1)
        return BodyRange(first, size, last - first + 1) if unchanged and fits else None
    if status == 416 and start and (match := _UNSATISFIED_RANGE.fullmatch(content_range)):
        return BodyRange(start, start, 0) if int(match[1]) == start else None
    if 200 <= status < 204:
        length = parse_integer(headers.get("content-length", ""))
        return BodyRange(0, length, length)
    return None


async def _send(client: httpx.AsyncClient, url: str, offset: int, validator: str) -> tuple[httpx.URL, httpx.Response]:
    """Return the final URL and the response behind all redirects, its body unread."""
    headers = {"range": f"bytes={offset}-", "if-range": validator} if offset else {}
    location = httpx.URL(urls.normalize_url(url, "SimpleHttp"))
    for _ in range(MAX_REDIRECTS + 1):
        client.cookies.clear()
        with translate_errors(location.host):
            response = await client.send(client.build_request("GET", location, headers=headers), stream=True)
        target = response.headers.get("location", "")
        if response.status_code not in (301, 302, 303, 307, 308) or not target:
            return location, response
        await response.aclose()
        location = httpx.URL(urls.normalize_url(_join(location, target), "SimpleHttp"))
    raise Problem(f"more than {MAX_REDIRECTS} redirects")


def _join(location: httpx.URL, target: str) -> str:
    try:
        return str(location.join(target))
    except (httpx.InvalidURL, ValueError):
        raise urls.InvalidUrl("the server redirects to what is no address") from None


async def _iter_raw(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the raw body. Raise Unreachable if the network fails or the body is slower than MIN_RATE."""
    waiting, received = 0.0, 0
    host = response.request.url.host
    since = time.monotonic()
    with translate_errors(host):
        async for piece in response.aiter_raw():
            waiting += time.monotonic() - since
            received += len(piece)
            if waiting > RATE_WINDOW:
                if received < MIN_RATE * waiting:
                    raise Unreachable(f"{host[:100]}: sends less than {MIN_RATE} bytes per second")
                waiting, received = 0.0, 0
            yield piece
            since = time.monotonic()


async def _rechunk(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in blocks of at most BLOCK_SIZE, none delayed longer than MAX_DELAY.

    A piece is the result of one read of the connection, 64 KiB: too small for a write each.
    """
    block, since = bytearray(), time.monotonic()
    try:
        async for piece in pieces:
            if len(block) + len(piece) > BLOCK_SIZE:
                yield bytes(block)
                block, since = bytearray(), time.monotonic()
            block += piece
            if len(block) == BLOCK_SIZE or time.monotonic() - since > MAX_DELAY:
                yield bytes(block)
                block, since = bytearray(), time.monotonic()
    except Problem:
        if block:
            yield bytes(block)  # the bytes before the failure need not be fetched again
        raise
    if block:
        yield bytes(block)


def needs_decoding(encoding: str, name: str) -> bool:
    """True if a body in this Content-Encoding must be decoded to get the file `name`. Raise Problem for an unknown
    encoding.

    Servers declare an encoding for compressed files, too: those are kept as they are sent.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or _COMPRESSED_FILE.search(name):
        return False
    if encoding not in _WINDOW_BITS:
        raise Problem("the server sends the file in an encoding that nobody asked for")
    return True


async def decode_body(encoding: str, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the decoded bytes of a body, in blocks of at most BLOCK_SIZE. Raise Problem if it is broken or a bomb."""
    decompressor = zlib.decompressobj(_WINDOW_BITS[encoding.strip().lower()])
    received = decoded = 0
    async for block in body:
        received += len(block)
        while block and not decompressor.eof:
            try:
                piece = decompressor.decompress(block, BLOCK_SIZE)
            except zlib.error:
                raise Problem("the file is sent in a broken encoding") from None
            block = decompressor.unconsumed_tail
            decoded += len(piece)
            if decoded > RATIO_EXEMPT and decoded > received * MAX_RATIO:
                raise Problem("the file unpacks to far more than is sent")
            if piece:
                yield piece
    if not decompressor.eof:
        raise Problem("the file was cut off on its way")
