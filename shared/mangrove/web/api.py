"""One FastAPI application per endpoint group: routes that must declare a gate, one family of failures."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from secrets import token_hex
from typing import Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from mangum import Mangum
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove import __version__, deadlines, problems, runtime
from mangrove.access_log import AccessLog
from mangrove.config import config
from mangrove.integers import parse_integer
from mangrove.problems import BadRequest, MethodNotAllowed, Missing, NotAvailable, OutOfTime, Problem
from mangrove.shares import Shares
from mangrove.site.masking import mask_private
from mangrove.telemetry import (
    BYTES_RECEIVED,
    BYTES_SENT,
    REQUESTS,
    emit,
    log_event,
    log_exception,
    log_warning,
    name_invocation,
)
from mangrove.web.address import find_client_address
from mangrove.web.binding import REQUIRED_MARK, JsonRequest, UnreadableBody
from mangrove.web.dialects import OPENLIST_PREFIX, Dialect, find_dialect
from mangrove.web.envelope import make_failure
from mangrove.web.events import REFUSED_EVENT, BadEvent, check_event
from mangrove.web.field_texts import add_texts
from mangrove.web.gates import Gate, name_caller
from mangrove.web.pages import make_failure_page

Data = TypeVar("Data")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Envelope(BaseModel, Generic[Data]):
    """What every JSON endpoint answers when it succeeds."""

    code: Literal[200] = Field(description="Says success.")
    message: str = Field(description="`success`, or what was done.")
    data: Data = Field(description="What was asked for; `null` where nothing is.")


WORDS = sorted(
    kind.__name__ for kind in vars(problems).values() if isinstance(kind, type) and issubclass(kind, Problem)
)


class Failure(BaseModel):
    """What every JSON endpoint answers when it fails, with HTTP status 200, too."""

    code: int = Field(description="What kind of failure this is, in the words of HTTP; never 200.")
    message: str = Field(description="What went wrong, for people. Programs decide by `problem` and `code`.")
    data: Any = Field(description="`null`, but for the few failures that leave something behind, as its `id`.")
    problem: Annotated[str, Field(json_schema_extra={"enum": WORDS})] = Field(
        description="What went wrong, in one word. A client of `/openlist` does not get it."
    )


class LargeBodyShares(Shares):
    """How many large JSON bodies are in memory at once."""

    def __init__(self) -> None:
        super().__init__("large requests are handled", most=32, per_caller=4, seconds=30)


class GatedRoute(APIRoute):
    """A route that exists only with a gate in its signature."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **rest: Any) -> None:
        super().__init__(path, endpoint, **rest)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)  # a name may hold a line break
        gates = [one.call for one in self.dependant.dependencies if isinstance(one.call, Gate)]
        if len(gates) != 1:
            raise TypeError(f"{endpoint.__name__} ({path}) must declare exactly one gate, it declares {len(gates)}")
        self.gate: Gate = gates[0]

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_json(request: Request) -> Response:
            if self.gate.level == "anyone":
                return await handle(JsonRequest(request))
            async with AsyncExitStack() as held:

                async def admit(request: Request) -> None:
                    caller = name_caller(await self.gate(request), await find_client_address(request))
                    await held.enter_async_context(runtime.get(LargeBodyShares).hold(caller))

                return await handle(JsonRequest(request, admit))

        return handle_json


class Api:
    """The application of one endpoint group: `app` for an ASGI server, `make_lambda_handler(app)` for a function."""

    def __init__(self, group: str) -> None:
        self.app = FastAPI(
            title=f"Mangrove {group}", version=__version__, openapi_url=None, docs_url=None, redoc_url=None
        )
        self.app.router.route_class = GatedRoute
        self.app.router.redirect_slashes = False
        self.group = group
        self.app.add_middleware(DeadlineMiddleware)
        self.app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
        self.app.add_middleware(RequestMiddleware)
        self.app.add_exception_handler(Problem, handle_problem)
        self.app.add_exception_handler(RequestValidationError, handle_invalid_request)
        self.app.add_exception_handler(HTTPException, handle_http_error)

    def build_document(self) -> dict[str, Any]:
        """The group's OpenAPI document; `x-gate` says who may call an operation."""
        document = self.app.openapi()
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

        One that answers no envelope says so with FastAPI's `response_class` and `responses`.
        """
        if "response_class" not in rest:
            rest["responses"] = {200: {"model": Envelope[data_model] | Failure}}

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

    def get(self, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, data_model, **rest)

    def post(self, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, data_model, **rest)

    def put(self, path: str, data_model: Any = None, **rest: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, data_model, **rest)


ANSWER_SECONDS = 1.0  # of a function's time that are left for the answer that it was not enough
NOTED = {"code": "envelope_code"} | {name: name for name in ("caller", "door", "user", "client")}
"""In the log → of a request's state."""
FILE_ROUTES = ("/d/", "/p/", "/ae/")  # whatever the path: only another method than theirs is nobody's
ABSENT = {
    "/api/admin/scan/": "scan",
    "/api/fs/torrent/": "torrents",
    "/api/public/share/": "sharing",
    "/api/share/": "sharing",
}  # what others of the family have below these paths


POLLED = re.compile(  # what clients ask again and again, and what belongs to a page that somebody opened
    r"(/openlist)?(/ping|/health|/api/(admin/)?task/\w+/(undone|done|info)"
    r"|/api/admin/(index/progress|message/get))|/@assets/.+"
)


