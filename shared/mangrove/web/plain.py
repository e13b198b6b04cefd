"""Groups whose routes are open to everyone, on Starlette alone: importing FastAPI takes longer than their answers.

Their part of the OpenAPI document is still FastAPI's, which is imported when that is asked for.
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

from mangrove.web.front import Front

Endpoint = Callable[[Request], Awaitable[Response]]
_PATH_PARAMETER = re.compile(r"{(\w+)")


@dataclass(frozen=True, slots=True)
class Query:
    """A text in the query that an endpoint reads, "" where there is none."""

    name: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    path: str
    endpoint: Endpoint
    query: Sequence[Query]
    about: dict[str, Any]


class PlainRoute:
    """A route that exists only with a gate: the one that lets everyone through."""

    def __init__(self, method: str, path: str, endpoint: Endpoint, gate: Literal["anyone"]) -> None:
        if gate != "anyone":
            raise TypeError(f"{method} {path}: who may call it is not checked here")
        self.path = path
        self.methods = {method}
        self.gate = gate
        pattern, self.path_format, _ = compile_path(path)
        self.path_regex = re.compile(pattern.pattern, re.DOTALL)  # a name may hold a line break
        self.respond = endpoint


class PlainApi:
    """The application of one endpoint group: `app` for an ASGI server, `make_lambda_handler(app)` for a function.

    It asks for no caller, so a route has to say that it is for `anyone`; what is not belongs to an `Api`.
    """

    def __init__(self, group: str) -> None:
        self.app = Front()
        self._group = group
        self._operations: list[_Operation] = []

    def route(
        self, method: str, path: str, *, gate: Literal["anyone"], query: Sequence[Query] = (), **about: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint. `about`: what `Api.route` takes, for the OpenAPI document."""

        def register(endpoint: Endpoint) -> Endpoint:
            self.app.add(PlainRoute(method, path, endpoint, gate))
            self._operations.append(_Operation(method, path, endpoint, query, about))
            return endpoint

        return register

    def get(self, path: str, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, **rest)

    def build_document(self) -> dict[str, Any]:
        """The group's OpenAPI document; `x-gate` says who may call an operation."""
        from mangrove.web.api import Api

        api = Api(self._group)
        for one in self._operations:
            api.route(one.method, one.path, **one.about)(_describe(one))
        return api.build_document()


def _describe(operation: _Operation) -> Callable[..., Any]:
    """An endpoint with the parameters in its signature, as FastAPI reads them."""
    from mangrove.web.framework import Query as DocumentedQuery
    from mangrove.web.gates import Anyone

    def endpoint() -> None:
        """Only described, never called."""

    paths = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=str) for name in _PATH_PARAMETER.findall(operation.path)
    ]
    queries = [
        Parameter(
            f"query_{number}",
            Parameter.KEYWORD_ONLY,
            default="",
            annotation=Annotated[str, DocumentedQuery(alias=one.name, description=one.description)],
        )
        for number, one in enumerate(operation.query)
    ]
    gate = Parameter("who", Parameter.KEYWORD_ONLY, annotation=Anyone)
    endpoint.__signature__ = Signature([gate, *paths, *queries])  # type: ignore[attr-defined]
    endpoint.__name__, endpoint.__doc__ = operation.endpoint.__name__, operation.endpoint.__doc__
    return endpoint
