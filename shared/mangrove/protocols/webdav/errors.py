"""Failures in the terms of WebDAV: a status and, if RFC 4918 names one, the violated condition."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from xml.sax.saxutils import escape

from mangrove.configuration import mask_private
from mangrove.core.problems import (
    AccessDenied,
    EntryExists,
    EntryNotFound,
    InUse,
    NameConflict,
    NotMounted,
    NotSupported,
    OutOfTime,
    Problem,
    RecordsUnavailable,
    ResourceNotFound,
    SecondFactorRequired,
    StorageForbidden,
    StorageFull,
    Unauthorized,
    Unreachable,
    UploadRefused,
)
from mangrove.records.store.base import RecordRefused
from mangrove.records.webdav_locks import LockQuotaExceeded
from mangrove.records.webdav_properties import PropertyQuotaExceeded

XML_HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n'
XML = "application/xml; charset=utf-8"


class DavProblem(Problem):
    """A refusal that only WebDAV has.

    `status`: of HTTP; `condition`: its element, "" for none; `href`: the address that it is about, if that differs from
    the request's.
    """

    def __init__(self, status: int, message: str, condition: str = "", href: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.condition = condition
        self.href = href


class PreconditionFailed(DavProblem):
    """A condition in a header of the request is false."""

    def __init__(self, message: str = "a condition of the request is false") -> None:
        super().__init__(412, message)


class LockedResource(DavProblem):
    """The entry, or one that the request changes, is locked by a user, and the request lacks the token."""

    def __init__(self, href: str, condition: str = "lock-token-submitted") -> None:
        super().__init__(423, "it is locked", condition, href)


_STATUSES: Sequence[tuple[tuple[type[Problem], ...], int]] = (
    ((EntryNotFound, NotMounted, ResourceNotFound), 404),
    ((SecondFactorRequired, Unauthorized), 401),
    ((NameConflict,), 412),
    ((EntryExists,), 405),
    ((UploadRefused, NotSupported), 405),
    ((AccessDenied, StorageForbidden), 403),
    ((InUse, OutOfTime, RecordsUnavailable), 503),
    ((Unreachable,), 502),
    ((StorageFull, PropertyQuotaExceeded, LockQuotaExceeded, RecordRefused), 507),
)


def find_status(problem: Problem) -> int:
    """Return the HTTP status of a problem."""
    if isinstance(problem, DavProblem):
        return problem.status
    return next((status for kinds, status in _STATUSES if isinstance(problem, kinds)), problem.code)


def render_problem(problem: Problem) -> bytes:
    """Return the body of the answer: RFC 4918's element, or our element with the message."""
    condition = problem.condition if isinstance(problem, DavProblem) else ""
    href = f"<D:href>{escape(problem.href)}</D:href>" if isinstance(problem, DavProblem) and problem.href else ""
    about = f"<D:{condition}>{href}</D:{condition}>" if condition else ""
    message = escape(mask_private(problem.describe()))
    shown = message if message.isprintable() else HTTPStatus(find_status(problem)).phrase
    body = f'<D:error xmlns:D="DAV:" xmlns:m="urn:mangrove">{about}<m:message>{shown}</m:message></D:error>'
    return XML_HEAD + body.encode()
