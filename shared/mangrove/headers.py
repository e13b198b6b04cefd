"""Values of HTTP headers that more than one room writes."""

from __future__ import annotations

from urllib.parse import quote


def format_content_disposition(name: str) -> str:
    """Makes browsers save the file, under `name` unless that is empty (RFC 6266).

    The name is percent-encoded in both forms, so that no byte of it can end the header.
    """
    if not name:
        return "attachment"
    encoded = quote(name, safe="")
    return f"attachment; filename=\"{encoded}\"; filename*=utf-8''{encoded}"
