"""HTML failure pages of the download routes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from http import HTTPStatus

from starlette.responses import HTMLResponse, Response

from mangrove.configuration.masking import mask_private
from mangrove.core.headers import make_retry_after
from mangrove.core.problems import Missing, NotFound, Problem, WrongArchivePassword

PAGE_HEADERS = {  # nothing runs in such a page, and nobody frames it
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def make_failure_page(problem: Problem, head: bool = False, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as a small page with its code as HTTP status; a missing object is 404, a wrong password 403."""
    status = 404 if isinstance(problem, NotFound | Missing) else problem.code
    if isinstance(problem, WrongArchivePassword):
        status = 403  # its code says success in HTTP
    title = f"{status} {HTTPStatus(status).phrase}"
    page = f"<!doctype html><title>{title}</title><h1>{title}</h1><hr><p>{escape(mask_private(problem.message))}</p>"
    more = make_retry_after(problem.retry_after) | dict(headers or {})
    return HTMLResponse("" if head else page, status_code=status, headers=PAGE_HEADERS | more)
