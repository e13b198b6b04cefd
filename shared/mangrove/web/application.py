"""What is around the routes of every application, whatever makes them: the log, deadlines, answers to what fails, and
the adapter to Lambda."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from mangum import Mangum
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove import deadlines, runtime
from mangrove.access_log import AccessLog
from mangrove.config import config
from mangrove.integers import parse_integer
from mangrove.problems import BadRequest, MethodNotAllowed, Missing, NotAvailable, OutOfTime, Problem
from mangrove.site import snapshot
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
from mangrove.web.dialects import OPENLIST_PREFIX, Dialect, find_dialect
from mangrove.web.envelope import make_failure
from mangrove.web.events import REFUSED_EVENT, BadEvent, check_event
from mangrove.web.pages import make_failure_page

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


def surround(app: Starlette) -> None:
    """Put around an application's routes what is around all of them."""
    app.router.redirect_slashes = False
    app.add_middleware(DeadlineMiddleware)
    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(RequestMiddleware)
    app.add_exception_handler(Problem, handle_problem)
    app.add_exception_handler(HTTPException, handle_http_error)


def make_lambda_handler(app: Starlette) -> Callable[[Any, Any], Any]:
    """The entry point of a function in the cloud.

    The adapter is made for each event: it keeps nothing, and it touches the event loop, which an import must not.
    """
    snapshot.load_early()

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
