"""The layer in front of FastAPI: deferred models, the private surface that is used, plans, JSON bodies, queries."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib.metadata import version
from inspect import iscoroutinefunction, signature
from pathlib import Path
from typing import Annotated, Any

import orjson
import pytest
from fastapi import BackgroundTasks, Cookie, Depends, File, Form, Request, Response, Security
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant, request_body_to_args, request_params_to_args
from fastapi.requests import HTTPConnection
from fastapi.security import SecurityScopes
from starlette.exceptions import HTTPException

from mangrove.core.problems import AccessDenied, BadRequest, Problem, TooLarge
from mangrove.web.api import Api
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import (
    MAX_ID,
    MAX_JSON_BYTES,
    MAX_UNGATED_JSON_BYTES,
    APIRoute,
    Body,
    EmptyBody,
    UnreadableBody,
    make_plan,
    parse_id,
    read_json,
    require_fields,
)
from mangrove.web.gates import Anyone
from tests.contract.recorded_answers import call

SCRIPT = """
from mangrove.web import framework
from fastapi.openapi.models import Info
from fastapi.sse import ServerSentEvent
from pydantic import BaseModel, ConfigDict
print("put off:", Info.__pydantic_complete__, ServerSentEvent.__pydantic_complete__)

class Body(BaseModel):
    number: int
print("ours:", Body.__pydantic_complete__, BaseModel.model_config)

print(Info(title="t", version="1").model_dump(exclude_none=True))
try:
    ServerSentEvent(id="a\\0b")
except ValueError as error:
    print("refused")
print("used:", Info.__pydantic_complete__, ServerSentEvent.__pydantic_complete__)
"""
EXPECTED = """
put off: False False
ours: True {}
{'title': 't', 'version': '1'}
refused
used: True True
"""


def test_models_of_fastapi_are_built_with_their_first_use() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout == EXPECTED.lstrip()


PINS = Path(__file__).resolve().parents[3] / "requirements" / "serve.txt"


@pytest.mark.parametrize("package", ["fastapi", "starlette", "pydantic", "mangum"])
def test_package_whose_private_surface_is_used_is_pinned(package: str) -> None:
    (pinned,) = re.findall(rf"^{package}==(\S+) ", PINS.read_text(), re.MULTILINE)
    assert version(package) == pinned


def test_private_functions_of_fastapi_are_as_the_layer_calls_them() -> None:
    assert list(signature(request_params_to_args).parameters) == ["fields", "received_params"]
    assert list(signature(request_body_to_args).parameters) == ["body_fields", "received_body", "embed_body_fields"]
    assert iscoroutinefunction(request_body_to_args) and not iscoroutinefunction(request_params_to_args)


def test_dependant_of_fastapi_has_the_fields_that_a_plan_reads() -> None:
    fields_read = {"call", "dependencies", "name", "path_params", "query_params", "header_params", "body_params"}
    assert fields_read | {"request_param_name"} <= {field.name for field in fields(Dependant)}


def test_fields_of_a_signature_validate_as_the_layer_calls_them() -> None:
    def endpoint(number: int) -> None: ...

    dependant = get_dependant(path="/", call=endpoint)
    (number,) = dependant.query_params
    assert request_params_to_args([number], {"number": "5"}) == ({"number": 5}, [])
    assert request_params_to_args([number], {"number": "x"})[1][0]["loc"] == ("query", "number")
    value, errors = number.validate("7", {}, loc=("body",))
    assert (value, errors) == (7, [])


def test_validator_of_a_body_is_built_with_its_plan() -> None:
    def endpoint(body: PathBody) -> None: ...

    dependant = get_dependant(path="/", call=endpoint)
    (body,) = dependant.body_params
    assert not body._type_adapter.pydantic_complete
    make_plan(dependant, is_embedded=False)
    assert body._type_adapter.pydantic_complete
    assert body.validate({"path": "/a"}, {}, loc=("body",)) == (PathBody(path="/a"), [])


def test_route_of_fastapi_keeps_its_dependant() -> None:
    def endpoint(number: int) -> None: ...

    route = APIRoute("/", endpoint, methods=["GET"])
    assert route.dependant.call is endpoint
    assert route._embed_body_fields is False


class PathBody(Body):
    path: str = ""


def open_file() -> Iterator[int]:
    yield 1


def ask_for_body(body: PathBody) -> str:
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


async def take_uncached(who: Anyone, value: Annotated[int, Depends(find, use_cache=False)]) -> Reply:
    return ok()


async def take_secured(who: Anyone, value: Annotated[int, Security(find, scopes=["a"])]) -> Reply:
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
def test_plan_refuses_what_it_does_not_support(endpoint: Callable[..., Any]) -> None:
    api = Api("example")
    api.post("/api/example")(endpoint)
    with pytest.raises(TypeError, match="is not planned for"):
        api.app.prepare()


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


def test_plan_calls_a_dependency_once_and_a_sync_one_in_a_thread() -> None:
    api = Api("example")
    api.get("/api/a")(show)
    answer = asyncio.run(call(api.app, "GET", "/api/a", [b""]))
    assert '"data":["/api/a/api/a","/api/a","/api/a/api/a",false,2]' in answer


async def admit_all() -> None:
    """Let everybody pass."""


def read(*chunks: bytes, kind: bytes = b"application/json", admit: Any = admit_all) -> Any:
    """Return what a body of this type is read as."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    headers = [(b"content-type", kind)]
    return asyncio.run(read_json(Request({"type": "http", "method": "POST", "headers": headers}, receive), admit))


