"""The address under which the client reached us."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Request

from mangrove.config import config

_host = re.compile(r"[A-Za-z0-9.\-_\[\]:]{1,255}")


async def _base(request: Request) -> str:
    """`scheme://host[/openlist]` without a trailing slash; the configured site address wins over headers."""
    site = config().site_url
    prefix = "/openlist" if request.scope.get("dialect") == "openlist" else ""
    if site.startswith("http"):
        return site + prefix
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme)
    host = request.headers.get("x-forwarded-host") or request.headers.get("host", "")
    if not _host.fullmatch(host) or scheme not in ("http", "https"):
        host, scheme = request.url.netloc, request.url.scheme
    return f"{scheme}://{host}{prefix}"


Address = Annotated[str, Depends(_base)]
