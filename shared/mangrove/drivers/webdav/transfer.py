"""Bodies of files: sending them in small pieces, and reading ranges of a file that is still the expected one."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from typing import IO

import httpx

from mangrove.core.chunked import stream
from mangrove.core.problems import NotAFile, StorageProblem
from mangrove.drivers.base import BLOCK, Entry, Upload
from mangrove.drivers.refusals import refuse_changed, refuse_other_size
from mangrove.drivers.webdav.client import WebDavClient
from mangrove.drivers.webdav.errors import make_problem, translate_errors
from mangrove.drivers.webdav.resources import parse_date

SEND_PIECE_BYTES = 256 << 10  # larger pieces are copied several times in transit
_LENGTH_REQUIRED = 411
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


async def open_file(
    server: WebDavClient, url: str, offset: int, length: int | None, if_match: Entry | None
) -> AsyncIterator[bytes]:
    """Open a file for `length` bytes from `offset`, fewer at its end. Raise EntryChanged if it is not `if_match`."""
    headers = {} if not offset and length is None else {"range": _format_range(offset, length)}
    response = await server.open("GET", url, headers)
    try:
        status = response.status_code
        if status == 416 and offset:
            await response.aclose()
            return stream(b"")
        if status not in (200, 206):
            raise NotAFile if status == 405 else make_problem(status)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise StorageProblem("the WebDAV server sends the file with an encoding that was not requested")
        skipped, total = _find_span(response, offset)
        if if_match is not None:
            refuse_changed(_make_entry(response, total, if_match), if_match)
    except BaseException:
        await response.aclose()
        raise
    return FileStream(response, skipped, length)


def _format_range(offset: int, length: int | None) -> str:
    return f"bytes={offset}-{'' if length is None else offset + length - 1}"


def _find_span(response: httpx.Response, offset: int) -> tuple[int, int | None]:
    """Return the number of bytes before the requested ones, and the size of the file, None if unknown."""
    if response.status_code == 200:  # a server may answer a range with the whole file
        length = response.headers.get("content-length", "")
        return offset, int(length) if length.isdecimal() and len(length) < 19 else None
    span = _RANGE.fullmatch(response.headers.get("content-range", ""))
    if span is None or int(span[1]) != offset:
        raise StorageProblem("the WebDAV server answers with another range than the requested one")
    return 0, None if span[3] == "*" else int(span[3])


def _make_entry(response: httpx.Response, size: int | None, shown: Entry) -> Entry:
    """Return the entry of an answer, completed from the entry that was shown before."""
    headers = response.headers
    modified = parse_date(headers.get("last-modified", ""))
    # A weak validator, such as Apache's for a new file, still differs between two files.
    etag = strip_etag(headers.get("etag", "").removeprefix("W/"))
    return Entry(shown.name, shown.size if size is None else size, modified or shown.modified, False, etag=etag)


def strip_etag(text: str) -> str:
    """Return a strong validator without its quotes; "" for a weak or missing one."""
    is_strong = len(text) > 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_strong else ""


class FileStream:
    """The bytes of an answer after the first `skipped`, at most `length`.

    Closing it frees the connection, also before the first block was read.
    """

    def __init__(self, response: httpx.Response, skipped: int, length: int | None) -> None:
        self._response = response
        self._blocks = self._read(skipped, length)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._blocks)

    async def aclose(self) -> None:
        await self._blocks.aclose()
        await self._response.aclose()

    async def _read(self, skipped: int, length: int | None) -> AsyncGenerator[bytes]:
        try:
            pieces = self._response.aiter_raw()
            while length is None or length > 0:
                with translate_errors():
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                skipped, piece = max(skipped - len(piece), 0), piece[skipped:]
                if length is not None:
                    piece = piece[:length]
                    length -= len(piece)
                for start in range(0, len(piece), BLOCK):
                    yield piece[start : start + BLOCK]
        finally:
            await self._response.aclose()


class Uploader:
    """Uploads files to a server. It remembers if the server accepts a body of unknown size."""

    def __init__(self, server: WebDavClient) -> None:
        self._server = server
        self._takes_chunks: bool | None = None

    async def put(self, url: str, body: AsyncIterator[bytes], upload: Upload) -> None:
        """Store a body as the new file at `url`."""
        headers = {"content-type": upload.mime or "application/octet-stream"}
        if upload.modified > 0:
            headers["x-oc-mtime"] = str(int(upload.modified))
        size = upload.size
        if size is None:
            first, body = await _peek(body)
            size = len(first) if len(first) < BLOCK else None
        if not self._server.can_sign or (size is None and self._takes_chunks is None):
            await self._put_empty(url, headers)
        if size is None and not self._takes_chunks:
            await self._put_spooled(url, body, headers)
        else:
            await self._put(url, body, headers, size)

    async def _put(self, url: str, body: AsyncIterator[bytes], headers: dict[str, str], size: int | None) -> None:
        length = {} if size is None else {"content-length": str(size)}
        self._check(await self._server.change("PUT", url, headers | length, _cut(body, size)))

    def _check(self, status: int) -> None:
        if status not in (200, 201, 202, 204):
            raise make_problem(status)

    async def _put_empty(self, url: str, headers: dict[str, str]) -> None:
        """Put an empty file in chunks, to learn if the server accepts that: a body can be sent only once."""
        for _ in range(2):
            status = await self._server.change("PUT", url, headers, stream(b""))
            if status != 401:
                break
        self._takes_chunks = status != _LENGTH_REQUIRED
        if status != _LENGTH_REQUIRED:
            self._check(status)

    async def _put_spooled(self, url: str, body: AsyncIterator[bytes], headers: dict[str, str]) -> None:
        """Store a body in a temporary file first, since the server requires its size before the first byte."""
        try:
            with await asyncio.to_thread(tempfile.TemporaryFile) as spool:
                size = 0
                async for block in body:
                    size += await asyncio.to_thread(spool.write, block)
                await asyncio.to_thread(spool.seek, 0)
                await self._put(url, _read(spool), headers, size)
        except OSError as error:
            raise StorageProblem(f"no space for a temporary copy of a file of unknown size: {error.strerror}") from None


async def _peek(body: AsyncIterator[bytes]) -> tuple[bytes, AsyncIterator[bytes]]:
    """Return the first BLOCK bytes or more, fewer only for a shorter body, and the whole body."""
    first = bytearray()
    while len(first) < BLOCK:
        block = await anext(body, None)
        if block is None:
            break
        first += block
    content = bytes(first)

    async def whole() -> AsyncIterator[bytes]:
        yield content
        async for block in body:
            yield block

    return content, whole()


async def _cut(body: AsyncIterator[bytes], size: int | None) -> AsyncIterator[bytes]:
    """Yield a body in pieces. Raise BadRequest if it ends before `size` bytes."""
    sent = 0
    async for block in body:
        for start in range(0, len(block), SEND_PIECE_BYTES):
            yield block[start : start + SEND_PIECE_BYTES]
        sent += len(block)
    refuse_other_size(sent, size)


async def _read(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while block := await asyncio.to_thread(spool.read, BLOCK):
        yield block
