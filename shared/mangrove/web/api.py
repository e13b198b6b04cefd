"""One FastAPI application per endpoint group: routes that must declare a gate, one family of failures."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field
from starlette.responses import Response

from mangrove import __version__
from mangrove.core import problems
from mangrove.core.limits import limits
from mangrove.core.problems import BadRequest, Problem
from mangrove.web.address import find_client_address
from mangrove.web.application import make_lambda_handler as make_lambda_handler
from mangrove.web.binding import REQUIRED_MARK, Model, UnreadableBody, read_json
from mangrove.web.dialects import find_dialect
from mangrove.web.envelope import make_failure
from mangrove.web.failures import handle_problem
from mangrove.web.field_texts import add_texts
from mangrove.web.framework import APIRoute, FastAPI, Request, RequestValidationError, make_plan
from mangrove.web.front import Front
from mangrove.web.gates import Gate, name_caller

Data = TypeVar("Data")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Envelope(Model, Generic[Data]):
    """What every JSON endpoint answers when it succeeds."""

    code: Literal[200] = Field(description="Says success.")
    message: str = Field(description="`success`, or what was done.")
    data: Data = Field(description="What was asked for; `null` where nothing is.")


WORDS = sorted(kind.word for kind in vars(problems).values() if isinstance(kind, type) and issubclass(kind, Problem))


class Failure(Model):
    """What every JSON endpoint answers when it fails, with HTTP status 200, too."""

    code: int = Field(description="What kind of failure this is, in the words of HTTP; never 200.")
    message: str = Field(description="What went wrong, for people. Programs decide by `problem` and `code`.")
    data: Any = Field(description="`null`, but for the few failures that leave something behind, as its `id`.")
    problem: Annotated[str, Field(json_schema_extra={"enum": WORDS})] = Field(
        description="What went wrong, in one word. A client of `/openlist` does not get it."
    )


class GatedRoute(APIRoute):
    """A route that exists only with a gate in its signature."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **rest: Any) -> None:
        super().__init__(path, endpoint, **rest)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)  # a name may hold a line break
        gates = [one.call for one in self.dependant.dependencies if isinstance(one.call, Gate)]
        if len(gates) != 1:
            raise TypeError(f"{endpoint.__name__} ({path}) must declare exactly one gate, it declares {len(gates)}")
        self.gate: Gate = gates[0]
        self._plan = make_plan(self.dependant, self._embed_body_fields)

    async def respond(self, request: Request) -> Response:
        """What the endpoint answers. Its body is read before the gate is asked, and looked at after that."""
        if self.body_field is None:
            answer: Response = await self._plan.run(request)
            return answer
        if self.gate.level == "anyone":
            answer = await self._plan.run(request, await read_json(request))
            return answer
        async with AsyncExitStack() as held:

            async def admit() -> None:
                caller = name_caller(await self.gate(request), await find_client_address(request))
                await held.enter_async_context(limits().large_requests.hold(caller))

            answer = await self._plan.run(request, await read_json(request, admit))
            return answer


def _describe_answers(data_model: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": Envelope[data_model] | Failure}}


class Api:
    """The application of one endpoint group: `app` for an ASGI server, `make_lambda_handler(app)` for a function."""

    def __init__(self, group: str) -> None:
        self.app = Front()
        self.app.set_handler(RequestValidationError, handle_invalid_request)
        self.group = group
        self._routes: list[tuple[Callable[..., Any], Any, dict[str, Any]]] = []

    def build_document(self) -> dict[str, Any]:
        """The group's OpenAPI document; `x-gate` says who may call an operation."""
        documented = FastAPI(title=f"Mangrove {self.group}", version=__version__)
        documented.router.route_class = GatedRoute
        for endpoint, data_model, about in self._routes:
            if "response_class" not in about:
                about = about | {"responses": _describe_answers(data_model)}
            documented.router.add_api_route(endpoint=endpoint, **about)
        document = documented.openapi()
        for route in self.app.routes:
            assert isinstance(route, GatedRoute)
            if not route.include_in_schema:
                continue
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                operation["x-gate"] = str(route.gate)
                operation["responses"].pop("422", None)  # what does not fit is an envelope with code 400
                for parameter in operation.get("parameters", ()):
                    if parameter["schema"].pop(REQUIRED_MARK, False):
                        parameter["required"] = True
                        parameter["schema"].pop("default", None)
                if route.gate.level != "anyone":
                    operation["security"] = [{"token": []}]
        for unused in ("HTTPValidationError", "ValidationError"):
            document.get("components", {}).get("schemas", {}).pop(unused, None)
        add_texts(document)
        return document

    def route(self, method: str, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint; `data_model` is the model of the envelope's `data` in the OpenAPI document.

        One that answers no envelope says so with FastAPI's `response_class` and `responses`. What it answers is a model
        for the document alone: it is made there, as it takes long.
        """
        about = rest | {
            "path": path,
            "methods": [method],
            "response_model": None,
            "tags": [self.group],
            "operation_id": method.lower() + "".join(letter if letter.isalnum() else "_" for letter in path),
        }

        def register(endpoint: Endpoint) -> Endpoint:
            self.app.add(GatedRoute(endpoint=endpoint, **about | {"responses": None}))
            self._routes.append((endpoint, data_model, about))
            return endpoint

        return register

    def get(self, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, data_model, **rest)

    def post(self, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, data_model, **rest)

    def put(self, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, data_model, **rest)


async def handle_invalid_request(request: Request, error: Exception) -> Response:
    """What does not fit its model: the reason why the body could not be read, or a line for each field."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, UnreadableBody):
        return make_failure(error.body.problem, dialect=await find_dialect(request))
    lines = (f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in error.errors()[:10])
    return await handle_problem(request, BadRequest("\n".join(lines)[:1000]))
