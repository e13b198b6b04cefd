"""Answers of the JSON endpoints: `{"code", "message", "data"}`, always with HTTP status 200, compressed if worthwhile.

A failure also has `problem`, the name of its class (`mangrove.core.problems`), except for clients of OpenList.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mangrove.core.chunked import PendingRows
from mangrove.core.http import make_retry_after
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, TooLarge
from mangrove.core.runtime import CacheKind
from mangrove.web.flavours import ApiFlavour

MIN_COMPRESSED_BYTES = 1024  # a shorter answer is sent as it is
MAX_INLINE_COMPRESSION_BYTES = 32 << 10  # compressed in less time than a thread takes to start
MAX_CACHED_BYTES = 1 << 20  # of one answer, before compression
GZIP_LEVEL = 2
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
COMPRESSED_ANSWERS: CacheKind[bytes, bytes] = CacheKind("compressed answers", 8 << 20, len)  # bytes
_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
_HEADERS = {"content-type": "application/json; charset=utf-8", "x-content-type-options": "nosniff"}
_ROWS_MARK = b"\0"  # stands for the streamed rows; JSON cannot contain it


class Reply(Response):
    """An envelope: its code, and the whole of it as JSON."""

    media_type = "application/json"
    charset = "utf-8"

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(body, headers=_HEADERS)
        self.code = code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _record_code(scope, self.code)
        is_compressed = len(self.body) >= MIN_COMPRESSED_BYTES and accepts_gzip(scope)
        if is_compressed:
            self.body = await compress(bytes(self.body))
            _set_encoding(self)
            self.headers["content-length"] = str(len(self.body))
        limit = platform().max_answer_bytes
        if limit is not None and measure(bytes(self.body), is_compressed) > limit:
            await _refuse(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


class _StreamedReply(StreamingResponse):
    """A successful envelope, sent while its rows are encoded; a function collects it first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _record_code(scope, 200)
        is_compressed = accepts_gzip(scope)
        pieces: Any = self.body_iterator
        if is_compressed:
            pieces = self.body_iterator = _compress_pieces(pieces)
            _set_encoding(self)
        limit = platform().max_answer_bytes
        if limit is None:
            await super().__call__(scope, receive, send)
            return
        body, size = bytearray(), 0
        async with aclosing(pieces):
            async for piece in pieces:
                body += piece
                size += measure(piece, is_compressed)
                if size > limit:
                    await _refuse(scope, receive, send)
                    return
        await Response(bytes(body), headers=dict(self.headers))(scope, receive, send)


def _set_encoding(reply: Response) -> None:
    reply.headers["content-encoding"] = "gzip"
    reply.headers.add_vary_header("Accept-Encoding")


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    problem = TooLarge("the answer is too large: request fewer entries with per_page, and accept gzip")
    flavour = scope["state"].get("flavour", ApiFlavour.NATIVE)
    await make_failure(problem, flavour=flavour)(scope, receive, send)


def _record_code(scope: Scope, code: int) -> None:
    """Pass the code to the access log."""
    scope.setdefault("state", {})["envelope_code"] = code


def _dump(data: Any, message: str = "success", default: Callable[[Any], Any] | None = None) -> bytes:
    return orjson.dumps({"code": 200, "message": message, "data": data}, default, _OPTIONS)


def ok(data: Any = None, message: str = "success") -> Reply:
    """Return a success; `data` is anything that orjson can write, including `orjson.Fragment`."""
    return Reply(200, _dump(data, message))


def stream(data: Any) -> Response:
    """Return a success whose `PendingRows`, if `data` has any, are encoded while the answer is sent."""
    streamed: list[PendingRows] = []

    def replace_rows(value: Any) -> orjson.Fragment:
        if not isinstance(value, PendingRows):
            raise TypeError(f"{type(value).__name__} is not JSON")
        streamed.append(value)
        return orjson.Fragment(b"[" + _ROWS_MARK + b"]")

    body = _dump(data, default=replace_rows)
    if not streamed:
        return Reply(200, body)
    (rows,) = streamed
    head, _, tail = body.partition(_ROWS_MARK)
    return _StreamedReply(_enclose(head, rows.pieces, tail), headers=_HEADERS)


async def _enclose(head: bytes, pieces: AsyncIterator[bytes], tail: bytes) -> AsyncIterator[bytes]:
    before = head
    source: Any = pieces
    async with aclosing(source):
        async for piece in source:
            yield before + piece
            before = b","
    yield tail if before != head else head + tail


def make_failure(problem: Problem, message: str | None = None, flavour: ApiFlavour = ApiFlavour.NATIVE) -> Reply:
    """Return a failure; `message` replaces the problem's own text, which may need masking."""
    text = problem.message if message is None else message
    answer = {"code": problem.code, "message": text, "data": problem.data}
    if flavour is ApiFlavour.NATIVE:
        answer["problem"] = problem.word
    reply = Reply(problem.code, orjson.dumps(answer, option=_OPTIONS))
    if problem.retry_after:
        reply.headers.update(make_retry_after(problem.retry_after))
    return reply


def accepts_gzip(scope: Scope) -> bool:
    """True if the client accepts gzip."""
    for part in Headers(scope=scope).get("accept-encoding", "").lower().split(","):
        encoding, _, weight = part.replace(" ", "").partition(";q=")
        if encoding in ("gzip", "x-gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False


async def compress(body: bytes) -> bytes:
    """Return the body in gzip. A page that many clients request is compressed once."""
    if len(body) <= MAX_INLINE_COMPRESSION_BYTES:
        return zlib.compress(body, GZIP_LEVEL, GZIP_WINDOW_BITS)
    if len(body) > MAX_CACHED_BYTES:
        return await asyncio.to_thread(zlib.compress, body, GZIP_LEVEL, GZIP_WINDOW_BITS)
    answers, key = COMPRESSED_ANSWERS.open(), hashlib.sha256(body).digest()
    compressed = answers.get(key)
    if compressed is None:
        compressed = await asyncio.to_thread(zlib.compress, body, GZIP_LEVEL, GZIP_WINDOW_BITS)
        answers.put(key, compressed)
    return compressed


async def _compress_pieces(pieces: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    source: Any = pieces
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW_BITS)
    async with aclosing(source):
        async for piece in source:
            if compressed := await asyncio.to_thread(compressor.compress, piece):
                yield compressed
    yield compressor.flush()


def measure(body: bytes, is_compressed: bool) -> int:
    """Return the bytes of a body in a function's result: bytes become Base64, JSON becomes a JSON string."""
    return -(-len(body) // 3) * 4 if is_compressed else len(body) + body.count(b'"') + body.count(b"\\")
