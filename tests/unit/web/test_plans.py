"""What an endpoint asks for: what FastAPI could give it and a plan cannot is refused where it is written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from fastapi import BackgroundTasks, Cookie, Depends, File, Form, Request, Response, Security
from fastapi.requests import HTTPConnection
from fastapi.security import SecurityScopes

from mangrove.web.api import Api
from mangrove.web.binding import Body
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Anyone
from tests.contract.recorded_answers import call


class Example(Body):
    path: str = ""


def open_file() -> Iterator[int]:
    yield 1


def ask_for_body(body: Example) -> str:
    return body.path


def find() -> int:
    return 1


async def take_form(who: Anyone, name: Annotated[str, Form()]) -> Reply:
    return ok()


async def take_file(who: Anyone, file: Annotated[bytes, File()]) -> Reply:
    return ok()


async def take_cookie(who: Anyone, name: Annotated[str, Cookie()] = "") -> Reply:
    return ok()


async def take_opened(who: Anyone, file: Annotated[int, Depends(open_file)]) -> Reply:
    return ok()


async def take_uncached(who: Anyone, found: Annotated[int, Depends(find, use_cache=False)]) -> Reply:
    return ok()


async def take_secured(who: Anyone, found: Annotated[int, Security(find, scopes=["a"])]) -> Reply:
    return ok()


async def take_scopes(who: Anyone, scopes: SecurityScopes) -> Reply:
    return ok()


async def take_tasks(who: Anyone, tasks: BackgroundTasks) -> Reply:
    return ok()


async def take_response(who: Anyone, response: Response) -> Reply:
    return ok()


async def take_connection(who: Anyone, connection: HTTPConnection) -> Reply:
    return ok()


async def take_body_below(who: Anyone, path: Annotated[str, Depends(ask_for_body)]) -> Reply:
    return ok()


def answer_bit_by_bit(who: Anyone) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "endpoint",
    [take_form, take_file, take_cookie, take_opened, take_uncached, take_secured, take_scopes, take_tasks,
     take_response, take_connection, take_body_below, answer_bit_by_bit],
)  # fmt: skip
def test_what_is_not_planned_for_is_refused(endpoint: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="is not planned for"):
        Api("example").post("/api/example")(endpoint)


def find_in_thread(request: Request) -> str:
    note(request, threading.current_thread().name)
    return request.url.path


def note(request: Request, text: str) -> None:
    request.state.calls = [*getattr(request.state, "calls", ()), text]


Path = Annotated[str, Depends(find_in_thread)]


async def find_more(request: Request, path: Path) -> str:
    note(request, "more")
    return path * 2


More = Annotated[str, Depends(find_more)]


async def show(who: Anyone, more: More, path: Path, again: More, request: Request) -> Reply:
    return ok([more, path, again, threading.main_thread().name in request.state.calls, len(request.state.calls)])


def test_a_dependency_is_called_once_and_what_waits_has_a_thread() -> None:
    api = Api("example")
    api.get("/api/a")(show)
    answer = asyncio.run(call(api.app, "GET", "/api/a", [b""]))
    assert '"data":["/api/a/api/a","/api/a","/api/a/api/a",false,2]' in answer
