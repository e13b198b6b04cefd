"""Groups whose routes are open to everyone, on Starlette alone: importing FastAPI takes longer than their answers.

FastAPI still writes their part of the OpenAPI document, and is imported for that.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from mangrove.web.application import Application

Endpoint = Callable[[Request], Awaitable[Response]]
_PATH_PARAMETER = re.compile(r"{(\w+)")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A text in the query that an endpoint reads; "" if absent."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    path: str
    endpoint: Endpoint
    path_description: str
    query: Sequence[QueryText]
    options: dict[str, Any]


class PublicRoute:
    """A route with the gate that lets everyone through."""

    def __init__(self, method: str, path: str, endpoint: Endpoint, gate: Literal["anyone"]) -> None:
        if gate != "anyone":
            raise TypeError(f"{method} {path}: the gate {gate} is not checked here")
        self.path = path
        self.methods = {method}
        self.gate = gate
        pattern, self.path_format, _ = compile_path(path)
        self.path_regex = re.compile(pattern.pattern, re.DOTALL)  # a name may hold a line break
        self.respond = endpoint

    def prepare(self) -> None:
        """Do nothing: the route is ready."""


class PublicApi:
    """One endpoint group: `app` for an ASGI server, `make_lambda_handler(app)` for a function.

    It has no callers, so each route declares the gate `anyone`; other routes belong to an `Api`.
    """

    def __init__(self, group: str) -> None:
        self.app = Application(group)
        self._group = group
        self._operations: list[_Operation] = []

    def route(
        self,
        method: str,
        path: str,
        *,
        gate: Literal["anyone"],
        path_description: str = "",
        query: Sequence[QueryText] = (),
        **options: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint.

        The OpenAPI document describes its path parameter and query, and has the `options` of `Api.route`.
        """

        def register(endpoint: Endpoint) -> Endpoint:
            self.app.add(PublicRoute(method, path, endpoint, gate))
            self._operations.append(_Operation(method, path, endpoint, path_description, query, options))
            return endpoint

        return register

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, **options)

    def build_document(self) -> dict[str, Any]:
        """Build the group's OpenAPI document; `x-gate` names the gate of an operation."""
        from mangrove.web.api import Api

        api = Api(self._group)
        for operation in self._operations:
            api.route(operation.method, operation.path, **operation.options)(_describe(operation))
        return api.build_document()


def _describe(operation: _Operation) -> Callable[..., Any]:
    """Return an endpoint with the parameters in its signature, as FastAPI reads them."""
    from mangrove.web.framework import Path, Query
    from mangrove.web.gates import Anyone

    def endpoint() -> None:
        """Placeholder that only describes the endpoint."""

    path = Annotated[str, Path(description=operation.path_description)]
    paths = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=path) for name in _PATH_PARAMETER.findall(operation.path)
    ]
    queries = [
        Parameter(
            f"query_{number}",
            Parameter.KEYWORD_ONLY,
            default="",
            annotation=Annotated[str, Query(alias=text.name, description=text.description)],
        )
        for number, text in enumerate(operation.query)
    ]
    gate = Parameter("who", Parameter.KEYWORD_ONLY, annotation=Anyone)
    endpoint.__signature__ = Signature([gate, *paths, *queries])  # type: ignore[attr-defined]
    endpoint.__name__, endpoint.__doc__ = operation.endpoint.__name__, operation.endpoint.__doc__
    return endpoint
