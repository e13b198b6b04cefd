"""The endpoint groups whose routes have callers: each route declares a gate, and all share one family of failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import cached_property
from types import FunctionType, MappingProxyType
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import Field
from starlette.responses import Response
from starlette.routing import compile_path

from mangrove import __version__
from mangrove.core import problems
from mangrove.core.limits import limits
from mangrove.core.problems import BadRequest, Problem
from mangrove.identity.rights import GuestDisabled
from mangrove.web import request_keys
from mangrove.web.address import find_client_address
from mangrove.web.application import Application
from mangrove.web.envelope import make_failure
from mangrove.web.failures import handle_problem
from mangrove.web.flavours import find_flavour
from mangrove.web.framework import (
    REQUIRED_MARK,
    APIRoute,
    DependencyPlan,
    FastAPI,
    Model,
    Request,
    RequestValidationError,
    UnreadableBody,
    building_deferred,
    make_plan,
    make_query_dependency,
    read_json,
)
from mangrove.web.gates import Gate, name_caller
from mangrove.web.lambda_handler import make_lambda_handler as make_lambda_handler

Data = TypeVar("Data")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Envelope(Model, Generic[Data]):
    """The answer of a JSON endpoint that succeeds."""

    code: Literal[200] = Field(description="Always 200.")
    message: str = Field(description="`success`, or a description of the result.")
    data: Data = Field(description="The result; `null` if there is none.")


PROBLEM_NAMES = sorted(
    kind.word for kind in vars(problems).values() if isinstance(kind, type) and issubclass(kind, Problem)
)


class Failure(Model):
    """The answer of a JSON endpoint that fails, also with HTTP status 200."""

    code: int = Field(description="Kind of the failure, as an HTTP status; never 200.")
    message: str = Field(description="Explanation for people. Programs use `problem` and `code`.")
    data: Any = Field(description="Usually `null`. A few failures leave a record and return its `id`.")
    problem: Annotated[str, Field(json_schema_extra={"enum": PROBLEM_NAMES})] = Field(
        description="Name of the failure. Absent for clients of `/openlist`."
    )


MakeEndpoint = Callable[[], Callable[..., Any]]


class GatedRoute:
    """A route with exactly one gate in its signature.

    The signature is read when the route is used for the first time: a function in the cloud uses a few of its routes
    before it ends, and reading one takes milliseconds.
    """

    def __init__(
        self, path: str, methods: list[str], make_endpoint: MakeEndpoint, creates_tasks: bool, options: dict[str, Any]
    ) -> None:
        self.path = path
        self.methods = set(methods)
        self.creates_tasks = creates_tasks
        self.include_in_schema: bool = options.get("include_in_schema", True)
        self._make_endpoint = make_endpoint
        self._options = options

    @cached_property
    def path_regex(self) -> re.Pattern[str]:
        """The pattern of the path. A name may hold a line break."""
        return re.compile(compile_path(self.path)[0].pattern, re.DOTALL)

    @property
    def path_format(self) -> str:
        """The path as the OpenAPI document has it."""
        return self._route.path_format

    @cached_property
    def _route(self) -> APIRoute:
        """The route as FastAPI reads it. Raise TypeError if the signature does not have exactly one gate."""
        route = APIRoute(self.path, self._make_endpoint(), methods=list(self.methods), response_model=None)
        gates = _list_gates(route)
        if len(gates) != 1:
            raise TypeError(f"{route.name} ({self.path}) must declare exactly one gate, it declares {len(gates)}")
        return route

    @cached_property
    def gate(self) -> Gate:
        """The gate."""
        return _list_gates(self._route)[0]

    @cached_property
    def _plan(self) -> DependencyPlan:
        return make_plan(self._route.dependant, self._route._embed_body_fields)

    def prepare(self) -> None:
        """Read the signature now. Raise TypeError if it has features that are not planned for."""
        _ = self._plan  # made at the first use

    def document(self, application: FastAPI, data_model: Any) -> None:
        """Add the route to an application that writes the OpenAPI document."""
        options = self._options
        if "response_class" not in options:
            options = options | {"responses": _describe_answers(data_model)}
        application.router.add_api_route(
            self.path, self._make_endpoint(), methods=list(self.methods), response_model=None, **options
        )

    async def respond(self, request: Request) -> Response:
        """Answer a request. The body is read before the gate is called, and validated after it."""
        if self._route.body_field is None:
            return await self._run(request)
        if self.gate.level == "anyone":
            return await self._run(request, await read_json(request))
        async with AsyncExitStack() as stack:

            async def admit() -> None:
                caller = name_caller(await self.gate(request), await find_client_address(request))
                await stack.enter_async_context(limits().large_requests.hold(caller))

            return await self._run(request, await read_json(request, admit))

    async def _run(self, request: Request, body: Any = None) -> Response:
        """Call the endpoint; a request that creates tasks and has a key is done once."""
        answer: Response
        if not self.creates_tasks or isinstance(body, UnreadableBody) or not request_keys.read_key(request):
            answer = await self._plan.run(request, body)
            return answer
        caller = name_caller(await self.gate(request), await find_client_address(request))
        return await request_keys.answer_once(request, caller, body, lambda: self._plan.run(request, body))


def _list_gates(route: APIRoute) -> list[Gate]:
    return [dependency.call for dependency in route.dependant.dependencies if isinstance(dependency.call, Gate)]


def _describe_answers(data_model: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": Envelope[data_model] | Failure}}


def copy_endpoint(endpoint: Callable[..., Any], name: str, annotations: dict[str, Any]) -> Callable[..., Any]:
    """Return the endpoint under another name, with other annotations of some parameters."""
    copy = FunctionType(endpoint.__code__, endpoint.__globals__, name, endpoint.__defaults__, endpoint.__closure__)
    copy.__doc__ = endpoint.__doc__
    copy.__annotations__ = endpoint.__annotations__ | {
        key: annotation for key, annotation in annotations.items() if key in endpoint.__annotations__
    }
    return copy


class Api:
    """One endpoint group: `app` for an ASGI server, `make_lambda_handler(app)` for a function."""

    def __init__(self, group: str) -> None:
        self.app = Application(group)
        self.app.set_handler(RequestValidationError, handle_invalid_request)
        self.group = group
        self._routes: list[tuple[GatedRoute, Any]] = []

    def build_document(self) -> dict[str, Any]:
        """Build the group's OpenAPI document; `x-gate` names the gate of an operation."""
        documented = FastAPI(title=f"Mangrove {self.group}", version=__version__)
        with building_deferred():
            for route, data_model in self._routes:
                route.document(documented, data_model)
            document = documented.openapi()
        for route, _ in self._routes:
            if not route.include_in_schema:
                continue
            for method in route.methods:
                operation = document["paths"][route.path_format][method.lower()]
                operation["x-gate"] = str(route.gate)
                if route.creates_tasks:
                    operation.setdefault("parameters", []).append(dict(request_keys.KEY_PARAMETER))
                operation["responses"].pop("422", None)  # invalid requests get an envelope with code 400
                for parameter in operation.get("parameters", ()):
                    if parameter["schema"].pop(REQUIRED_MARK, False):
                        parameter["required"] = True
                        parameter["schema"].pop("default", None)
                if route.gate.level != "anyone":
                    operation["security"] = [{"token": []}]
        for unused in ("HTTPValidationError", "ValidationError"):
            document.get("components", {}).get("schemas", {}).pop(unused, None)
        return document

    def route(
        self, method: str, path: str, data_model: Any = None, *, creates_tasks: bool = False, **options: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint. `data_model` is the model of the envelope's `data` in the OpenAPI document.

        A request that `creates_tasks` may have a key, see `request_keys`.

        An endpoint without an envelope has FastAPI's `response_class` and `responses`. The model of an envelope is made
        only for the document, because making it takes long.
        """

        def register(endpoint: Endpoint) -> Endpoint:
            self._add(method, path, lambda: endpoint, data_model, creates_tasks, options)
            return endpoint

        return register

    def _add(
        self,
        method: str,
        path: str,
        make_endpoint: MakeEndpoint,
        data_model: Any,
        creates_tasks: bool = False,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        identity = method.lower() + "".join(letter if letter.isalnum() else "_" for letter in path)
        all_options = {**options, "tags": [self.group], "operation_id": identity}
        route = GatedRoute(path, [method], make_endpoint, creates_tasks, all_options)
        self.app.add(route)
        self._routes.append((route, data_model))

    def read(self, path: str, data_model: Any = None) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint for POST, and for GET with the fields of its `body` in the query."""

        def register(endpoint: Endpoint) -> Endpoint:
            self.post(path, data_model)(endpoint)
            self._add("GET", path, lambda: _read_body_from_query(endpoint), data_model)
            return endpoint

        return register

    def get(self, path: str, data_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, data_model, **options)

    def post(self, path: str, data_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, data_model, **options)

    def put(self, path: str, data_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, data_model, **options)


def _read_body_from_query(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return the endpoint with the fields of its `body` in the query."""
    query = Annotated[Any, make_query_dependency(get_type_hints(endpoint)["body"])]
    return copy_endpoint(endpoint, f"{endpoint.__name__.rstrip('_')}_by_query", {"body": query})


async def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
    """Answer a request that does not match its models, with the reason why the body is unreadable, or a line per
    field.
    """
    if getattr(request.state, "is_share_visitor", False):  # it names no share link
        return await handle_problem(request, GuestDisabled())
    if isinstance(error.body, UnreadableBody):
        return make_failure(error.body.problem, flavour=await find_flavour(request))
    lines = (f"{'.'.join(map(str, detail['loc'][1:])) or 'body'}: {detail['msg']}" for detail in error.errors()[:10])
    return await handle_problem(request, BadRequest("\n".join(lines)[:1000]))
