"""The ASGI application of one endpoint group: logging, CORS, the time limit, routing, failures."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Any, Protocol, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from mangrove.core import deadlines, runtime
from mangrove.core import metrics as shared_metrics
from mangrove.core.config import config
from mangrove.core.http import parse_integer
from mangrove.core.metrics import OTHER_VALUE
from mangrove.core.platform import platform
from mangrove.core.problems import OutOfTime, Problem
from mangrove.core.shared_memory import metrics
from mangrove.core.telemetry import (
    BYTES_RECEIVED,
    BYTES_SENT,
    REQUEST_ID_HEADER,
    REQUESTS,
    AccessLog,
    choose_request_id,
    emit,
    get_request_id,
    log_event,
    log_exception,
    use_request_id,
)
from mangrove.web.failures import handle_http_error, handle_problem, make_unexpected
from mangrove.web.flavours import OPENLIST_PREFIX, ApiFlavour

Failure = TypeVar("Failure", bound=Exception)
RawHeaders = Iterable[tuple[bytes, bytes]]
LOGGED_STATE = {"code": "envelope_code"} | {name: name for name in ("caller", "protocol", "user", "client")}
"""Name in the state of a request, by its name in the log."""
POLLED_PATHS = re.compile(  # clients or open pages request them repeatedly
    r"(/openlist)?(/ping|/health|/api/(admin/)?task/\w+/(undone|done|info)|/api/events|/metrics"
    r"|/api/admin/(index/progress|message/get|overview))|/@assets/.+"
)
CORS_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY")
_PREFLIGHT_HEADERS = {
    "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, "
    "Access-Control-Request-Private-Network",
    "access-control-allow-origin": "*",
    "access-control-allow-methods": ", ".join(CORS_METHODS),
    "access-control-max-age": "600",
}
_ALLOW_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
_VARY_ON_ORIGIN = (b"vary", b"Origin")
_TEXT_PARAMETER = re.compile(r"{\w+(:path)?}")


class Route(Protocol):
    """A route as the application knows it."""

    path: str

    @property
    def path_regex(self) -> re.Pattern[str]: ...

    @property
    def methods(self) -> Set[str] | None: ...

    def respond(self, request: Request, /) -> Awaitable[Response]:
        """Answer the request, or raise an exception that has a handler."""
        ...

    def prepare(self) -> None:
        """Do now what the first request would have to do."""
        ...


class ResponseRecorder:
    """A sender of the messages of a response, with the id of the request. It records the values for the log and the
    metrics.
    """

    __slots__ = ("_is_cross_origin", "_request_id", "_send", "bytes", "status")

    def __init__(self, send: Send, is_cross_origin: bool, request_id: str) -> None:
        self.status = 0  # until the response has begun
        self._request_id = (REQUEST_ID_HEADER, request_id.encode())
        self.bytes = 0
        self._send = send
        self._is_cross_origin = is_cross_origin

    async def send(self, message: Message) -> None:
        """Send a message, with the CORS headers."""
        if message["type"] == "http.response.start":
            message["headers"] = add_cors_headers(message.get("headers", ()), self._is_cross_origin)
        await self.send_bare(message)

    async def send_bare(self, message: Message) -> None:
        """Send a message without the CORS headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), self._request_id]
        else:
            self.bytes += len(message.get("body", b""))
        await self._send(message)


