"""HTML failure pages of the download routes, and the masking of addresses in messages."""

from __future__ import annotations

from html import escape
from http import HTTPStatus

import re2
from starlette.responses import HTMLResponse, Response

from mangrove.problems import Missing, NotFound, Problem, WrongArchivePassword
from mangrove.site import snapshot


def make_failure_page(problem: Problem, head: bool = False) -> Response:
    """The problem as a small page with its code as HTTP status; a missing object is 404, a wrong password 403."""
    status = 404 if isinstance(problem, NotFound | Missing) else problem.code
    if isinstance(problem, WrongArchivePassword):
        status = 403  # its code says success in HTTP
    title = f"{status} {HTTPStatus(status).phrase}"
    page = f"<!doctype html><title>{title}</title><h1>{title}</h1><hr><p>{escape(mask_private(problem.message))}</p>"
    return HTMLResponse("" if head else page, status_code=status, headers={"x-content-type-options": "nosniff"})


def mask_private(message: str) -> str:
    """`message` with every match of the setting `privacy_regs` replaced by as many stars."""
    if not snapshot.is_loaded():
        return message
    for pattern in snapshot.current().settings.privacy_regs.splitlines():
        if pattern.strip():  # RE2 remembers what it compiled
            message = re2.compile(pattern).sub(lambda match: "*" * len(match.group()), message)
    return message
