"""FastAPI as this service uses it: imported with its models put off, and its endpoints called without its resolver.

The layer in front of FastAPI is this module (signatures), `binding` (bodies and queries), `front` (what is around the
routes of a group) and `plain` (groups that need no FastAPI at all). It replaces FastAPI's routing, middleware and
dependency resolver, which answers six times the requests. What clients see stays FastAPI's: the models, the words of
refusals, the OpenAPI document.

A signature is read by FastAPI when a route is registered and becomes a plan, once. At a request the plan goes the same
way: dependencies first, in their order, each called once; then the fields of path, query, headers and body, which
FastAPI's own functions validate. `request_params_to_args`, `request_body_to_args`, the fields of `Dependant` and
`ModelField.validate` are not public: the version is pinned, and tests/unit/web/test_framework.py names what is used.

FastAPI makes 60 models of OpenAPI documents as it is imported, of which no request needs one, and building them is a
seventh of what that takes. Pydantic puts off what the base of all models says, so that does, for as long as the import
takes. A module that imports FastAPI elsewhere, and before this, has the same without that gain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool


@contextmanager
def _build_later() -> Iterator[None]:
    config = BaseModel.model_config
    config["defer_build"] = True
    try:
        yield
    finally:
        del config["defer_build"]


with _build_later():
    from fastapi import Depends, FastAPI, Header, Query, Request
    from fastapi.dependencies.models import Dependant
    from fastapi.dependencies.utils import request_body_to_args, request_params_to_args
    from fastapi.exceptions import RequestValidationError
    from fastapi.params import Form
    from fastapi.routing import APIRoute

__all__ = [
    "APIRoute",
    "Dependant",
    "Depends",
    "FastAPI",
    "Form",
    "Header",
    "Plan",
    "Query",
    "Request",
    "RequestValidationError",
    "make_plan",
    "request_body_to_args",
    "request_params_to_args",
]

Call = Callable[..., Any]
Arguments = dict[str, Any]
_KNOWN = {
    "path_params", "query_params", "header_params", "body_params", "dependencies", "name", "call", "path",
    "request_param_name", "scope",
}  # fmt: skip
"""The fields of a plan without the scope, which tells how long a generator is kept open."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A call with the values that its parameters ask of a request. `name`: of the parameter of whoever asks for what it
    returns; `whole_body`: the field that is the body, None where its keys are fields, or there is none."""

    call: Call
    is_async: bool
    name: str | None
    dependencies: tuple[Plan, ...]
    path_fields: Sequence[Any]
    query_fields: Sequence[Any]
    header_fields: Sequence[Any]
    body_fields: Sequence[Any]
    whole_body: Any
    request_name: str | None

    async def run(self, request: Request, body: Any = None) -> Any:
        """Call it; RequestValidationError for what does not fit, whatever a dependency raises."""
        arguments, errors = await self._find_arguments(request, body, {})
        if errors:
            raise RequestValidationError(errors, body=body)
        return await self._call(arguments)

    def _call(self, arguments: Arguments) -> Awaitable[Any]:
        called: Awaitable[Any]
        called = self.call(**arguments) if self.is_async else run_in_threadpool(self.call, **arguments)
        return called

    async def _find_arguments(
        self, request: Request, body: Any, known: dict[Call, Any]
    ) -> tuple[Arguments, Sequence[Any]]:
        """The arguments of `call`, and what is wrong with them. `known`: what was returned to this request before."""
        arguments: Arguments = {}
        errors: list[Any] = []
        for one in self.dependencies:
            if one.call not in known:
                found, wrong = await one._find_arguments(request, body, known)
                if wrong:
                    errors += wrong
                    continue
                known[one.call] = await one._call(found)
            if one.name is not None:
                arguments[one.name] = known[one.call]
        if self.path_fields:
            _take(request_params_to_args(self.path_fields, request.path_params), arguments, errors)
        if self.query_fields:
            _take(request_params_to_args(self.query_fields, request.query_params), arguments, errors)
        if self.header_fields:
            _take(request_params_to_args(self.header_fields, request.headers), arguments, errors)
        if self.whole_body is not None:
            arguments[self.whole_body.name], wrong = self.whole_body.validate(body, {}, loc=("body",))
            errors += wrong
        elif self.body_fields:
            _take(await request_body_to_args(list(self.body_fields), body, True), arguments, errors)
        if self.request_name is not None:
            arguments[self.request_name] = request
        return arguments, errors


def _take(found: tuple[Mapping[str, Any], Sequence[Any]], arguments: Arguments, errors: list[Any]) -> None:
    arguments.update(found[0])
    errors += found[1]


def make_plan(dependant: Dependant, is_embedded: bool) -> Plan:
    """The plan of an endpoint; `is_embedded`: whether each field of the body is a key of it. TypeError for what a plan
    cannot do and FastAPI can: forms, cookies, security scopes, what yields, work after the answer."""
    call = dependant.call
    assert call is not None
    for one in fields(Dependant):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.name not in _KNOWN and getattr(dependant, one.name) not in (default, []):
            raise TypeError(f"{call}: {one.name} is not planned for")
    if any(isinstance(one.field_info, Form) for one in dependant.body_params):
        raise TypeError(f"{call}: a form is not planned for")
    if any(one.body_params for one in dependant.dependencies):
        raise TypeError(f"{call}: the body of a dependency is not planned for")
    function = call if hasattr(call, "__code__") else type(call).__call__
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TypeError(f"{call}: what yields is not planned for")
    return Plan(
        call,
        iscoroutinefunction(function),
        dependant.name,
        tuple(make_plan(one, is_embedded) for one in dependant.dependencies),
        dependant.path_params,
        dependant.query_params,
        dependant.header_params,
        dependant.body_params,
        None if is_embedded or not dependant.body_params else dependant.body_params[0],
        dependant.request_param_name,
    )
