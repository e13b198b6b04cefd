"""What fails as an answer: an envelope below `/api/`, a page elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mangrove.configuration.masking import mask_private
from mangrove.core.problems import BadRequest, MethodNotAllowed, Missing, NotAvailable, Problem
from mangrove.web.dialects import Dialect, find_dialect
from mangrove.web.envelope import make_failure
from mangrove.web.pages import make_failure_page

FailureHandler = Callable[[Request, Exception], Awaitable[Response]]
FILE_ROUTES = ("/d/", "/p/", "/ae/")  # whatever the path: only another method than theirs is nobody's
ABSENT = {
    "/api/admin/scan/": "scan",
    "/api/fs/torrent/": "torrents",
    "/api/public/share/": "sharing",
    "/api/share/": "sharing",
}  # what others of the family have below these paths


async def handle_problem(request: Request, problem: Exception) -> Response:
    """A Problem as envelope under `/api/`, as page elsewhere."""
    assert isinstance(problem, Problem)
    if request.scope["path"].startswith("/api/"):
        return make_failure(problem, mask_private(problem.message), await find_dialect(request))
    return make_failure_page(problem, head=request.method == "HEAD")


async def handle_http_error(request: Request, error: Exception) -> Response:
    """What a route is not found with, and what a body breaks off with."""
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


def make_unexpected(request_id: str, path: str, dialect: Dialect) -> Response:
    """An error that nobody expected, without its reason."""
    reply = make_failure(Problem(f"internal error, request id {request_id}"), dialect=dialect)
    if not path.startswith("/api/"):
        reply.status_code = 500
    return reply
