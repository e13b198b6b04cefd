"""FastAPI's models are built when they are used, and what is used of it without being public is there."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import version
from inspect import iscoroutinefunction, signature
from pathlib import Path

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant, request_body_to_args, request_params_to_args

from mangrove.web.framework import APIRoute

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
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == EXPECTED.lstrip()


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
    read = {"call", "dependencies", "name", "path_params", "query_params", "header_params", "body_params"}
    assert read | {"request_param_name"} <= {field.name for field in fields(Dependant)}


def test_fields_of_a_signature_validate_as_the_layer_calls_them() -> None:
    def endpoint(number: int) -> None: ...

    dependant = get_dependant(path="/", call=endpoint)
    (number,) = dependant.query_params
    assert request_params_to_args([number], {"number": "5"}) == ({"number": 5}, [])
    assert request_params_to_args([number], {"number": "x"})[1][0]["loc"] == ("query", "number")
    value, errors = number.validate("7", {}, loc=("body",))
    assert (value, errors) == (7, [])


def test_route_of_fastapi_keeps_its_dependant() -> None:
    def endpoint(number: int) -> None: ...

    route = APIRoute("/", endpoint, methods=["GET"])
    assert route.dependant.call is endpoint
    assert route._embed_body_fields is False