@pytest.mark.parametrize("kind", [b"text/plain", b"application/x-www-form-urlencoded", b"", b"application/json"])
def test_any_content_type_is_taken_for_json(kind: bytes) -> None:
    assert read(b'{"a": ', b"1}", kind=kind) == {"a": 1}


def test_a_client_that_leaves_has_no_body() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(HTTPException, match="parsing the body"):
        asyncio.run(read_json(Request({"type": "http", "method": "POST", "headers": []}, receive)))


def test_null_is_an_empty_object() -> None:
    assert read(b" null ") == {}


@pytest.mark.parametrize("chunks", [[], [b""], [b" \r\n", b"\t"]])
def test_an_empty_body_says_so(chunks: list[bytes]) -> None:
    value = read(*chunks)
    assert isinstance(value, EmptyBody)
    assert (type(value.problem), value.problem.message) == (BadRequest, "the body is empty")


@pytest.mark.parametrize("text", [b"{", b"\xff", b"{'a': 1}", b"[1,]", b'{"a": NaN}'])
def test_read_json_invalid_json_keeps_the_reason(text: bytes) -> None:
    value = read(text)
    assert isinstance(value, UnreadableBody) and not isinstance(value, EmptyBody)
    assert value.problem.message.startswith("invalid JSON: ")


async def refuse_all() -> None:
    raise AccessDenied("not you")


@pytest.mark.parametrize(
    ("admit", "most", "problem"),
    [(admit_all, MAX_JSON_BYTES, TooLarge), (refuse_all, MAX_UNGATED_JSON_BYTES, AccessDenied),
     (None, MAX_UNGATED_JSON_BYTES, TooLarge)],
)  # fmt: skip
def test_too_many_bytes_are_not_read_and_few_before_the_gate(admit: Any, most: int, problem: type[Problem]) -> None:
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1 << 14
        return {"type": "http.request", "body": b" " * (1 << 14), "more_body": True}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    value = asyncio.run(read_json(request, admit))
    assert isinstance(value, UnreadableBody) and isinstance(value.problem, problem)
    assert most < read <= most + (1 << 14)


def test_ten_thousand_pairs_of_the_longest_names_are_read() -> None:
    body = orjson.dumps([dict.fromkeys(("src_name", "new_name"), "n" * 255)] * 10_000)
    assert len(read(*(body[at : at + 65_536] for at in range(0, len(body), 65_536)))) == 10_000


@pytest.mark.parametrize("value", [b"[],", b"{},", b"1,", b'{"a":1},', b'"",'])
def test_a_body_of_very_many_values_is_not_parsed(value: bytes) -> None:
    body = b"[" + value * 120_000 + b"1]"
    taken = read(*(body[at : at + 65_536] for at in range(0, len(body), 65_536)))
    assert isinstance(taken, UnreadableBody) and "values" in taken.problem.message


class Example(Body):
    path: str = "/"
    page: int = 1


def test_null_counts_as_absent_and_unknown_keys_are_ignored() -> None:
    assert Example.model_validate({"path": None, "page": 2, "more": {}}) == Example(page=2)


@pytest.mark.parametrize("value", [UnreadableBody(BadRequest()), EmptyBody(BadRequest()), {"page": "2"}, [], "text"])
def test_body_refuses_what_is_not_an_object(value: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Example.model_validate(value, from_attributes=True)  # as FastAPI does


def test_empty_fields_are_named_line_by_line() -> None:
    require_fields(username="ann")
    with pytest.raises(BadRequest) as caught:
        require_fields(username="", code="1", secret="")
    assert caught.value.message.splitlines() == ["username is required", "secret is required"]


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("-1", -1), ("007", 7), (str(MAX_ID), MAX_ID)])
def test_an_id_is_a_whole_number(text: str, number: int) -> None:
    assert parse_id(text) == number


@pytest.mark.parametrize("text", ["", "x", "1.0", "+1", " 1", "٣", str(MAX_ID + 1), "9" * 60, "--1"])
def test_parse_id_refuses_other_texts_with_known_messages(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_id(text)
    assert caught.value.message == f'"{text[:40]}" is no integer'
    with pytest.raises(BadRequest, match="id format invalid"):
        parse_id(text, "id format invalid")
