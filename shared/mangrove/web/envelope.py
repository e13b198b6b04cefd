"""The answer of every JSON endpoint: `{"code", "message", "data"}`, as bytes, always with HTTP status 200; compressed
where it is worth it and the client takes that.

A failure also has `problem`, the name of its class (`mangrove.core.problems`), but not in the dialect of clients that
existed before it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mangrove.core.http import make_retry_after
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, TooLarge
from mangrove.tree.operations.objects import Rows
from mangrove.web import compression
from mangrove.web.dialects import Dialect

_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
_HEADERS = {"content-type": "application/json; charset=utf-8", "x-content-type-options": "nosniff"}
_PLACE = b"\0"  # of the rows that are streamed; in JSON it cannot stand


class Reply(Response):
    """An envelope as a response: its code, and the whole of it as JSON."""

    media_type = "application/json"
    charset = "utf-8"

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(body, headers=_HEADERS)
        self.code = code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _note_code(scope, self.code)
        is_compressed = len(self.body) >= compression.LEAST and compression.takes_gzip(scope)
        if is_compressed:
            self.body = await compression.compress(bytes(self.body))
            _note_encoding(self)
            self.headers["content-length"] = str(len(self.body))
        limit = platform().max_answer_bytes
        if limit is not None and compression.measure(bytes(self.body), is_compressed) > limit:
            await _refuse(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


class _StreamedReply(StreamingResponse):
    """An envelope that says success, and is written while its rows are encoded; a function collects it first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _note_code(scope, 200)
        is_compressed = compression.takes_gzip(scope)
        pieces: Any = self.body_iterator
        if is_compressed:
            pieces = self.body_iterator = compression.compress_pieces(pieces)
            _note_encoding(self)
        limit = platform().max_answer_bytes
        if limit is None:
            await super().__call__(scope, receive, send)
            return
        body, size = bytearray(), 0
        async with aclosing(pieces):
            async for piece in pieces:
                body += piece
                size += compression.measure(piece, is_compressed)
                if size > limit:
                    await _refuse(scope, receive, send)
                    return
        await Response(bytes(body), headers=dict(self.headers))(scope, receive, send)


def _note_encoding(reply: Response) -> None:
    reply.headers["content-encoding"] = "gzip"
    reply.headers.add_vary_header("Accept-Encoding")


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that the answer is too large for a function."""
    problem = TooLarge("the answer is too large: ask for less at once with per_page, and take it compressed")
    dialect = scope["state"].get("dialect", Dialect.DOCUMENT)
    await make_failure(problem, dialect=dialect)(scope, receive, send)


def _note_code(scope: Scope, code: int) -> None:
    """Let the access log know the code."""
    scope.setdefault("state", {})["envelope_code"] = code


def _dump(data: Any, message: str = "success", default: Callable[[Any], Any] | None = None) -> bytes:
    return orjson.dumps({"code": 200, "message": message, "data": data}, default, _OPTIONS)


def ok(data: Any = None, message: str = "success") -> Reply:
    """Success; `data` is anything orjson can write, `orjson.Fragment` included."""
    return Reply(200, _dump(data, message))


def stream(data: Any) -> Response:
    """Success; where `data` holds `Rows`, they are encoded while the answer is sent."""
    found: list[Rows] = []

    def note_rows(value: Any) -> orjson.Fragment:
        if not isinstance(value, Rows):
            raise TypeError(f"{type(value).__name__} is not JSON")
        found.append(value)
        return orjson.Fragment(b"[" + _PLACE + b"]")

    body = _dump(data, default=note_rows)
    if not found:
        return Reply(200, body)
    (rows,) = found
    head, _, tail = body.partition(_PLACE)
    return _StreamedReply(_enclose(head, rows.pieces, tail), headers=_HEADERS)


async def _enclose(head: bytes, pieces: AsyncIterator[bytes], tail: bytes) -> AsyncIterator[bytes]:
    before = head
    source: Any = pieces
    async with aclosing(source):
        async for piece in source:
            yield before + piece
            before = b","
    yield tail if before != head else head + tail


def make_failure(problem: Problem, message: str | None = None, dialect: Dialect = Dialect.DOCUMENT) -> Reply:
    """A failure; `message` replaces the problem's own text (masked text)."""
    text = problem.message if message is None else message
    answer = {"code": problem.code, "message": text, "data": problem.data}
    if dialect is Dialect.DOCUMENT:
        answer["problem"] = problem.word
    reply = Reply(problem.code, orjson.dumps(answer, option=_OPTIONS))
    if problem.retry_after:
        reply.headers.update(make_retry_after(problem.retry_after))
    return reply
