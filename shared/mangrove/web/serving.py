"""Bytes of a storage as an HTTP answer: ranges, validators, and headers that keep them from running as a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mangrove.configuration import throttle
from mangrove.core.http import format_content_disposition, format_http_date, guess_mime
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryChanged, TooLarge
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.sending import OpensFiles, SendableFile
from mangrove.tree.listing.entries import format_etag
from mangrove.tree.operations.archives import MemberStream
from mangrove.web.ranges import ByteRange, RangeNotSatisfiable, check_preconditions, parse_ranges
from mangrove.web.sending import FileResponse, can_send_file

TRIES = 5  # to open a file that is replaced again and again
Stat = Callable[[bool], Awaitable[Entry]]
SANDBOX_HEADERS = {  # no browser runs what was stored, in whatever type it is
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "referrer-policy": "no-referrer",
}


async def serve_file(request: Request, driver: Driver, inner: TreePath, name: str, stat: Stat) -> Response:
    """The answer to GET or HEAD of a file, headers and bytes of one version of it.

    `stat` answers its entry, and with True one that no cache knew. The storage is opened before the first header is
    sent; when another file is there by then the answer is made anew for that one.
    """
    for number in range(TRIES):
        version = FileVersion(driver, inner, await stat(number > 0), name)
        try:
            return await _serve_version(request, version)
        except EntryChanged:
            continue
    raise EntryChanged("the file changes faster than it can be opened")


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as its entry describes it, to be sent under a name."""

    driver: Driver
    inner: TreePath
    entry: Entry
    name: str

    async def open_file(self) -> SendableFile:
        """The file itself, of a storage that opens files; EntryChanged as `open`."""
        assert isinstance(self.driver, OpensFiles)
        return await self.driver.open_file(self.inner, self.entry)

    async def open(self, wanted: ByteRange | None = None) -> AsyncIterator[bytes]:
        """Its bytes, or those of a range; EntryChanged when it is another file by now, as far as the storage can tell.

        More or fewer of a range than there should be break the answer off. A storage without validators is asked for
        all there is where the range is the whole file, so that a longer one is noticed.
        """
        if wanted is None:
            return await self.driver.read(self.inner, if_match=self.entry)
        is_unlimited = wanted.length == self.entry.size and not self.entry.etag
        length = None if is_unlimited else wanted.length
        return _check_length(await self.driver.read(self.inner, wanted.start, length, self.entry), wanted.length)


async def _check_length(body: AsyncIterator[bytes], length: int) -> AsyncIterator[bytes]:
    """The body, whose last block is kept back until it is known to be the last: an answer that is cut is noticed, one
    that only looks whole is not."""
    source: Any = body
    left, last = length, b""
    async with aclosing(source):
        async for block in source:
            left -= len(block)
            if left < 0:
                break
            if left:
                yield block
            else:
                last = last or block
    if left:
        raise EntryChanged("the file changed while it was read")
    if last:
        yield last


async def _serve_version(request: Request, file: FileVersion) -> Response:
    """A file of unknown size has no ranges and no Content-Length."""
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
    _check_answer_size(sum(one.length for one in ranges) or size, request)
    if len(ranges) > 1:
        return await _serve_multipart(request, file, size, ranges, headers)
    wanted = ranges[0] if ranges else ByteRange(0, size)
    if ranges:
        headers["content-range"] = wanted.format_content_range(size)
    headers["content-length"] = str(wanted.length)
    status = 206 if ranges else 200
    if request.method == "HEAD" or not wanted.length:
        return Response(status_code=status, headers=headers)
    if can_send_file(request.scope, file.driver, wanted.length):
        return FileResponse(await file.open_file(), wanted.start, wanted.length, status, headers)
    return ClosingStream(await file.open(wanted), status, headers)


async def serve_member(request: Request, body: MemberStream, headers: Mapping[str, str]) -> Response:
    """The answer to GET or HEAD of one file of an archive: the whole of it, as no part of it can be had alone."""
    name = body.member.path.rpartition("/")[2]
    own = {
        "content-disposition": format_content_disposition(name),
        "content-type": guess_mime(name),
        **SANDBOX_HEADERS,
        **headers,
    }
    size = body.member.size
    async with AsyncExitStack() as stack:
        stack.push_async_callback(body.aclose)
        _check_answer_size(size or 0, request)
        if request.method == "HEAD":
            return _answer_head(own, size)
        stack.pop_all()
        return await _stream_whole(body, own, size)


def serve_image(content: bytes, mime: str) -> Response:
    """An image that was made of a stored file, or stands in a setting."""
    return Response(content, media_type=mime, headers={"content-disposition": "attachment", **SANDBOX_HEADERS})


class ClosingStream(StreamingResponse):
    """A streamed body that closes its source also when the client goes away."""

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


def _answer_head(headers: dict[str, str], size: int | None) -> Response:
    answer = Response(headers=headers)
    if size is None:
        del answer.headers["content-length"]  # 0, which it is not
    else:
        answer.headers["content-length"] = str(size)
    return answer


async def _stream_whole(body: AsyncIterator[bytes], headers: dict[str, str], size: int | None) -> Response:
    """All of `body`, which is closed afterwards.

    Where the size of a file is bounded, a body of unknown size is collected; TooLarge as soon as it is over the bound.
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
                raise TooLarge("this file is too large to pass through the function")
    return Response(bytes(collected), headers=headers)


def _check_answer_size(length: int, request: Request) -> None:
    limit = platform().max_file_bytes
    if limit is not None and request.method == "GET" and length > limit:
        raise TooLarge("this file is too large to pass through the function and its storage gives no direct link")


async def _serve_multipart(
    request: Request, file: FileVersion, size: int, ranges: Sequence[ByteRange], headers: dict[str, str]
) -> Response:
    boundary, mime = token_hex(16), headers["content-type"]
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {mime}\r\nContent-Range: {one.format_content_range(size)}\r\n\r\n".encode()
        for one in ranges
    ]
    tail = f"\r\n--{boundary}--\r\n".encode()
    total = sum(map(len, heads)) + sum(one.length for one in ranges) + len(tail)
    headers |= {"content-type": f"multipart/byteranges; boundary={boundary}", "content-length": str(total)}
    if request.method == "HEAD":
        return Response(status_code=206, headers=headers)
    first: Any = await file.open(ranges[0])

    async def body() -> AsyncIterator[bytes]:
        async with aclosing(first):
            for head, one in zip(heads, ranges, strict=True):
                yield head
                source: Any = first if one is ranges[0] else await file.open(one)
                async with aclosing(source):
                    async for block in source:
                        yield block
            yield tail

    return ClosingStream(body(), 206, headers)
