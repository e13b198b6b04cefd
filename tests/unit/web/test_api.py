"""An application of one group: gates, bodies, paths, failures, and the function's entry point."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, Request
from starlette.responses import PlainTextResponse, Response

from mangrove.core.problems import AccessDenied, EntryNotFound
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.application import Application
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Body
from mangrove.web.gates import AccountOwner, Anyone, Gate, RequestFlavour


class ClosedGate(Gate):
    async def __call__(self, request: Request) -> None:
        raise AccessDenied("not you")


class Example(Body):
    path: str = ""
    page: int = 1


def make_api() -> Api:
    api = Api("example")

    @api.post("/api/echo")
    async def echo(who: Anyone, request: Request, flavour: RequestFlavour, body: Example) -> Reply:
        return ok({"body": body.model_dump(), "flavour": flavour, "own": "x-own" in request.headers})

    @api.post("/api/closed")
    async def closed(who: Annotated[None, Depends(ClosedGate("admin"))], body: Example) -> Reply:
        return ok()

    @api.get("/f/{path:path}", response_class=Response)
    async def file(who: Anyone, path: str) -> Response:
        if path == "missing":
            raise EntryNotFound
        return PlainTextResponse(path)

    @api.get("/api/broken")
    async def broken(who: Anyone) -> Reply:
        raise ValueError("a secret")

    return api


def send(method: str, path: str, app: Application | None = None, **more: Any) -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app or make_api().app)
        async with httpx.AsyncClient(transport=transport, base_url="http://mangrove") as client:
            return await client.request(method, path, **more)

    return asyncio.run(go())


@pytest.mark.parametrize("declared", ["none", "two"])
def test_route_without_exactly_one_gate_answers_nothing(declared: str) -> None:
    api = Api("example")

    async def none() -> Reply:
        return ok()

    async def two(who: Anyone, other: AccountOwner) -> Reply:
        return ok()

    api.get("/api/x")({"none": none, "two": two}[declared])
    with pytest.raises(TypeError, match="must declare exactly one gate"):
        api.app.prepare()
    assert send("GET", "/api/x", api.app).json()["code"] == 500


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "application/json"])
def test_a_body_is_json_whatever_its_type(kind: str) -> None:
    answer = send(
        "POST", "/api/echo", content=b'{"path": "a", "page": 2}', headers={"content-type": kind, "x-own": "1"}
    )
    assert answer.json()["data"] == {"body": {"path": "a", "page": 2}, "flavour": "native", "own": True}


def test_a_prefix_is_the_flavour_of_existing_clients() -> None:
    assert send("POST", "/openlist/api/echo", content=b"{}").json()["data"]["flavour"] == "openlist"
    assert send("POST", "/openlistx/api/echo", content=b"{}").json()["code"] == 404


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", 400, "the body is empty"),
        (b"{", 400, "invalid JSON: "),
        (b'{"page": "1"}', 400, "page: "),
        (b"[]", 400, "body: "),
        (b'"unreadable"', 400, "body: "),
        (b" " * (65 << 10), 413, "a JSON body may have at most 65536 bytes"),
    ],
)
def test_a_body_that_does_not_fit_is_an_envelope(content: bytes, code: int, message: str) -> None:
    answer = send("POST", "/api/echo", content=content)
    assert (answer.status_code, answer.json()["code"]) == (200, code)
    assert answer.json()["message"].startswith(message)


@pytest.mark.parametrize("content", [b"", b"{", b'{"page": "x"}', b"x" * (9 << 20)])
def test_a_body_is_looked_at_only_after_the_gate(content: bytes) -> None:
    expected = {"code": 403, "message": "not you", "data": None, "problem": "Denied"}
    assert send("POST", "/api/closed", content=content).json() == expected


@pytest.mark.parametrize("path", ["a", "a/b", "line\nbreak", "\n", "end\n", "a\r\n/b"])
def test_any_name_has_a_route(path: str) -> None:
    answer = send("GET", "/f/" + path.replace("\r", "%0D").replace("\n", "%0A"))
    assert (answer.status_code, answer.text) == (200, path)


def test_a_name_without_an_envelope_fails_as_a_page() -> None:
    answer = send("GET", "/f/missing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize(("path", "status"), [("/api/none", 200), ("/none", 404)])
def test_an_unknown_route_is_an_envelope(path: str, status: int) -> None:
    answer = send("GET", path)
    assert (answer.status_code, answer.json()["code"]) == (status, 404)
    assert answer.json()["message"] == f"no route for GET {path}"


def test_what_is_not_foreseen_is_answered_without_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="mangrove"):
        answer = send("GET", "/api/broken").json()
    assert answer["code"] == 500
    assert answer["message"].startswith("internal error, request id ")
    assert "secret" not in answer["message"]
    assert any(record.exc_info for record in caplog.records)


def test_the_document_names_gate_and_security() -> None:
    api = make_api()

    @api.get("/api/who")
    async def who_am_i(who: AccountOwner) -> Reply:
        return ok()

    paths = api.build_document()["paths"]
    assert paths["/api/echo"]["post"]["x-gate"] == "anyone"
    assert "security" not in paths["/api/echo"]["post"]
    assert (paths["/api/who"]["get"]["x-gate"], paths["/api/who"]["get"]["security"]) == ("visitor", [{"token": []}])
    assert "422" not in paths["/api/echo"]["post"]["responses"]


def test_a_function_answers_one_event_after_the_other() -> None:
    def event(path: str) -> dict[str, Any]:
        http = {"method": "GET", "path": path, "sourceIp": "1.2.3.4", "protocol": "HTTP/1.1"}
        common = {"version": "2.0", "routeKey": "$default", "rawQueryString": "", "isBase64Encoded": False}
        return common | {"rawPath": path, "headers": {"host": "h"}, "requestContext": {"http": http}}

    handler = make_lambda_handler(make_api().app)
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    try:
        assert [handler(event(f"/f/{name}"), None)["body"] for name in "xy"] == ["x", "y"]
        assert json.loads(handler(event("/api/none"), None)["body"])["code"] == 404
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_the_access_log_has_the_code_of_the_envelope_beside_the_status(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="mangrove"):
        for method, path in (("POST", "/api/echo"), ("POST", "/api/closed"), ("GET", "/api/broken"), ("GET", "/f/a")):
            send(method, path, **({"json": {}} if method == "POST" else {}))
    lines = [record.__dict__["facts"] for record in caplog.records if record.message == "request"]
    facts = [(line["path"], line["status"], line.get("code")) for line in lines]
    assert facts == [("/api/echo", 200, 200), ("/api/closed", 200, 403), ("/api/broken", 200, 500), ("/f/a", 200, None)]
    assert not any("caller" in line for line in lines)
