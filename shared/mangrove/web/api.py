"""The endpoint groups whose routes have callers: each route declares a gate, and all share one family of failures."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import FunctionType
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import Field
from starlette.responses import Response

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
    FastAPI,
    Model,
    Request,
    RequestValidationError,
    UnreadableBody,
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


class GatedRoute(APIRoute):
    """A route with exactly one gate in its signature."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)  # a name may hold a line break
        gates = [dependency.call for dependency in self.dependant.dependencies if isinstance(dependency.call, Gate)]
        if len(gates) != 1:
            raise TypeError(f"{endpoint.__name__} ({path}) must declare exactly one gate, it declares {len(gates)}")
        self.gate: Gate = gates[0]
        self._plan = make_plan(self.dependant, self._embed_body_fields)
        self.creates_tasks = False

    async def respond(self, request: Request) -> Response:
        """Answer a request. The body is read before the gate is called, and validated after it."""
        if self.body_field is None:
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
        self._routes: list[tuple[Callable[..., Any], Any, dict[str, Any]]] = []

    def build_document(self) -> dict[str, Any]:
        """Build the group's OpenAPI document; `x-gate` names the gate of an operation."""
        documented = FastAPI(title=f"Mangrove {self.group}", version=__version__)
        documented.router.route_class = GatedRoute
        for endpoint, data_model, options in self._routes:
            if "response_class" not in options:
                options = options | {"responses": _describe_answers(data_model)}
            documented.router.add_api_route(endpoint=endpoint, **options)
        document = documented.openapi()
        for route in self.app.routes:
            assert isinstance(route, GatedRoute)
            if not route.include_in_schema:
                continue
            for method in route.methods or ():
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
        all_options = options | {
            "path": path,
            "methods": [method],
            "response_model": None,
            "tags": [self.group],
            "operation_id": method.lower() + "".join(letter if letter.isalnum() else "_" for letter in path),
        }

        def register(endpoint: Endpoint) -> Endpoint:
            route = GatedRoute(endpoint=endpoint, **all_options | {"responses": None})
            route.creates_tasks = creates_tasks
            self.app.add(route)
            self._routes.append((endpoint, data_model, all_options))
            return endpoint

        return register

    def read(self, path: str, data_model: Any = None) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint for POST, and for GET with the fields of its `body` in the query."""

        def register(endpoint: Endpoint) -> Endpoint:
            body_model = get_type_hints(endpoint)["body"]
            query = Annotated[Any, make_query_dependency(body_model)]
            name = f"{endpoint.__name__.rstrip('_')}_by_query"
            self.post(path, data_model)(endpoint)
            self.get(path, data_model)(copy_endpoint(endpoint, name, {"body": query}))
            return endpoint

        return register

    def get(self, path: str, data_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, data_model, **options)

    def post(self, path: str, data_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, data_model, **options)

    def put(self, path: str, data_model: Any = None, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, data_model, **options)


async def handle_invalid_request(request: Request, error: Exception) -> Response:
    """Answer a request that does not match its models, with the reason why the body is unreadable, or a line per
    field.
    """
    assert isinstance(error, RequestValidationError)
    if getattr(request.state, "is_share_visitor", False):  # it names no share link
        return await handle_problem(request, GuestDisabled())
    if isinstance(error.body, UnreadableBody):
        return make_failure(error.body.problem, flavour=await find_flavour(request))
    lines = (f"{'.'.join(map(str, detail['loc'][1:])) or 'body'}: {detail['msg']}" for detail in error.errors()[:10])
    return await handle_problem(request, BadRequest("\n".join(lines)[:1000]))
