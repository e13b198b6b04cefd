"""The layer in front of FastAPI: what it replaces, and why.

FastAPI reads the signatures of the endpoints, builds the models, words the refusals and writes the OpenAPI document.
While a request is answered, this layer takes its place and answers six times the requests:

- `application` replaces FastAPI's router, middleware and exception handlers.
- `DependencyPlan` replaces the dependency resolver. FastAPI reads a signature when a route is registered; the plan is
  made of what it read, once. At a request the plan calls the dependencies in their order, each once, then validates the
  fields of path, query, headers and body with FastAPI's own functions.
- `read_json` replaces the reading of bodies: any content type is JSON, and a large body waits for its gate.
- `public_api` serves groups that are open to everyone without an import of FastAPI.

Not public, and used: `request_params_to_args`, `request_body_to_args`, the fields of `Dependant`,
`ModelField.validate`, `ModelField._type_adapter`, `APIRoute.dependant` and `APIRoute._embed_body_fields`. The version
is pinned; tests/unit/web/test_framework.py tests each by its name.

FastAPI builds 60 models of OpenAPI documents when it is imported, a seventh of the import's time, and no request needs
them. So the base of all pydantic models says `defer_build` during that import. A module that imports FastAPI before
this module loses that gain and nothing else.

FastAPI also imports `pydantic.v1`, 23 modules of 1.4 MB, to refuse models of that version when a route is registered.
No model here is one, so that import fails at once, which FastAPI takes for the absence of such models.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import orjson
from pydantic import BaseModel, ConfigDict, create_model, model_validator
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from mangrove.core.config import config
from mangrove.core.http import parse_integer
from mangrove.core.problems import BadRequest, Problem, TooLarge


@contextmanager
def _defer_model_building() -> Iterator[None]:
    config = BaseModel.model_config
    config["defer_build"] = True
    try:
        yield
    finally:
        del config["defer_build"]


sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]  # the documented way to make an import fail

with _defer_model_building():
    from fastapi import Depends, FastAPI, Header, Path, Query, Request
    from fastapi.dependencies.models import Dependant
    from fastapi.dependencies.utils import request_body_to_args, request_params_to_args
    from fastapi.exceptions import RequestValidationError
    from fastapi.params import Form
    from fastapi.routing import APIRoute

__all__ = ["APIRoute", "Depends", "FastAPI", "Header", "Path", "Query", "Request", "RequestValidationError"]

MAX_JSON_BYTES = 8 << 20  # 10,000 pairs of the longest names
MAX_UNGATED_JSON_BYTES = 64 << 10  # read before the caller is known
MAX_JSON_VALUES = 50_000  # in a body over MAX_UNGATED_JSON_BYTES; more take too long to parse
MAX_ID = 2**53
REQUIRED_MARK = "x-must"  # in the schema of a query parameter whose absence the handler refuses
_VALUE_MARKS = (b",", b"[", b"{")  # one comes before every JSON value but the first
_PLANNED_FIELDS = {
    "path_params", "query_params", "header_params", "body_params", "dependencies", "name", "call", "path",
    "request_param_name", "scope",
}  # fmt: skip
"""The fields of `Dependant` that a plan supports. `scope` only bounds the life of a generator."""

Call = Callable[..., Any]
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DependencyPlan:
    """A function with the values that its parameters take from a request."""

    call: Call
    is_async: bool
    name: str | None
    """The parameter that receives the result, in the function that depends on this one."""
    dependencies: tuple[DependencyPlan, ...]
    path_fields: Sequence[Any]
    query_fields: Sequence[Any]
    header_fields: Sequence[Any]
    body_fields: Sequence[Any]
    whole_body: Any
    """The field for the whole body; None if fields take its keys, or there is no body."""
    request_name: str | None

    async def run(self, request: Request, body: Any = None) -> Any:
        """Call the function.

        Raise RequestValidationError if a value does not match; errors of dependencies propagate.
        """
        arguments, errors = await self._resolve_arguments(request, body, {})
        if errors:
            raise RequestValidationError(errors, body=body)
        return await self._call(arguments)

    def _call(self, arguments: Arguments) -> Awaitable[Any]:
        result: Awaitable[Any]
        result = self.call(**arguments) if self.is_async else run_in_threadpool(self.call, **arguments)
        return result

    async def _resolve_arguments(
        self, request: Request, body: Any, results: dict[Call, Any]
    ) -> tuple[Arguments, Sequence[Any]]:
        """Return the arguments of `call` and the validation errors. `results`: of dependencies already called."""
        arguments: Arguments = {}
        errors: list[Any] = []
        for dependency in self.dependencies:
            if dependency.call not in results:
                own_arguments, own_errors = await dependency._resolve_arguments(request, body, results)
                if own_errors:
                    errors += own_errors
                    continue
                results[dependency.call] = await dependency._call(own_arguments)
            if dependency.name is not None:
                arguments[dependency.name] = results[dependency.call]
        if self.path_fields:
            _collect(request_params_to_args(self.path_fields, request.path_params), arguments, errors)
        if self.query_fields:
            _collect(request_params_to_args(self.query_fields, request.query_params), arguments, errors)
        if self.header_fields:
            _collect(request_params_to_args(self.header_fields, request.headers), arguments, errors)
        if self.whole_body is not None:
            arguments[self.whole_body.name], own_errors = self.whole_body.validate(body, {}, loc=("body",))
            errors += own_errors
        elif self.body_fields:
            _collect(await request_body_to_args(list(self.body_fields), body, True), arguments, errors)
        if self.request_name is not None:
            arguments[self.request_name] = request
        return arguments, errors


def _collect(result: tuple[Mapping[str, Any], Sequence[Any]], arguments: Arguments, errors: list[Any]) -> None:
    arguments.update(result[0])
    errors += result[1]


def make_plan(dependant: Dependant, is_embedded: bool) -> DependencyPlan:
    """Make the plan of an endpoint. `is_embedded`: each field of the body is a key of it.

    Raise TypeError for features of FastAPI that a plan does not support: forms, cookies, security scopes, generators,
    background tasks.
    """
    call = dependant.call
    assert call is not None
    for field in fields(Dependant):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name not in _PLANNED_FIELDS and getattr(dependant, field.name) not in (default, []):
            raise TypeError(f"{call}: {field.name} is not planned for")
    if any(isinstance(parameter.field_info, Form) for parameter in dependant.body_params):
        raise TypeError(f"{call}: a form is not planned for")
    if any(dependency.body_params for dependency in dependant.dependencies):
        raise TypeError(f"{call}: the body of a dependency is not planned for")
    for parameter in dependant.body_params:
        _build_validator(parameter)
    function = call if hasattr(call, "__code__") else type(call).__call__
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TypeError(f"{call}: a generator is not planned for")
    return DependencyPlan(
        call,
        iscoroutinefunction(function),
        dependant.name,
        tuple(make_plan(dependency, is_embedded) for dependency in dependant.dependencies),
        dependant.path_params,
        dependant.query_params,
        dependant.header_params,
        dependant.body_params,
        None if is_embedded or not dependant.body_params else dependant.body_params[0],
        dependant.request_param_name,
    )


@contextmanager
def building_deferred() -> Iterator[None]:
    """Ignore the warning on the aliases of fields, as FastAPI does where it builds a model that is not deferred."""
    with catch_warnings():
        simplefilter("ignore", UnsupportedFieldAttributeWarning)
        yield


def _build_validator(field: Any) -> None:
    with building_deferred():
        field._type_adapter.rebuild(force=True)


@dataclass(frozen=True, slots=True)
class UnreadableBody:
    """A placeholder for a body that could not be read. No model accepts it, which is noticed after the gate."""

    problem: Problem


class EmptyBody(UnreadableBody):
    """A placeholder for an empty or blank body."""


async def read_json(request: Request, admit: Callable[[], Awaitable[Any]] | None = None) -> Any:
    """Return the body as JSON whatever its content type, `null` as `{}`; or an UnreadableBody.

    The body is read before the gate is called. A body over MAX_UNGATED_JSON_BYTES is read further only if there is an
    `admit`, which calls the gate and must not raise a Problem. A body over MAX_JSON_BYTES is never read to its end.
    """
    try:
        text = await _receive_body(request, admit)
    except Problem as problem:
        return UnreadableBody(problem)
    except Exception as error:  # the client has disconnected, or sends invalid HTTP
        raise HTTPException(400, "There was an error parsing the body") from error
    text = text.strip()
    if not text:
        return EmptyBody(BadRequest("the body is empty"))
    try:
        if len(text) > MAX_UNGATED_JSON_BYTES:
            await asyncio.sleep(0)  # parsing a large body takes a turn of the event loop of its own
        value = orjson.loads(text)
        if len(text) > MAX_UNGATED_JSON_BYTES:
            await asyncio.sleep(0)
    except orjson.JSONDecodeError as error:
        return UnreadableBody(BadRequest(f"invalid JSON: {error}"))
    return {} if value is None else value


async def _receive_body(request: Request, admit: Callable[[], Awaitable[Any]] | None) -> bytes | bytearray:
    received, mark_count, is_admitted = bytearray(), 0, False
    max_bytes = MAX_UNGATED_JSON_BYTES if admit is None else MAX_JSON_BYTES
    async for chunk in request.stream():
        received += chunk
        mark_count += sum(map(chunk.count, _VALUE_MARKS))
        if len(received) <= MAX_UNGATED_JSON_BYTES:
            continue
        if len(received) > max_bytes:
            raise TooLarge(f"a JSON body may have at most {max_bytes} bytes")
        if mark_count > MAX_JSON_VALUES:
            raise BadRequest(f"a JSON body may have at most {MAX_JSON_VALUES} values")
        if admit is not None and not is_admitted:
            await admit()
            is_admitted = True
    return received


if TYPE_CHECKING or not config().is_function:

    class Model(BaseModel):
        """The shape of an answer in the OpenAPI document. It validates nothing, so it is not built."""

        model_config = ConfigDict(defer_build=True)

else:

    class Model:
        """The shape of an answer. A function writes no document, and pydantic takes a third of a millisecond to read
        one shape.
        """


class Body(BaseModel):
    """A JSON body. Unknown keys are ignored, so that a listed record can be sent back; `null` counts as absent.

    The validator is built with the first route that uses it.
    """

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if isinstance(values, UnreadableBody):
            raise ValueError("the body cannot be read")  # FastAPI would look for the fields among its attributes
        if isinstance(values, dict):
            return {key: value for key, value in values.items() if value is not None}
        return values


class _QueryModel(BaseModel):
    """The fields of a body as query parameters. An empty value counts as absent."""

    @model_validator(mode="before")
    @classmethod
    def _drop_blanks(cls, values: Any) -> Any:
        return {key: value for key, value in values.items() if value != ""} if isinstance(values, dict) else values


def make_query_dependency(body_model: type[Body]) -> Any:
    """Make the dependency that reads a `body_model` from the query.

    `refresh` is left out, because only a body may request it.
    """
    query_fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in body_model.model_fields.items() if name != "refresh"
    }
    query_model = create_model(f"{body_model.__name__}Query", __base__=_QueryModel, **query_fields)

    async def read_query(query: BaseModel) -> Body:
        return body_model(**query.model_dump())

    read_query.__annotations__["query"] = Annotated[query_model, Query()]
    return Depends(read_query)


def require_in_query(description: str, kind: str = "string") -> Any:
    """Declare a query parameter that is required in the OpenAPI document; the handler refuses its absence."""
    return Query(description=description, json_schema_extra={REQUIRED_MARK: True, "type": kind})


def require_in_schema(*required: str) -> ConfigDict:
    """Mark fields as required in the OpenAPI document whose absence the handler refuses with its own message."""
    return ConfigDict(json_schema_extra={"required": list(required)})


RecordId = Annotated[str, require_in_query("Id of the record.", "integer")]


def require_fields(**fields: str) -> None:
    """Raise BadRequest with a line for each empty field."""
    missing = [f"{name} is required" for name, value in fields.items() if not value]
    if missing:
        raise BadRequest("\n".join(missing))


def parse_id(text: str, message: str = "") -> int:
    """Parse an id of a query. Raise BadRequest with `message`, or with the usual text, if it is not a number."""
    number = parse_integer(text, signed=True, digits=16)
    if number is None or number > MAX_ID or text.startswith("+"):
        raise BadRequest(message or f'"{text[:40]}" is no integer')
    return number


async def _parse_id_parameter(id: RecordId = "") -> int:
    return parse_id(id)


Id = Annotated[int, Depends(_parse_id_parameter)]