class Answer:
    """What is sent for a request, as its log and the metrics know it."""

    def __init__(self, send: Send) -> None:
        self.status = 0
        self.bytes = 0
        self._send = send

    async def send(self, message: Message) -> None:
        """Send a message on, and note it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.bytes += len(message.get("body", b""))
        await self._send(message)


class RequestMiddleware:
    """Around every request: the dialect's prefix is cut off, the access is logged, no traceback reaches the client."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, answer = time.perf_counter(), Answer(send)
        path: str = scope["path"]
        state = dict(scope.get("state", {}))
        scope = {**scope, "state": state}
        if path.startswith(OPENLIST_PREFIX + "/"):
            state["dialect"] = Dialect.OPENLIST
            scope["path"] = path[len(OPENLIST_PREFIX) :]
        try:
            await self.app(scope, receive, answer.send)
        except ClientDisconnect:
            log_event("client left", method=scope["method"], path=path)
        except Exception:  # the one place: an error that nothing else expects becomes an answer here
            request_id = token_hex(8)
            log_exception("request failed", method=scope["method"], path=path, request_id=request_id)
            if not answer.status:
                problem = Problem(f"internal error, request id {request_id}")
                reply = make_failure(problem, dialect=state.get("dialect", Dialect.DOCUMENT))
                if not scope["path"].startswith("/api/"):
                    reply.status_code = 500
                await reply(scope, receive, answer.send)
            elif not config().on_one_machine:
                raise  # nothing was sent yet: the adapter makes it a failure, where half an answer would be its own
        finally:
            _note_request(scope, path, answer, time.perf_counter() - began)


def _note_request(scope: Scope, path: str, answer: Answer, seconds: float) -> None:
    """A line in the log, and metrics. `path`: as it was asked for."""
    state = scope["state"]
    about = {name: state[key] for name, key in NOTED.items() if key in state}
    code = about.get("code", answer.status)
    wanted, is_fine = config().access_log, answer.status < 400 and code < 400
    if wanted == "all" or (wanted == "errors" and not is_fine):
        is_polling = answer.status == code == 200 and POLLED.fullmatch(path) is not None
        method, milliseconds = scope["method"], round(seconds * 1000, 1)
        facts = {"method": method, "path": path, "status": answer.status, **about, "ms": milliseconds}
        runtime.get(AccessLog).note(facts, is_detail=is_polling)
    if not config().is_function:
        return
    received = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    emit({REQUESTS: 1}, str(code))
    emit({BYTES_RECEIVED: parse_integer(received.decode("latin-1")) or 0, BYTES_SENT: answer.bytes})


class DeadlineMiddleware:
    """Answers OutOfTime when a function's time is over before an answer began."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        remaining = deadlines.get_remaining()
        if remaining == math.inf:
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def send_and_note_begin(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            async with asyncio.timeout(remaining) as limit:
                await self.app(scope, receive, send_and_note_begin)
        except TimeoutError:
            if has_begun or not limit.expired():
                raise
            reply = await handle_problem(Request(scope), OutOfTime())
            await reply(scope, receive, send)


async def handle_problem(request: Request, problem: Exception) -> Response:
    """A Problem as envelope under `/api/`, as page elsewhere."""
    assert isinstance(problem, Problem)
    if request.scope["path"].startswith("/api/"):
        return make_failure(problem, mask_private(problem.message), await find_dialect(request))
    return make_failure_page(problem, head=request.method == "HEAD")


async def handle_invalid_request(request: Request, error: Exception) -> Response:
    """What does not fit its model: the reason why the body could not be read, or a line for each field."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, UnreadableBody):
        return make_failure(error.body.problem, dialect=await find_dialect(request))
    lines = (f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in error.errors()[:10])
    return await handle_problem(request, BadRequest("\n".join(lines)[:1000]))


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Starlette's own refusals: no such route or method, a body that broke off."""
    assert isinstance(error, HTTPException)
    if request.scope["path"].startswith(FILE_ROUTES) and request.method not in ("GET", "HEAD"):
        refusal = MethodNotAllowed(f"{request.method} is no way to read a file")
        return make_failure_page(refusal, request.method == "HEAD", {"allow": "GET, HEAD"})
    if error.status_code in (404, 405):
        problem = _explain_absence(request.method, request.scope["path"])
        reply = make_failure(problem, dialect=await find_dialect(request))
        reply.status_code = 200 if request.scope["path"].startswith("/api") else 404
        return reply
    return await handle_problem(request, BadRequest(str(error.detail)))


def _explain_absence(method: str, path: str) -> Problem:
    for prefix, feature in ABSENT.items():
        if path.startswith(prefix):
            return NotAvailable(f"{feature}: not available")
    return Missing(f"no route for {method} {path[:200]}")


def make_lambda_handler(app: FastAPI) -> Callable[[Any, Any], Any]:
    """The entry point of a function in the cloud.

    The adapter is made for each event: it keeps nothing, and it touches the event loop, which an import must not.
    """

    def handler(event: Any, context: Any) -> Any:
        try:
            check_event(event)
            with deadlines.limit(_get_seconds(context)):
                return Mangum(app, lifespan="off")(_quote_path(event), context)
        except BadEvent as reason:
            log_warning("an event that is not the HTTP API's", reason=str(reason))
        except Exception:  # of the adapter, which takes an event for granted: what the application raises is answered
            log_exception("an event cannot be read")
        return REFUSED_EVENT

    return name_invocation(handler)


def _get_seconds(context: Any) -> float:
    """How long the function may work for a request, so that there is time left to answer."""
    get_milliseconds = getattr(context, "get_remaining_time_in_millis", None)
    return math.inf if get_milliseconds is None else get_milliseconds() / 1000 - ANSWER_SECONDS


def _quote_path(event: Any) -> Any:
    """The event with its path percent-encoded. An HTTP API delivers it decoded, and the adapter decodes it again."""
    match event:
        case {"requestContext": {"http": {"path": str(path)} as http} as about}:
            return event | {"requestContext": about | {"http": http | {"path": quote(path)}}}
    return event
