"""The application: the route that answers, the handler of a failure, and the headers for other origins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any

import httpx
import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message

from mangrove.core.problems import AccessDenied, EntryNotFound, Problem
from mangrove.web.application import Application
from mangrove.web.public_api import PublicRoute


async def show(request: Request) -> Response:
    return PlainTextResponse(repr(request.path_params))


async def show_exactly(request: Request) -> Response:
    return PlainTextResponse("exactly")


async def show_rest(request: Request) -> Response:
    return PlainTextResponse("the rest")


async def deny(request: Request) -> Response:
    raise AccessDenied("not you")


async def lose(request: Request) -> Response:
    raise EntryNotFound


def make_application() -> Application:
    app = Application()
    for method, path, endpoint in (
        ("GET", "/a/{name}", show), ("GET", "/a/exact", show_exactly), ("POST", "/a/two", show_exactly),
        ("GET", "/a/{name}/{rest:path}", show), ("PUT", "/{rest:path}", show), ("GET", "/deny", deny),
        ("GET", "/lose", lose),
    ):  # fmt: skip
        app.add(PublicRoute(method, path, endpoint, "anyone"))
    return app


def ask(app: Application, method: str, path: str) -> httpx.Response:
    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.request(method, path)

    return asyncio.run(send())


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [("GET", "/a/exact", "exactly"), ("GET", "/a/two", "{'name': 'two'}"), ("POST", "/a/two", "exactly"),
     ("GET", "/a/b/c/d", "{'name': 'b', 'rest': 'c/d'}"), ("PUT", "/a/two", "{'rest': 'a/two'}"),
     ("GET", "/openlist/a/exact", "exactly"), ("GET", "/openlist/openlist/a", "the rest"), ("GET", "/b", "the rest")],
)  # fmt: skip
def test_application_prefers_exact_path_then_first_pattern(method: str, path: str, text: str) -> None:
    app = make_application()
    app.default = show_rest
    if path in ("/openlist/openlist/a", "/b"):
        app = Application()
        app.default = show_rest
    assert ask(app, method, path).text == text


def test_application_unknown_method_of_a_path_is_not_found() -> None:
    app = make_application()
    app.default = show_rest
    assert ask(app, "DELETE", "/a/exact").json()["message"] == "no route for DELETE /a/exact"
    assert ask(app, "HEAD", "/a/exact").status_code == 404


def test_application_uses_handler_of_the_nearest_class() -> None:
    async def answer_denied(request: Request, problem: AccessDenied) -> Response:
        return PlainTextResponse(f"denied: {problem}", 451)

    app = make_application()
    app.set_handler(AccessDenied, answer_denied)
    assert ask(app, "GET", "/deny").text == "denied: not you"
    assert ask(app, "GET", "/lose").status_code == 404


def test_application_failing_handler_becomes_internal_error() -> None:
    async def fail(request: Request, problem: Exception) -> Response:
        raise ValueError("a secret")

    app = make_application()
    app.set_handler(Problem, fail)
    answer = ask(app, "GET", "/deny")
    assert (answer.status_code, answer.json()["message"].partition(",")[0]) == (500, "internal error")


def test_application_refuses_parameter_that_is_not_a_text() -> None:
    with pytest.raises(TypeError, match="only texts"):
        Application().add(PublicRoute("GET", "/a/{number:int}", show, "anyone"))


Headers = Sequence[tuple[bytes, bytes]]
REQUEST_HEADERS: Sequence[Sequence[tuple[bytes, bytes] | None]] = (
    (None, (b"origin", b"https://there"), (b"origin", b"")),
    (None, *((b"access-control-request-method", method) for method in (b"GET", b"QUERY", b"MOVE", b"get", b""))),
    (None, *((b"access-control-request-headers", names) for names in (b"authorization, x-a", b""))),
    (None, (b"access-control-request-private-network", b"true")),
)
ANSWER_HEADERS: Sequence[Headers] = (
    (),
    ((b"vary", b"Accept"),),
    ((b"vary", b"Accept"), (b"x-a", b"1"), (b"vary", b"Accept-Encoding")),
    ((b"access-control-allow-origin", b"https://here"), (b"x-a", b"1"), (b"vary", b"*")),
    ((b"access-control-allow-origin", b"a"), (b"x-a", b"1"), (b"access-control-allow-origin", b"b")),
)


async def call(app: ASGIApp, method: str, headers: Headers) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [header for header in message["headers"] if header[0] != b"x-request-id"]
        sent.append(dict(message))

    scope: dict[str, Any] = {"type": "http", "method": method, "path": "/a", "headers": list(headers)}
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("headers", ANSWER_HEADERS)
def test_cors_headers_are_those_of_starlette(headers: Headers) -> None:
    def make_answer() -> Response:
        answer = Response("text")
        answer.raw_headers += headers
        return answer

    async def endpoint(request: Request) -> Response:
        return make_answer()

    app = Application()
    app.default = endpoint
    reference = CORSMiddleware(make_answer(), allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])

    async def compare() -> None:
        for method, *parts in product(("OPTIONS", "GET", "POST"), *REQUEST_HEADERS):
            request_headers = [header for header in parts if header is not None]
            expected = await call(reference, method, request_headers)
            assert await call(app, method, request_headers) == expected, (method, request_headers)

    asyncio.run(compare())
