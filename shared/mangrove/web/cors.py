"""What browsers ask before a page of another origin may use the service, and what allows that: any origin, any method
that a form of ours could need, any header, no cookies.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

RawHeaders = Iterable[tuple[bytes, bytes]]
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY")
_PREFLIGHT = {
    "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, "
    "Access-Control-Request-Private-Network",
    "access-control-allow-origin": "*",
    "access-control-allow-methods": ", ".join(METHODS),
    "access-control-max-age": "600",
}
_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
_VARY = (b"vary", b"Origin")


def find_preflight(scope: Scope) -> Response | None:
    """The answer to a preflight; None for any other request."""
    if scope["method"] != "OPTIONS":
        return None
    asked = Headers(scope=scope)
    method = asked.get("access-control-request-method")
    if method is None or "origin" not in asked:
        return None
    headers, refused = dict(_PREFLIGHT), []
    if method not in METHODS:
        refused.append("method")
    names = asked.get("access-control-request-headers")
    if names is not None:
        headers["access-control-allow-headers"] = names
    if "access-control-request-private-network" in asked:
        refused.append("private-network")
    if refused:
        return PlainTextResponse(f"Disallowed CORS {', '.join(refused)}", 400, headers)
    return PlainTextResponse("OK", 200, headers)


def has_origin(scope: Scope) -> bool:
    """Whether a browser asks for a page of some origin."""
    for name, _ in scope["headers"]:  # noqa: SIM110 - asked for every request, and twice as fast as any()
        if name == b"origin":
            return True
    return False


def allow(headers: RawHeaders, is_asked: bool) -> list[tuple[bytes, bytes]]:
    """An answer's headers with those that let every origin read it, where that `is_asked`; caches are told that this
    depends on who asks."""
    found, has_any_origin, varies = list(headers), False, []
    for name, text in found:
        if name == b"vary":
            varies.append(text)
        elif name == b"access-control-allow-origin":
            has_any_origin = True
    if is_asked:
        found = _replace(found, _ANY_ORIGIN) if has_any_origin else [*found, _ANY_ORIGIN]
    if not varies:
        found.append(_VARY)
        return found
    return _replace(found, (b"vary", b", ".join([*varies, b"Origin"])))


def _replace(headers: RawHeaders, header: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """With this header in the place of the first one of its name, and without the others."""
    found, is_placed = [], False
    for one in headers:
        if one[0] != header[0]:
            found.append(one)
        elif not is_placed:
            found.append(header)
            is_placed = True
    return found
