"""Which route answers a request, and who answers what fails."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mangrove.core.problems import AccessDenied, EntryNotFound, Problem
from mangrove.web.front import Front
from mangrove.web.plain import PlainRoute


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


def make_front() -> Front:
    front = Front()
    for method, path, endpoint in (
        ("GET", "/a/{name}", show), ("GET", "/a/one", show_exactly), ("POST", "/a/two", show_exactly),
        ("GET", "/a/{name}/{rest:path}", show), ("PUT", "/{rest:path}", show), ("GET", "/deny", deny),
        ("GET", "/lose", lose),
    ):  # fmt: skip
        front.add(PlainRoute(method, path, endpoint, "anyone"))
    return front


def ask(front: Front, method: str, path: str) -> httpx.Response:
    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://here") as client:
            return await client.request(method, path)

    return asyncio.run(send())


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [("GET", "/a/one", "exactly"), ("GET", "/a/two", "{'name': 'two'}"), ("POST", "/a/two", "exactly"),
     ("GET", "/a/b/c/d", "{'name': 'b', 'rest': 'c/d'}"), ("PUT", "/a/two", "{'rest': 'a/two'}"),
     ("GET", "/openlist/a/one", "exactly"), ("GET", "/openlist/openlist/a", "the rest"), ("GET", "/b", "the rest")],
)  # fmt: skip
def test_an_exact_path_goes_first_then_patterns_in_their_order(method: str, path: str, text: str) -> None:
    front = make_front()
    front.default = show_rest
    if path in ("/openlist/openlist/a", "/b"):
        front = Front()
        front.default = show_rest
    assert ask(front, method, path).text == text


def test_a_path_that_has_other_methods_is_not_the_defaults() -> None:
    front = make_front()
    front.default = show_rest
    assert ask(front, "DELETE", "/a/one").json()["message"] == "no route for DELETE /a/one"
    assert ask(front, "HEAD", "/a/one").status_code == 404


def test_the_handler_of_the_nearest_class_answers() -> None:
    async def answer_denied(request: Request, problem: Exception) -> Response:
        return PlainTextResponse(f"denied: {problem}", 451)

    front = make_front()
    front.set_handler(AccessDenied, answer_denied)
    assert ask(front, "GET", "/deny").text == "denied: not you"
    assert ask(front, "GET", "/lose").status_code == 404


def test_what_a_handler_fails_with_is_an_answer_too() -> None:
    async def fail(request: Request, problem: Exception) -> Response:
        raise ValueError("a secret")

    front = make_front()
    front.set_handler(Problem, fail)
    answer = ask(front, "GET", "/deny")
    assert (answer.status_code, answer.json()["message"].partition(",")[0]) == (500, "internal error")


def test_a_parameter_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="only texts"):
        Front().add(PlainRoute("GET", "/a/{number:int}", show, "anyone"))
