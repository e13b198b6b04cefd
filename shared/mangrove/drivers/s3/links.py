"""Signed URLs of S3 objects, changed to a custom host."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def replace_host(url: str, address: str, signed: bool) -> str:
    """`url` at another scheme, host and base path; without its query unless `signed`."""
    parts, host = urlsplit(url), urlsplit(address)
    query = parts.query if signed else ""
    return urlunsplit((host.scheme, host.netloc, host.path.rstrip("/") + parts.path, query, ""))


def remove_bucket(url: str, bucket: str) -> str:
    """`url` without the bucket at the beginning of its path."""
    parts = urlsplit(url)
    path = parts.path
    if path.startswith(f"/{bucket}/"):
        path = path[len(bucket) + 1 :]
    return urlunsplit(parts._replace(path=path))
