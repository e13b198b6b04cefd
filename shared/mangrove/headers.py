"""Values of HTTP headers that several rooms write."""

from __future__ import annotations

import mimetypes
from email.utils import formatdate
from urllib.parse import quote

LATEST = 253_402_300_799.0  # the end of the year 9999, in seconds since the epoch
EXTRA_TYPES = {"apk": "application/vnd.android.package-archive"}


def format_content_disposition(name: str) -> str:
    """A Content-Disposition with which a browser saves the file, as `name` unless that is empty.

    The name is percent-encoded in both forms, so that no character of it can end the header.
    """
    if not name:
        return "attachment"
    encoded = quote(name, safe="")
    return f"attachment; filename=\"{encoded}\"; filename*=utf-8''{encoded}"


def format_http_date(seconds: float) -> str:
    """An HTTP date, of the years 1970 to 9999."""
    return formatdate(min(max(seconds, 0.0), LATEST), usegmt=True)


def guess_mime(name: str) -> str:
    """The type a name suggests, text with its charset."""
    extension = name.rpartition(".")[2].lower()
    path = f"./{name.rpartition('/')[2]}"  # what is taken for a URL otherwise, and may be none
    kind = EXTRA_TYPES.get(extension) or mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
