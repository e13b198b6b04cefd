"""Other origins: the answers of starlette's own middleware, header by header."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message

from mangrove.web.front import Front

Headers = Sequence[tuple[bytes, bytes]]
ASKED: Sequence[Sequence[tuple[bytes, bytes] | None]] = (
    (None, (b"origin", b"https://there"), (b"origin", b"")),
    (None, *((b"access-control-request-method", one) for one in (b"GET", b"QUERY", b"MOVE", b"get", b""))),
    (None, *((b"access-control-request-headers", one) for one in (b"authorization, x-a", b""))),
    (None, (b"access-control-request-private-network", b"true")),
)
ANSWERED: Sequence[Headers] = (
    (),
    ((b"vary", b"Accept"),),
    ((b"vary", b"Accept"), (b"x-a", b"1"), (b"vary", b"Accept-Encoding")),
    ((b"access-control-allow-origin", b"https://here"), (b"x-a", b"1"), (b"vary", b"*")),
    ((b"access-control-allow-origin", b"a"), (b"x-a", b"1"), (b"access-control-allow-origin", b"b")),
)


async def call(app: ASGIApp, method: str, asked: Headers) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(dict(message))

    scope: dict[str, Any] = {"type": "http", "method": method, "path": "/a", "headers": list(asked)}
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("answered", ANSWERED)
def test_other_origins_get_what_starlette_would_give_them(answered: Headers) -> None:
    def make_answer() -> Response:
        answer = Response("text")
        answer.raw_headers += answered
        return answer

    async def endpoint(request: Request) -> Response:
        return make_answer()

    front = Front()
    front.default = endpoint
    wanted = CORSMiddleware(make_answer(), allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])

    async def compare() -> None:
        for method, *parts in product(("OPTIONS", "GET", "POST"), *ASKED):
            asked = [one for one in parts if one is not None]
            assert await call(front, method, asked) == await call(wanted, method, asked), (method, asked)

    asyncio.run(compare())
