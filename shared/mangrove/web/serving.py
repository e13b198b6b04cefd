"""Bytes of a storage as an HTTP answer: ranges, validators, and headers that keep them from running as a page."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from secrets import token_hex
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mangrove.config import config
from mangrove.drivers.base import Driver, Entry
from mangrove.headers import format_content_disposition
from mangrove.paths import TreePath
from mangrove.problems import TooLarge
from mangrove.tree.archives import MemberStream
from mangrove.web.ranges import ByteRange, RangeNotSatisfiable, check_preconditions, format_http_date, parse_ranges

LARGEST_CLOUD_ANSWER = 4_400_000  # bytes that pass a buffered Lambda answer in base64
EXTRA_TYPES = {"apk": "application/vnd.android.package-archive"}
SANDBOX_HEADERS = {  # no browser runs what was stored, in whatever type it is
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "referrer-policy": "no-referrer",
}


def guess_mime(name: str) -> str:
    """The type a name suggests, text with its charset."""
    extension = name.rpartition(".")[2].lower()
    kind = EXTRA_TYPES.get(extension) or mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def format_etag(entry: Entry) -> str:
    """A strong validator, with quotes."""
    if entry.etag or entry.hashes:
        return f'"{entry.etag or max((entry.hashes or {}).values())}"'
    size = "" if entry.size is None else f"{entry.size:x}"
    return f'"{int(entry.modified * 1e9):x}-{size}"'


async def serve_file(request: Request, driver: Driver, inner: TreePath, entry: Entry, name: str) -> Response:
    """The answer to GET or HEAD of a file. The storage is opened before the first header is sent.

    A file of unknown size has no ranges and no Content-Length.
    """
    etag, size = format_etag(entry), entry.size
    headers = {
        "etag": etag,
        "accept-ranges": "none" if size is None else "bytes",
        "content-disposition": format_content_disposition(name),
        **SANDBOX_HEADERS,
    }
    if entry.modified:
        headers["last-modified"] = format_http_date(entry.modified)
    status = check_preconditions(request.headers, etag, entry.modified, request.method)
    if status == 304:
        headers.pop("last-modified", None)
    if status is not None:
        return Response(status_code=status, headers=headers)
    mime = guess_mime(name)
    if size is None:
        headers["content-type"] = mime
        if request.method == "HEAD":
            return _answer_head(headers, None)
        return await _stream_whole(await driver.read(inner), headers, None)
    try:
        ranges = parse_ranges(request.headers, size, etag, entry.modified)
    except RangeNotSatisfiable as reason:
        return Response(str(reason), 416, {"content-range": f"bytes */{size}"}, "text/plain")
    _check_answer_size(sum(one.length for one in ranges) or size, request)
    if len(ranges) > 1:
        return await _serve_multipart(request, driver, inner, size, ranges, headers, mime)
    wanted = ranges[0] if ranges else ByteRange(0, size)
    if ranges:
        headers["content-range"] = wanted.format_content_range(size)
    headers |= {"content-length": str(wanted.length), "content-type": mime}
    status = 206 if ranges else 200
    if request.method == "HEAD" or not wanted.length:
        return Response(status_code=status, headers=headers)
    return ClosingStream(await driver.read(inner, wanted.start, wanted.length), status, headers)


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
        super().__init__(body, status, headers)

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

    A function of the cloud answers at once: a body of unknown size is collected there; TooLarge as soon as it cannot
    pass the function.
    """
    if size is not None:
        return ClosingStream(body, 200, headers | {"content-length": str(size)})
    if config().on_one_machine:
        return ClosingStream(body, 200, headers)
    source: Any = body
    collected = bytearray()
    async with aclosing(source):
        async for block in source:
            collected += block
            if len(collected) > LARGEST_CLOUD_ANSWER:
                raise TooLarge("this file is too large to pass through the function")
    return Response(bytes(collected), headers=headers)


def _check_answer_size(length: int, request: Request) -> None:
    if not config().on_one_machine and request.method == "GET" and length > LARGEST_CLOUD_ANSWER:
        raise TooLarge("this file is too large to pass through the function and its storage gives no direct link")


async def _serve_multipart(
    request: Request,
    driver: Driver,
    inner: TreePath,
    size: int,
    ranges: Sequence[ByteRange],
    headers: dict[str, str],
    mime: str,
) -> Response:
    boundary = token_hex(16)
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {mime}\r\nContent-Range: {one.format_content_range(size)}\r\n\r\n".encode()
        for one in ranges
    ]
    tail = f"\r\n--{boundary}--\r\n".encode()
    total = sum(map(len, heads)) + sum(one.length for one in ranges) + len(tail)
    headers |= {"content-type": f"multipart/byteranges; boundary={boundary}", "content-length": str(total)}
    if request.method == "HEAD":
        return Response(status_code=206, headers=headers)

    async def body() -> AsyncIterator[bytes]:
        for head, one in zip(heads, ranges, strict=True):
            yield head
            source: Any = await driver.read(inner, one.start, one.length)
            async with aclosing(source):
                async for block in source:
                    yield block
        yield tail

    return ClosingStream(body(), 206, headers)
