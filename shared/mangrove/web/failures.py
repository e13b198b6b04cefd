"""Failures as answers: an envelope below `/api/`, a page elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from mangrove.configuration import mask_private
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
from mangrove.tree.sharing.problems import ShareEnded, ShareNotFound
from mangrove.web.envelope import make_failure
from mangrove.web.flavours import ApiFlavour, find_flavour, format_message

MISSING = (EntryNotFound, ResourceNotFound, ShareNotFound, ShareEnded)  # a page about them has the status 404
FILE_ROUTES = (
    "/d/",
    "/p/",
    "/ae/",
    "/sd/",
    "/sad/",
    "/zip/",
)  # every path below them exists; only the method can be wrong
UNAVAILABLE_FEATURES = {
    "/api/admin/scan/": "scan",
    "/api/fs/torrent/": "torrents",
    "/api/public/share/": "sharing",
}
"""The feature that other servers of the family have below a prefix of a path."""
PAGE_HEADERS = {  # a failure page runs no script, and no page may frame it
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

VIEWPORT = '<meta name="viewport" content="width=device-width">'


async def handle_problem(request: Request, problem: Problem) -> Response:
    """Answer a Problem with an envelope below `/api/`, with a page elsewhere."""
    flavour = await find_flavour(request)
    if request.scope["path"].startswith("/api/"):
        return make_failure(problem, mask_private(format_message(problem, flavour)), flavour)
    return make_failure_page(problem, request.method == "HEAD", flavour=flavour)


async def handle_http_error(request: Request, error: HTTPException) -> Response:
    """Answer a request without a route, and a body that ends too early."""
    if request.scope["path"].startswith(FILE_ROUTES) and request.method not in ("GET", "HEAD"):
        refusal = MethodNotAllowed(f"{request.method} is no way to read a file")
        return make_failure_page(refusal, request.method == "HEAD", {"allow": "GET, HEAD"})
    if error.status_code in (404, 405):
        problem = _explain_absence(request.method, request.scope["path"])
        reply = make_failure(problem, flavour=await find_flavour(request))
        reply.status_code = 200 if request.scope["path"].startswith("/api") else 404
        return reply
    return await handle_problem(request, BadRequest(str(error.detail)))


def _explain_absence(method: str, path: str) -> Problem:
    for prefix, feature in UNAVAILABLE_FEATURES.items():
        if path.startswith(prefix):
            return FeatureNotAvailable(f"{feature}: not available")
    return ResourceNotFound(f"no route for {method} {path[:200]}")


def make_unexpected(request_id: str, path: str, flavour: ApiFlavour) -> Response:
    """Return the answer to an unexpected error, without its reason."""
    reply = make_failure(Problem(f"internal error, request id {request_id}"), flavour=flavour)
    if not path.startswith("/api/"):
        reply.status_code = 500
    return reply


def make_failure_page(
    problem: Problem,
    is_head: bool = False,
    headers: Mapping[str, str] | None = None,
    flavour: ApiFlavour = ApiFlavour.NATIVE,
) -> Response:
    """Return the problem as a small page with its code as HTTP status; a missing object is 404."""
    status = 404 if isinstance(problem, MISSING) else problem.code
    if isinstance(problem, WrongArchivePassword):
        status = 403  # in HTTP its code means success
    page = _format_page(status, escape(mask_private(format_message(problem, flavour))))
    extra_headers = make_retry_after(problem.retry_after) | dict(headers or {})
    return HTMLResponse("" if is_head else page, status_code=status, headers=PAGE_HEADERS | extra_headers)


def _format_page(status: int, message: str, head: str = "") -> str:
    title = f"{status} {HTTPStatus(status).phrase}"
    return f"<!doctype html>{head}<title>{title}</title><h1>{title}</h1><hr><p>{message}</p>"


def make_referral(request: Request, problem: Problem, url: str) -> Response:
    """Return the problem, whose message names `url`, with a link to that page: for browsers as a page, else as text."""
    headers = PAGE_HEADERS | {"link": f'<{url}>; rel="alternate"; type="text/html"', "cache-control": "no-store"}
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(f"{problem.message}\n", problem.code, headers)
    linked = escape(problem.message).replace(escape(url), f'<a href="{escape(url)}">{escape(url)}</a>')
    return HTMLResponse(_format_page(problem.code, linked, VIEWPORT), problem.code, headers)
