"""Values of HTTP headers that several rooms write."""

from __future__ import annotations

from urllib.parse import quote


def format_content_disposition(name: str) -> str:
    """A Content-Disposition with which a browser saves the file, as `name` unless that is empty.

    The name is percent-encoded in both forms, so that no character of it can end the header.
    """
    if not name:
        return "attachment"
    encoded = quote(name, safe="")
    return f"attachment; filename=\"{encoded}\"; filename*=utf-8''{encoded}"
