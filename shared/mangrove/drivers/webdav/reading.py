"""Opening a file: ranges, also of servers that do not know them, and whether it is still the one that was shown."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator

import httpx

from mangrove.core.chunked import stream
from mangrove.core.problems import NotAFile, StorageProblem
from mangrove.drivers.base import BLOCK, Entry
from mangrove.drivers.refusals import refuse_changed
from mangrove.drivers.webdav.dates import parse_date
from mangrove.drivers.webdav.errors import make_problem, translate_errors
from mangrove.drivers.webdav.server import Server

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


async def open_file(
    server: Server, url: str, offset: int, length: int | None, if_match: Entry | None
) -> AsyncIterator[bytes]:
    """`length` bytes from `offset`, fewer where the file ends; EntryChanged when it is not `if_match`."""
    wanted = {} if not offset and length is None else {"range": _format_range(offset, length)}
    response = await server.open("GET", url, wanted)
    try:
        status = response.status_code
        if status == 416 and offset:
            await response.aclose()
            return stream(b"")
        if status not in (200, 206):
            raise NotAFile if status == 405 else make_problem(status)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise StorageProblem("the WebDAV server sends the file encoded, which was not asked for")
        skipped, total = _find_span(response, offset)
        if if_match is not None:
            refuse_changed(_make_entry(response, total, if_match), if_match)
    except BaseException:
        await response.aclose()
        raise
    return FileBody(response, skipped, length)


def _format_range(offset: int, length: int | None) -> str:
    return f"bytes={offset}-{'' if length is None else offset + length - 1}"


def _find_span(response: httpx.Response, offset: int) -> tuple[int, int | None]:
    """Bytes before the first one that is wanted, and the size of the file, None where it is not told."""
    if response.status_code == 200:  # a server may answer a range with the whole file
        length = response.headers.get("content-length", "")
        return offset, int(length) if length.isdecimal() and len(length) < 19 else None
    span = _RANGE.fullmatch(response.headers.get("content-range", ""))
    if span is None or int(span[1]) != offset:
        raise StorageProblem("the WebDAV server answers with another range than was asked for")
    return 0, None if span[3] == "*" else int(span[3])


def _make_entry(response: httpx.Response, size: int | None, shown: Entry) -> Entry:
    """The file that is opened here, as far as the answer tells; for the rest it is the one that was shown."""
    headers = response.headers
    modified = parse_date(headers.get("last-modified", ""))
    # a validator that a server calls weak, as Apache that of a fresh file, still tells two files apart
    etag = strip_etag(headers.get("etag", "").removeprefix("W/"))
    return Entry(shown.name, shown.size if size is None else size, modified or shown.modified, False, etag=etag)


def strip_etag(text: str) -> str:
    """A strong validator without its quotes; "" for a weak one and for none."""
    is_strong = len(text) > 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_strong else ""


class FileBody:
    """The bytes of an answer: all but the first `skipped`, at most `length`. Closing it frees the connection, also
    before the first block was asked for."""

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
