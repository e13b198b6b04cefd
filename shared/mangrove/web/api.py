"""One FastAPI application per endpoint group: routes that must declare a gate, one family of failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import token_hex
from typing import Any, Generic, TypeVar

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from mangum import Mangum
from pydantic import BaseModel
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove import __version__
from mangrove.problems import BadRequest, Missing, Problem, TooLarge
from mangrove.telemetry import log_event, log_exception
from mangrove.web.binding import MUST
from mangrove.web.envelope import failed
from mangrove.web.gates import Gate
from mangrove.web.pages import failure_page, masked

LARGEST_JSON = 8 << 20  # bytes of a JSON body
PREFIX = "/openlist"

Data = TypeVar("Data")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Envelope(BaseModel, Generic[Data]):
    """What every JSON endpoint answers."""

    code: int
    message: str
    data: Data


UNREADABLE = "unreadable"  # fits no body; the reason waits in the scope until the gate has let the caller in
NOTHING = ""  # what an empty body is taken for; no model takes it


class BoundRequest(Request):
    """Binds any body as JSON whatever its Content-Type says, `null` as `{}`, and never more than LARGEST_JSON."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            received = bytearray()
            async for chunk in self.stream():
                received += chunk
                if len(received) > LARGEST_JSON:
                    self.scope[UNREADABLE] = TooLarge(f"a JSON body may have at most {LARGEST_JSON} bytes")
                    received.clear()
                    break
            self._body = bytes(received) or b" "
        return self._body

    async def json(self) -> Any:
        text = (await self.body()).strip()
        try:
            value = orjson.loads(text) if text else UNREADABLE if UNREADABLE in self.scope else NOTHING
        except orjson.JSONDecodeError as error:
            self.scope[UNREADABLE] = BadRequest(f"invalid JSON: {error}")
            return UNREADABLE
        if not text:
            self.scope.setdefault(UNREADABLE, BadRequest("EOF"))
        return {} if value is None else value

    @property
    def headers(self) -> Any:
        return _AsJson(super().headers)


class _AsJson:
    """The request's headers, except that the body is always said to be JSON."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def get(self, key: str, default: Any = None) -> Any:
        return "application/json" if key == "content-type" else self._headers.get(key, default)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._headers, name)

    def __getitem__(self, key: str) -> Any:
        return self._headers[key]


class WholePath(PathConvertor):
    """`{path:path}` for any name a storage may hold, also one with a line break."""

    regex = "(?s:.*)"


register_url_convertor("path", WholePath())


class GatedRoute(APIRoute):
    """A route that exists only with a gate in its signature."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **rest: Any) -> None:
        super().__init__(path, endpoint, **rest)
        gates = [one.call for one in self.dependant.dependencies if isinstance(one.call, Gate)]
        if len(gates) != 1:
            raise TypeError(f"{endpoint.__name__} ({path}) must declare exactly one gate, it declares {len(gates)}")
        self.gate: Gate = gates[0]

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def bound(request: Request) -> Response:
            return await handle(BoundRequest(request.scope, request.receive))

        return bound


class Api:
    """The application of one endpoint group. `app` is served, `handler` is made from it with `lambda_handler`."""

    def __init__(self, group: str) -> None:
        self.app = FastAPI(
            title=f"Mangrove {group}", version=__version__, openapi_url=None, docs_url=None, redoc_url=None
        )
        self.app.router.route_class = GatedRoute
        self.app.router.redirect_slashes = False
        self.group = group
        self.app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
        self.app.add_middleware(Front)
        self.app.add_exception_handler(Problem, _on_problem)
        self.app.add_exception_handler(RequestValidationError, _on_invalid)
        self.app.add_exception_handler(HTTPException, _on_http)

    def document(self) -> dict[str, Any]:
        """The group's OpenAPI document; `x-gate` says who may call an operation."""
        document = self.app.openapi()
        for route in self.app.routes:
            assert isinstance(route, GatedRoute)
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                operation["x-gate"] = str(route.gate)
                operation["responses"].pop("422", None)  # what does not fit is an envelope with code 400
                for parameter in operation.get("parameters", ()):
                    if parameter["schema"].pop(MUST, False):
                        parameter["required"] = True
                        parameter["schema"].pop("default", None)
                if route.gate.level != "anyone":
                    operation["security"] = [{"token": []}]
        for unused in ("HTTPValidationError", "ValidationError"):
            document.get("components", {}).get("schemas", {}).pop(unused, None)
        return document

    def route(self, method: str, path: str, gives: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        """Register an endpoint; `gives` is the model of the envelope's `data` in the OpenAPI document.

        One that answers no envelope says so with FastAPI's `response_class` and `responses`.
        """
        if "response_class" not in rest:
            rest["responses"] = {200: {"model": Envelope[gives]}}

        def register(endpoint: Endpoint) -> Endpoint:
            self.app.router.add_api_route(
                path,
                endpoint,
                methods=[method],
                response_model=None,
                tags=[self.group],
                operation_id=method.lower() + "".join(letter if letter.isalnum() else "_" for letter in path),
                **rest,
            )
            return endpoint

        return register

    def get(self, path: str, gives: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, gives, **rest)

    def post(self, path: str, gives: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, gives, **rest)

    def put(self, path: str, gives: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, gives, **rest)


class Front:
    """First and last word on every request: dialect prefix, request id, access log, and no trace to the user."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        path: str = scope["path"]
        if path.startswith(PREFIX + "/"):
            scope = {**scope, "path": path[len(PREFIX) :], "dialect": "openlist"}

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except ClientDisconnect:
            log_event("client left", method=scope["method"], path=path)
        except Exception:  # the one place: whatever was not foreseen becomes an answer here
            request_id = token_hex(8)
            log_exception("request failed", method=scope["method"], path=path, request_id=request_id)
            if not status:
                await failed(Problem(f"internal error, request id {request_id}"))(scope, receive, watched)
        finally:
            milliseconds = round((time.perf_counter() - began) * 1000, 1)
            log_event("request", method=scope["method"], path=path, status=status, ms=milliseconds)


async def _on_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    if request.scope["path"].startswith("/api/"):
        return failed(problem, masked(problem.message))
    return failure_page(problem, head=request.method == "HEAD")


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if UNREADABLE in request.scope:
        return failed(request.scope[UNREADABLE])
    lines = (f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in error.errors()[:10])
    return await _on_problem(request, BadRequest("\n".join(lines)[:1000]))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        reply = failed(Missing(f"no route for {request.method} {request.scope['path'][:200]}"))
        reply.status_code = 200 if request.scope["path"].startswith("/api") else 404
        return reply
    return await _on_problem(request, BadRequest(str(error.detail)))


def lambda_handler(app: FastAPI) -> Callable[[Any, Any], Any]:
    """The function's entry point in the cloud; the adapter is made there only, since it touches the event loop."""
    adapters: list[Mangum] = []

    def handler(event: Any, context: Any) -> Any:
        if not adapters:
            adapters.append(Mangum(app, lifespan="off"))
        return adapters[0](event, context)

    return handler
