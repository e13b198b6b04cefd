"""Signed addresses of S3 objects, bent to a host of one's own."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit


def disposition(name: str) -> str:
    """A Content-Disposition that makes browsers save the file, under `name` unless that is empty."""
    if not name:
        return "attachment"
    safe = quote(name, safe="")
    return f"attachment; filename=\"{safe}\"; filename*=utf-8''{safe}"


def at_host(url: str, address: str, signed: bool) -> str:
    """`url` at another scheme, host and base path; without its query unless `signed`."""
    parts, host = urlsplit(url), urlsplit(address)
    query = parts.query if signed else ""
    return urlunsplit((host.scheme, host.netloc, host.path.rstrip("/") + parts.path, query, ""))


def without_bucket(url: str, bucket: str) -> str:
    """`url` without a bucket that begins its path."""
    parts = urlsplit(url)
    path = parts.path
    if path.startswith(f"/{bucket}/"):
        path = path[len(bucket) + 1 :]
    return urlunsplit(parts._replace(path=path))