class Application:
    """The ASGI application of an endpoint group, for HTTP only.

    It logs a request, strips the prefix of an API flavour, allows other origins, keeps to a function's time limit,
    finds the route and answers failures: no traceback reaches the client. A path without parameters wins over a path
    with parameters; those are tried in the order of registration. `default` answers paths without a route.
    """

    def __init__(self, group: str = OTHER_VALUE) -> None:
        self.group = group
        self.default: Callable[[Request], Awaitable[Response]] = _refuse
        self._handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]] = {}
        self._routes: list[Route] = []
        self._exact: dict[str, dict[str, Route]] = {}
        self._patterns: list[Route] = []
        self.set_handler(Problem, handle_problem)
        self.set_handler(HTTPException, handle_http_error)

    @property
    def routes(self) -> list[Any]:
        """All routes, in the order of registration."""
        return list(self._routes)

    def add(self, route: Route) -> None:
        """Add a route. Raise TypeError if its path has a parameter that is not a text."""
        self._routes.append(route)
        if "{" in _TEXT_PARAMETER.sub("", route.path):
            raise TypeError(f"{route.path}: only texts are parameters of a path")
        if "{" in route.path:
            self._patterns.append(route)
            return
        by_method = self._exact.setdefault(route.path, {})
        for method in route.methods or ():
            by_method.setdefault(method, route)

    def prepare(self) -> None:
        """Prepare all routes, for a process that stays. Raise TypeError if one is not declared as it has to be."""
        for route in self._routes:
            route.prepare()

    def set_handler(self, kind: type[Failure], handle: Callable[[Request, Failure], Awaitable[Response]]) -> None:
        """Answer exceptions of this class by `handle`, unless a subclass has its own handler."""
        self._handlers[kind] = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = choose_request_id(find_header(scope, REQUEST_ID_HEADER))
        scope = {**scope, "state": dict(scope.get("state", ()))}
        with use_request_id(request_id):
            await self._answer_and_record(scope, receive, ResponseRecorder(send, has_origin(scope), request_id))

    async def _answer_and_record(self, scope: Scope, receive: Receive, recorder: ResponseRecorder) -> None:
        began, path, state = time.perf_counter(), scope["path"], scope["state"]
        if path.startswith(OPENLIST_PREFIX + "/"):
            state["flavour"] = ApiFlavour.OPENLIST
            scope["path"] = path[len(OPENLIST_PREFIX) :]
        try:
            preflight = make_preflight_answer(scope)
            if preflight is not None:
                await preflight(scope, receive, recorder.send_bare)
            else:
                await self._answer_in_time(scope, receive, recorder)
        except ClientDisconnect:
            log_event("client disconnected", method=scope["method"], path=path)
        except Exception:  # unexpected errors become answers here and nowhere else
            log_exception("request failed", method=scope["method"], path=path)
            if not recorder.status:
                answer = make_unexpected(get_request_id(), scope["path"], state.get("flavour", ApiFlavour.NATIVE))
                await answer(scope, receive, recorder.send_bare)
            elif platform().max_answer_bytes is not None:
                raise  # the adapter has not sent anything yet: it reports a failure instead of a partial answer
        finally:
            _record_request(self.group, scope, path, recorder, time.perf_counter() - began)

    async def _answer_in_time(self, scope: Scope, receive: Receive, recorder: ResponseRecorder) -> None:
        """Answer OutOfTime if a function's time ends before an answer has started."""
        remaining = deadlines.get_remaining()
        if remaining == math.inf:
            await self._answer(scope, receive, recorder)
            return
        try:
            async with asyncio.timeout(remaining) as limit:
                await self._answer(scope, receive, recorder)
        except TimeoutError:
            if recorder.status or not limit.expired():
                raise
            answer = await handle_problem(Request(scope), OutOfTime())
            await answer(scope, receive, recorder.send)

    async def _answer(self, scope: Scope, receive: Receive, recorder: ResponseRecorder) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
            await response(scope, receive, recorder.send)
        except Exception as error:  # an exception without a handler goes to the caller
            handle = self._find_handler(type(error))
            if handle is None or recorder.status:
                raise
            answer = await handle(request, error)
            await answer(scope, receive, recorder.send)
            error.__traceback__ = None  # an instance that is raised repeatedly would collect frames of all requests

    def _find_handler(self, kind: type[Exception]) -> Callable[[Request, Any], Awaitable[Response]] | None:
        return next((self._handlers[base] for base in kind.__mro__ if base in self._handlers), None)

    async def _respond(self, request: Request) -> Response:
        method, path = request.scope["method"], request.scope["path"]
        by_method = self._exact.get(path, _NO_ROUTES)
        route = by_method.get(method)
        if route is not None:
            return await route.respond(request)
        is_known = bool(by_method)
        for pattern in self._patterns:
            match = pattern.path_regex.match(path)
            if match is None:
                continue
            if method in (pattern.methods or ()):
                request.scope["path_params"] = match.groupdict()
                return await pattern.respond(request)
            is_known = True
        return await (_refuse if is_known else self.default)(request)


