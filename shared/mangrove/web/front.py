"""The application of one endpoint group: what is around its routes, and the way to the one that answers."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from secrets import token_hex
from typing import Any, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mangrove.core import deadlines, runtime
from mangrove.core.config import config
from mangrove.core.http import parse_integer
from mangrove.core.platform import platform
from mangrove.core.problems import OutOfTime, Problem
from mangrove.core.telemetry import BYTES_RECEIVED, BYTES_SENT, REQUESTS, AccessLog, emit, log_event, log_exception
from mangrove.web import cors
from mangrove.web.dialects import OPENLIST_PREFIX, Dialect
from mangrove.web.failures import FailureHandler, handle_http_error, handle_problem, make_unexpected

NOTED = {"code": "envelope_code"} | {name: name for name in ("caller", "protocol", "user", "client")}
"""In the log → of a request's state."""
POLLED = re.compile(  # what clients ask again and again, and what belongs to a page that somebody opened
    r"(/openlist)?(/ping|/health|/api/(admin/)?task/\w+/(undone|done|info)"
    r"|/api/admin/(index/progress|message/get))|/@assets/.+"
)
_TEXTS = re.compile(r"{\w+(:path)?}")


class Route(Protocol):
    """What Front has to know of a route: `methods` and paths that it answers, and its answer."""

    path: str
    path_regex: re.Pattern[str]

    @property
    def methods(self) -> Set[str] | None: ...

    def respond(self, request: Request, /) -> Awaitable[Response]:
        """Answer; or fail, with what a handler answers."""
        ...


class Answer:
    """What is sent for a request, as its log and the metrics know it; `status` is 0 before it has begun."""

    __slots__ = ("_is_cross_origin", "_send", "bytes", "status")

    def __init__(self, send: Send, is_cross_origin: bool) -> None:
        self.status = 0
        self.bytes = 0
        self._send = send
        self._is_cross_origin = is_cross_origin

    async def send(self, message: Message) -> None:
        """Send a message on with what other origins need, and note it."""
        if message["type"] == "http.response.start":
            message["headers"] = cors.allow(message.get("headers", ()), self._is_cross_origin)
        await self.send_bare(message)

    async def send_bare(self, message: Message) -> None:
        """Send a message on as it is, and note it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.bytes += len(message.get("body", b""))
        await self._send(message)


class Front:
    """An ASGI application, for HTTP alone. It logs a request, cuts the dialect's prefix off, allows other origins,
    keeps to a function's time, finds the route, and answers what fails: no traceback reaches the client.

    A path without parameters goes before one with them; those are tried in the order in which they were added.
    `default` answers paths that no route has.
    """

    def __init__(self) -> None:
        self.default: Callable[[Request], Awaitable[Response]] = _refuse
        self._handlers: dict[type[Exception], FailureHandler] = {}
        self._routes: list[Route] = []
        self._exact: dict[str, dict[str, Route]] = {}
        self._patterns: list[Route] = []
        self.set_handler(Problem, handle_problem)
        self.set_handler(HTTPException, handle_http_error)

    @property
    def routes(self) -> list[Any]:
        """All of them, in the order in which they were added."""
        return list(self._routes)

    def add(self, route: Route) -> None:
        """Answer with this route, too."""
        self._routes.append(route)
        if "{" in _TEXTS.sub("", route.path):
            raise TypeError(f"{route.path}: only texts are parameters of a path")
        if "{" in route.path:
            self._patterns.append(route)
            return
        by_method = self._exact.setdefault(route.path, {})
        for method in route.methods or ():
            by_method.setdefault(method, route)

    def set_handler(self, kind: type[Exception], handle: FailureHandler) -> None:
        """Answer exceptions of this class with `handle`, unless there is a handler for a class below it."""
        self._handlers[kind] = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, answer = time.perf_counter(), Answer(send, cors.has_origin(scope))
        path: str = scope["path"]
        state = dict(scope.get("state", ()))
        scope = {**scope, "state": state}
        if path.startswith(OPENLIST_PREFIX + "/"):
            state["dialect"] = Dialect.OPENLIST
            scope["path"] = path[len(OPENLIST_PREFIX) :]
        try:
            preflight = cors.find_preflight(scope)
            if preflight is not None:
                await preflight(scope, receive, answer.send_bare)
            else:
                await self._answer_in_time(scope, receive, answer)
        except ClientDisconnect:
            log_event("client left", method=scope["method"], path=path)
        except Exception:  # the one place: an error that nothing else expects becomes an answer here
            request_id = token_hex(8)
            log_exception("request failed", method=scope["method"], path=path, request_id=request_id)
            if not answer.status:
                reply = make_unexpected(request_id, scope["path"], state.get("dialect", Dialect.DOCUMENT))
                await reply(scope, receive, answer.send_bare)
            elif platform().max_answer_bytes is not None:
                raise  # nothing was sent yet: the adapter makes it a failure, where half an answer would be its own
        finally:
            _note_request(scope, path, answer, time.perf_counter() - began)

    async def _answer_in_time(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Answer OutOfTime when a function's time is over before an answer began."""
        remaining = deadlines.get_remaining()
        if remaining == math.inf:
            await self._answer(scope, receive, answer)
            return
        try:
            async with asyncio.timeout(remaining) as limit:
                await self._answer(scope, receive, answer)
        except TimeoutError:
            if answer.status or not limit.expired():
                raise
            reply = await handle_problem(Request(scope), OutOfTime())
            await reply(scope, receive, answer.send)

    async def _answer(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
            await response(scope, receive, answer.send)
        except Exception as error:  # what has no handler goes on to whoever called
            handle = self._find_handler(type(error))
            if handle is None or answer.status:
                raise
            reply = await handle(request, error)
            await reply(scope, receive, answer.send)
            error.__traceback__ = None  # one that is raised again and again would gather the frames of all requests

    def _find_handler(self, kind: type[Exception]) -> FailureHandler | None:
        return next((self._handlers[one] for one in kind.__mro__ if one in self._handlers), None)

    async def _respond(self, request: Request) -> Response:
        method, path = request.scope["method"], request.scope["path"]
        by_method = self._exact.get(path, _NO_ROUTES)
        route = by_method.get(method)
        if route is not None:
            return await route.respond(request)
        is_known = bool(by_method)
        for one in self._patterns:
            found = one.path_regex.match(path)
            if found is None:
                continue
            if method in (one.methods or ()):
                request.scope["path_params"] = found.groupdict()
                return await one.respond(request)
            is_known = True
        return await (_refuse if is_known else self.default)(request)


_NO_ROUTES: Mapping[str, Route] = {}


async def _refuse(request: Request) -> Response:
    raise HTTPException(404)


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
        runtime.get(AccessLog).log(facts, is_detail=is_polling)
    if not platform().emits_metrics:
        return
    received = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    emit({REQUESTS: 1}, str(code))
    emit({BYTES_RECEIVED: parse_integer(received.decode("latin-1")) or 0, BYTES_SENT: answer.bytes})
