"""What fails as an answer: an envelope below `/api/`, a page elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from html import escape
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mangrove.configuration.masking import mask_private
from mangrove.core.http import make_retry_after
from mangrove.core.problems import (
    BadRequest,
    EntryNotFound,
    FeatureNotAvailable,
    MethodNotAllowed,
    Problem,
    ResourceNotFound,
    WrongArchivePassword,
)
from mangrove.web.dialects import Dialect, find_dialect, format_message
from mangrove.web.envelope import make_failure

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
    dialect = await find_dialect(request)
    if request.scope["path"].startswith("/api/"):
        return make_failure(problem, mask_private(format_message(problem, dialect)), dialect)
    return make_failure_page(problem, request.method == "HEAD", dialect=dialect)


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
            return FeatureNotAvailable(f"{feature}: not available")
    return ResourceNotFound(f"no route for {method} {path[:200]}")


def make_unexpected(request_id: str, path: str, dialect: Dialect) -> Response:
    """An error that nobody expected, without its reason."""
    reply = make_failure(Problem(f"internal error, request id {request_id}"), dialect=dialect)
    if not path.startswith("/api/"):
        reply.status_code = 500
    return reply


PAGE_HEADERS = {  # nothing runs in such a page, and nobody frames it
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def make_failure_page(
    problem: Problem,
    head: bool = False,
    headers: Mapping[str, str] | None = None,
    dialect: Dialect = Dialect.DOCUMENT,
) -> Response:
    """The problem as a small page with its code as HTTP status; a missing object is 404, a wrong password 403."""
    status = 404 if isinstance(problem, EntryNotFound | ResourceNotFound) else problem.code
    if isinstance(problem, WrongArchivePassword):
        status = 403  # its code says success in HTTP
    title = f"{status} {HTTPStatus(status).phrase}"
    message = escape(mask_private(format_message(problem, dialect)))
    page = f"<!doctype html><title>{title}</title><h1>{title}</h1><hr><p>{message}</p>"
    more = make_retry_after(problem.retry_after) | dict(headers or {})
    return HTMLResponse("" if head else page, status_code=status, headers=PAGE_HEADERS | more)