_NO_ROUTES: Mapping[str, Route] = {}


async def _refuse(request: Request) -> Response:
    raise HTTPException(404)


def _record_request(group: str, scope: Scope, path: str, recorder: ResponseRecorder, seconds: float) -> None:
    """Write the log line and the metrics of a request; `path` has the prefix of the API flavour."""
    state = scope["state"]
    fields = {name: state[key] for name, key in LOGGED_STATE.items() if key in state}
    code = fields.get("code", recorder.status)
    log_level, is_success = config().access_log, recorder.status < 400 and code < 400
    if log_level == "all" or (log_level == "errors" and not is_success):
        is_polling = recorder.status == code == 200 and POLLED_PATHS.fullmatch(path) is not None
        method, milliseconds = scope["method"], round(seconds * 1000, 1)
        line = {
            "method": method,
            "path": path,
            "status": recorder.status,
            **fields,
            "request_id": get_request_id(),
            "ms": milliseconds,
        }
        runtime.get(AccessLog).log(line, is_detail=is_polling)
    received = parse_integer((find_header(scope, b"content-length") or b"").decode("latin-1")) or 0
    _count_request(group, str(code), seconds)
    sent = recorder.bytes + state.get("sent_bytes", 0)
    _count_bytes(group, received, sent)
    emit({REQUESTS: 1}, str(code))
    emit({BYTES_RECEIVED: received, BYTES_SENT: sent})


def _count_request(group: str, code: str, seconds: float) -> None:
    metrics().count(shared_metrics.REQUESTS, group, code)
    metrics().observe(shared_metrics.REQUEST_SECONDS, seconds, group)


def _count_bytes(group: str, received: int, sent: int) -> None:
    metrics().count(shared_metrics.RECEIVED_BYTES, group, amount=received)
    metrics().count(shared_metrics.SENT_BYTES, group, amount=sent)


def make_preflight_answer(scope: Scope) -> Response | None:
    """Return the answer to a CORS preflight, None for any other request.

    Any origin, any header and every method that a page could need are allowed; cookies are not.
    """
    if scope["method"] != "OPTIONS":
        return None
    request_headers = Headers(scope=scope)
    method = request_headers.get("access-control-request-method")
    if method is None or "origin" not in request_headers:
        return None
    headers, refused = dict(_PREFLIGHT_HEADERS), []
    if method not in CORS_METHODS:
        refused.append("method")
    names = request_headers.get("access-control-request-headers")
    if names is not None:
        headers["access-control-allow-headers"] = names
    if "access-control-request-private-network" in request_headers:
        refused.append("private-network")
    if refused:
        return PlainTextResponse(f"Disallowed CORS {', '.join(refused)}", 400, headers)
    return PlainTextResponse("OK", 200, headers)


def has_origin(scope: Scope) -> bool:
    """True if a browser sends the request for a page of some origin."""
    return find_header(scope, b"origin") is not None


def find_header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first value of a header, whose name is in lower case; None if there is none."""
    for header, value in scope["headers"]:  # runs for every request, twice as fast as next()
        if header == name:
            return bytes(value)
    return None


def add_cors_headers(headers: RawHeaders, is_cross_origin: bool) -> list[tuple[bytes, bytes]]:
    """Return an answer's headers with `Vary: Origin` and, if `is_cross_origin`, the permission for any origin."""
    result, has_permission, varies = list(headers), False, []
    for name, value in result:
        if name == b"vary":
            varies.append(value)
        elif name == b"access-control-allow-origin":
            has_permission = True
    if is_cross_origin:
        result = _replace(result, _ALLOW_ANY_ORIGIN) if has_permission else [*result, _ALLOW_ANY_ORIGIN]
    if not varies:
        result.append(_VARY_ON_ORIGIN)
        return result
    return _replace(result, (b"vary", b", ".join([*varies, b"Origin"])))


def _replace(headers: RawHeaders, header: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers with `header` in place of the first of its name, without the others of that name."""
    result, is_placed = [], False
    for name, value in headers:
        if name != header[0]:
            result.append((name, value))
        elif not is_placed:
            result.append(header)
            is_placed = True
    return result
