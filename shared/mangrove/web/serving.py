"""Bytes of a storage as an HTTP answer: ranges, validators, and headers that keep them from running as a page."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mangrove.config import config
from mangrove.drivers.base import Driver, Entry
from mangrove.paths import TreePath
from mangrove.problems import TooLarge
from mangrove.tree.archives import MemberStream
from mangrove.web.ranges import Span, Unsatisfiable, http_date, precondition, spans

LARGEST_CLOUD_ANSWER = 4_400_000  # bytes that pass a buffered Lambda answer in base64
EXTRA_TYPES = {"apk": "application/vnd.android.package-archive"}
CONTAINED = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "referrer-policy": "no-referrer",
}


def disposition(name: str) -> str:
    """Always an attachment; the name percent-encoded in both forms, so that no byte of it can end the header."""
    safe = quote(name, safe="")
    return f"attachment; filename=\"{safe}\"; filename*=utf-8''{safe}"


def mime_of(name: str) -> str:
    """The type a name suggests, text with its charset."""
    extension = name.rpartition(".")[2].lower()
    kind = EXTRA_TYPES.get(extension) or mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def etag_of(entry: Entry) -> str:
    """A strong validator, with quotes."""
    if entry.etag or entry.hashes:
        return f'"{entry.etag or max((entry.hashes or {}).values())}"'
    return f'"{int(entry.modified * 1e9):x}-{entry.size:x}"'


async def served(request: Request, driver: Driver, inner: TreePath, entry: Entry, name: str) -> Response:
    """The answer to GET or HEAD of a file. The storage is opened before the first header is sent."""
    etag = etag_of(entry)
    headers = {"etag": etag, "accept-ranges": "bytes", "content-disposition": disposition(name), **CONTAINED}
    if entry.modified:
        headers["last-modified"] = http_date(entry.modified)
    status = precondition(request.headers, etag, entry.modified, request.method)
    if status == 304:
        headers.pop("last-modified", None)
    if status is not None:
        return Response(status_code=status, headers=headers)
    try:
        parts = spans(request.headers, entry.size, etag, entry.modified)
    except Unsatisfiable as reason:
        return Response(str(reason), 416, {"content-range": f"bytes */{entry.size}"}, "text/plain")
    _fits(sum(part.length for part in parts) or entry.size, request)
    kind = mime_of(name)
    if len(parts) > 1:
        return await _multipart(request, driver, inner, entry.size, parts, headers, kind)
    span = parts[0] if parts else Span(0, entry.size)
    if parts:
        headers["content-range"] = span.header(entry.size)
    headers |= {"content-length": str(span.length), "content-type": kind}
    status = 206 if parts else 200
    if request.method == "HEAD" or not span.length:
        return Response(status_code=status, headers=headers)
    return Stream(await driver.read(inner, span.start, span.length), status, headers)


async def unpacked(request: Request, body: MemberStream, headers: Mapping[str, str]) -> Response:
    """The answer to GET or HEAD of one file of an archive: the whole of it, as no part of it can be had alone."""
    name = body.member.path.rpartition("/")[2]
    own = {"content-disposition": disposition(name), "content-type": mime_of(name), **CONTAINED, **headers}
    size, streamed = body.member.size, False
    try:
        if size is not None:
            _fits(size, request)
            own["content-length"] = str(size)
        if request.method == "HEAD":
            return Response(headers=own)
        if size is None and not config().on_one_machine:
            return Response(await _small(body), headers=own)
        streamed = True
        return Stream(body, 200, own)
    finally:
        if not streamed:
            await body.aclose()


async def _small(body: MemberStream) -> bytes:
    """A body whose size only its end tells; TooLarge as soon as it cannot pass the function."""
    found = bytearray()
    async for block in body:
        found += block
        if len(found) > LARGEST_CLOUD_ANSWER:
            raise TooLarge("this file is too large to pass through the function")
    return bytes(found)


def picture(content: bytes, mime: str) -> Response:
    """A thumbnail, as contained as the file it was made of."""
    return Response(content, media_type=mime, headers={"content-disposition": "attachment", **CONTAINED})


class Stream(StreamingResponse):
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


def _fits(length: int, request: Request) -> None:
    if not config().on_one_machine and request.method == "GET" and length > LARGEST_CLOUD_ANSWER:
        raise TooLarge("this file is too large to pass through the function and its storage gives no direct link")


async def _multipart(
    request: Request,
    driver: Driver,
    inner: TreePath,
    size: int,
    parts: Sequence[Span],
    headers: dict[str, str],
    kind: str,
) -> Response:
    boundary = token_hex(16)
    heads = [
        f"\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {part.header(size)}\r\n\r\n".encode()
        for part in parts
    ]
    tail = f"\r\n--{boundary}--\r\n".encode()
    total = sum(map(len, heads)) + sum(part.length for part in parts) + len(tail)
    headers |= {"content-type": f"multipart/byteranges; boundary={boundary}", "content-length": str(total)}
    if request.method == "HEAD":
        return Response(status_code=206, headers=headers)

    async def body() -> AsyncIterator[bytes]:
        for head, part in zip(heads, parts, strict=True):
            yield head
            source: Any = await driver.read(inner, part.start, part.length)
            async with aclosing(source):
                async for block in source:
                    yield block
        yield tail

    return Stream(body(), 206, headers)
