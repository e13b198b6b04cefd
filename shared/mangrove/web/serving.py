"""Bytes of a storage as an HTTP answer: ranges, validators, and headers that prevent a browser from running them as
a page.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mangrove.configuration import throttle
from mangrove.core.http import format_content_disposition, format_http_date, guess_mime
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryChanged, TooLarge
from mangrove.drivers.base import Driver, Entry, SendableFile
from mangrove.tree.listing.entries import format_etag
from mangrove.tree.operations.archives import MemberStream
from mangrove.web.ranges import ByteRange, RangeNotSatisfiable, check_preconditions, parse_ranges

MAX_OPEN_ATTEMPTS = 5  # for a file that is replaced again and again
MIN_SENDFILE_BYTES = 256 << 10  # fewer bytes are sent as fast through the process
SENT_BYTES = "sent_bytes"
"""The key in the state of a request of the bytes that the server sent by itself."""
SENDFILE_EXTENSION = "mangrove.sendfile"
"""The key in a scope's `extensions` of `{"sender": FileSender}`, if the server has a sender."""
Stat = Callable[[bool], Awaitable[Entry]]
SANDBOX_HEADERS = {  # no browser runs a stored file, whatever its type
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "referrer-policy": "no-referrer",
}


async def serve_file(request: Request, driver: Driver, inner: TreePath, name: str, stat: Stat) -> Response:
    """Answer GET or HEAD of a file with headers and bytes of one version of it.

    `stat` returns its entry, and with True an entry that is not cached. The storage is opened before the first header
    is sent; if the file has changed by then, the answer is made again for the new version.
    """
    for attempt in range(MAX_OPEN_ATTEMPTS):
        version = FileVersion(driver, inner, await stat(attempt > 0), name)
        try:
            return await _serve_version(request, version)
        except EntryChanged:
            continue
    raise EntryChanged("the file changes faster than it can be opened")


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as its entry describes it, with the name under which it is sent."""

    driver: Driver
    inner: TreePath
    entry: Entry
    name: str

    async def open_file(self) -> SendableFile:
        """Open the file itself if its storage has files. Raise EntryChanged as `open`."""
        return await self.driver.open_file(self.inner, self.entry)

    async def open(self, byte_range: ByteRange | None = None) -> AsyncIterator[bytes]:
        """Open its bytes, or a range. Raise EntryChanged if the storage can tell that the file was replaced.

        A range with more or fewer bytes than expected aborts the answer. If the range is the whole file and the storage
        has no validators, the read has no limit, so that a longer file is noticed.
        """
        if byte_range is None:
            return await self.driver.read(self.inner, if_match=self.entry)
        is_unlimited = byte_range.length == self.entry.size and not self.entry.etag
        length = None if is_unlimited else byte_range.length
        body = await self.driver.read(self.inner, byte_range.start, length, self.entry)
        return _check_length(body, byte_range.length)


async def _check_length(body: AsyncIterator[bytes], length: int) -> AsyncIterator[bytes]:
    """Yield the body, but hold its last block until the length is verified.

    A client notices a truncated answer, but not a complete answer with wrong bytes.
    """
    source: Any = body
    remaining, last = length, b""
    async with aclosing(source):
        async for block in source:
            remaining -= len(block)
            if remaining < 0:
                break
            if remaining:
                yield block
            else:
                last = last or block
    if remaining:
        raise EntryChanged("the file changed while it was read")
    if last:
        yield last


async def _serve_version(request: Request, file: FileVersion) -> Response:
    """Answer with one version. A file of unknown size has no ranges and no Content-Length."""
    entry = file.entry
    etag, size = format_etag(entry), entry.size
    headers = {
        "etag": etag,
        "accept-ranges": "none" if size is None else "bytes",
        "content-disposition": format_content_disposition(file.name),
        **SANDBOX_HEADERS,
    }
    if entry.modified:
        headers["last-modified"] = format_http_date(entry.modified)
    status = check_preconditions(request.headers, etag, entry.modified, request.method)
    if status == 304:
        headers.pop("last-modified", None)
    if status is not None:
        return Response(status_code=status, headers=headers)
    headers["content-type"] = guess_mime(file.name)
    if size is None:
        if request.method == "HEAD":
            return _answer_head(headers, None)
        return await _stream_whole(await file.open(), headers, None)
    try:
        ranges = parse_ranges(request.headers, size, etag, entry.modified)
    except RangeNotSatisfiable as reason:
        return Response(str(reason), 416, {"content-range": f"bytes */{size}"}, "text/plain")
    _check_answer_size(sum(byte_range.length for byte_range in ranges) or size, request)
    if len(ranges) > 1:
        return await _serve_multipart(request, file, size, ranges, headers)
    byte_range = ranges[0] if ranges else ByteRange(0, size)
    if ranges:
        headers["content-range"] = byte_range.format_content_range(size)
    headers["content-length"] = str(byte_range.length)
    status = 206 if ranges else 200
    if request.method == "HEAD" or not byte_range.length:
        return Response(status_code=status, headers=headers)
    if _can_send_file(request.scope, file.driver, byte_range.length):
        return _FileResponse(await file.open_file(), byte_range, status, headers)
    return ClosingStream(await file.open(byte_range), status, headers)


async def serve_member(request: Request, body: MemberStream, headers: Mapping[str, str]) -> Response:
    """Answer GET or HEAD of a file in an archive, always as a whole: an archive has no ranges of its files."""
    name = body.member.path.rpartition("/")[2]
    own_headers = {
        "content-disposition": format_content_disposition(name),
        "content-type": guess_mime(name),
        **SANDBOX_HEADERS,
        **headers,
    }
    return await _serve_whole(request, body, own_headers, body.member.size)


async def serve_zip_bytes(request: Request, body: AsyncGenerator[bytes, None], name: str, size: int | None) -> Response:
    """Answer GET or HEAD with an archive that is made while it is sent: as a whole, and not from any cache."""
    headers = {
        "content-disposition": format_content_disposition(name),
        "content-type": "application/zip",
        "accept-ranges": "none",
        "cache-control": "no-store",
        **SANDBOX_HEADERS,
    }
    return await _serve_whole(request, body, headers, size)


async def _serve_whole(
    request: Request, body: MemberStream | AsyncGenerator[bytes, None], headers: dict[str, str], size: int | None
) -> Response:
    async with AsyncExitStack() as stack:
        stack.push_async_callback(body.aclose)
        _check_answer_size(size or 0, request)
        if request.method == "HEAD":
            return _answer_head(headers, size)
        stack.pop_all()
        return await _stream_whole(body, headers, size)


def serve_image(content: bytes, mime: str) -> Response:
    """Answer with an image that was made of a stored file, or is part of a setting."""
    return Response(content, media_type=mime, headers={"content-disposition": "attachment", **SANDBOX_HEADERS})


class ClosingStream(StreamingResponse):
    """A streamed body that closes its source even if the client disconnects."""

    def __init__(self, body: AsyncIterator[bytes], status: int, headers: dict[str, str]) -> None:
        self._body = body
        super().__init__(throttle.limit_client_download(body), status, headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            close = getattr(self._body, "aclose", None)
            if close is not None:
                await close()


class AnswerTooLarge(TooLarge):
    """The body has more bytes than pass through a function."""

    text = "this file is too large to pass through the function"


class FileSender(Protocol):
    """The sender of a server that can send files by itself."""

    async def send(self, file: SendableFile, offset: int, count: int) -> None:
        """Send a part of a file as the body of the answer that has started."""
        ...


def _can_send_file(scope: Scope, driver: Driver, length: int) -> bool:
    """True if the server may send the bytes of a file without passing them through this process."""
    return (
        length >= MIN_SENDFILE_BYTES
        and SENDFILE_EXTENSION in scope.get("extensions", ())
        and driver.capabilities.open_file
        and not throttle.limits_client_downloads()
    )


class _FileResponse(Response):
    """A part of an open file, which the server sends itself and which is closed afterwards."""

    def __init__(self, file: SendableFile, byte_range: ByteRange, status: int, headers: dict[str, str]) -> None:
        super().__init__(status_code=status, headers=headers)
        self._file = file
        self._range = byte_range

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sender: FileSender = scope["extensions"][SENDFILE_EXTENSION]["sender"]
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await sender.send(self._file, self._range.start, self._range.length)
            scope["state"][SENT_BYTES] = self._range.length
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._file.close()


def _answer_head(headers: dict[str, str], size: int | None) -> Response:
    answer = Response(headers=headers)
    if size is None:
        del answer.headers["content-length"]  # Starlette sets 0
    else:
        answer.headers["content-length"] = str(size)
    return answer


async def _stream_whole(body: AsyncIterator[bytes], headers: dict[str, str], size: int | None) -> Response:
    """Answer with all of `body`, which is closed afterwards.

    If the platform limits the size of an answer, a body of unknown size is collected first. Raise AnswerTooLarge
    over the limit.
    """
    if size is not None:
        return ClosingStream(body, 200, headers | {"content-length": str(size)})
    limit = platform().max_file_bytes
    if limit is None:
        return ClosingStream(body, 200, headers)
    source: Any = body
    collected = bytearray()
    async with aclosing(source):
        async for block in source:
            collected += block
            if len(collected) > limit:
                raise AnswerTooLarge
    return Response(bytes(collected), headers=headers)


def _check_answer_size(length: int, request: Request) -> None:
    limit = platform().max_file_bytes
    if limit is not None and request.method == "GET" and length > limit:
        raise AnswerTooLarge(f"{AnswerTooLarge.text} and its storage gives no direct link")


async def _serve_multipart(
    request: Request, file: FileVersion, size: int, ranges: Sequence[ByteRange], headers: dict[str, str]
) -> Response:
    boundary, mime = token_hex(16), headers["content-type"]
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {mime}\r\n"
        f"Content-Range: {byte_range.format_content_range(size)}\r\n\r\n".encode()
        for byte_range in ranges
    ]
    tail = f"\r\n--{boundary}--\r\n".encode()
    total = sum(map(len, heads)) + sum(byte_range.length for byte_range in ranges) + len(tail)
    headers |= {"content-type": f"multipart/byteranges; boundary={boundary}", "content-length": str(total)}
    if request.method == "HEAD":
        return Response(status_code=206, headers=headers)
    first: Any = await file.open(ranges[0])

    async def body() -> AsyncIterator[bytes]:
        async with aclosing(first):
            for head, byte_range in zip(heads, ranges, strict=True):
                yield head
                source: Any = first if byte_range is ranges[0] else await file.open(byte_range)
                async with aclosing(source):
                    async for block in source:
                        yield block
            yield tail

    return ClosingStream(body(), 206, headers)
