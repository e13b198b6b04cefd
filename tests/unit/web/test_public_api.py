"""Routes without FastAPI: their methods, names, failures and their part of the document."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mangrove.core.problems import AccessDenied
from mangrove.web.public_api import PublicApi, QueryText

pytestmark = pytest.mark.usefixtures("records")


def make_api() -> PublicApi:
    api = PublicApi("plain")

    @api.get(
        "/x/{path:path}", gate="anyone", query=(QueryText("sign", "Why it may be read."),), response_class=Response
    )
    async def show(request: Request) -> Response:
        """Show it."""
        if request.path_params["path"] == "denied":
            raise AccessDenied("not you")
        return PlainTextResponse(f"{request.path_params['path']} {request.query_params.get('sign', '')}")

    return api


def ask(method: str, url: str) -> httpx.Response:
    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(make_api().app), base_url="http://here") as client:
            return await client.request(method, url)

    return asyncio.run(send())


def test_a_path_is_what_was_asked_for_whatever_is_in_it() -> None:
    assert ask("GET", "/x/a%0Ab/c?sign=1&sign=2").text == "a\nb/c 2"
    assert ask("GET", "/x/a/").text == "a/ "


def test_a_method_that_was_not_registered_is_refused() -> None:
    assert ask("HEAD", "/x/a").status_code == ask("POST", "/x/a").status_code == 404


def test_a_problem_is_an_answer() -> None:
    answer = ask("GET", "/x/denied")
    assert (answer.status_code, "not you" in answer.text) == (403, True)


def test_a_route_says_that_it_is_for_anyone_or_there_is_none() -> None:
    api: Any = PublicApi("plain")
    with pytest.raises(TypeError):
        api.get("/x")

    async def show(request: Request) -> Response:
        raise AssertionError("never called")

    with pytest.raises(TypeError, match="GET /x"):
        api.get("/x", gate="member")(show)
    assert not api.app.routes


def test_its_operations_are_documented_as_all_others_are() -> None:
    operation = make_api().build_document()["paths"]["/x/{path}"]["get"]
    assert operation["x-gate"] == "anyone"
    assert (operation["operationId"], operation["summary"]) == ("get_x__path_path_", "Show")
    assert operation["description"] == "Show it."
    sign = {"name": "sign", "in": "query", "required": False, "description": "Why it may be read."}
    assert [parameter["name"] for parameter in operation["parameters"]] == ["path", "sign"]
    assert operation["parameters"][1].items() >= sign.items()
