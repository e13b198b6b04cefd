"""The address under which the client reached us."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Request

from mangrove.config import config
from mangrove.web.dialects import OPENLIST_PREFIX, Dialect, RequestDialect

_HOST = re.compile(r"[A-Za-z0-9.\-_\[\]:]{1,255}")


async def find_base_url(request: Request, dialect: RequestDialect) -> str:
    """`scheme://host[/openlist]` without a trailing slash; the configured site address wins over headers."""
    site = config().site_url
    prefix = OPENLIST_PREFIX if dialect is Dialect.OPENLIST else ""
    if site.startswith("http"):
        return site + prefix
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme)
    host = request.headers.get("x-forwarded-host") or request.headers.get("host", "")
    if not _HOST.fullmatch(host) or scheme not in ("http", "https"):
        host, scheme = request.url.netloc, request.url.scheme
    return f"{scheme}://{host}{prefix}"


BaseUrl = Annotated[str, Depends(find_base_url)]
