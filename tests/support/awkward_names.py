"""Names of files that addresses, gateways and shells trip over, and events as an HTTP API sends them."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

NAMES = (
    "50% off.txt", "50%25 off.txt", "a%41.txt", "%", "%%", "%2F.txt", "100%.txt", "%zz.txt", "%C3%A9.txt",
    "what?.txt", "?", "what?sign=x&path=y.txt", "a?b?c.txt", "what%3F.txt", "a+b.txt", "a%2Bb.txt", "+", "#", "a#b.txt",
    "a&b=c.txt", "a=b.txt", "a;b.txt", "a,b.txt", "a:b.txt", "a@b.txt", "a!b.txt", "a$b.txt", "a'b.txt", 'a"b.txt',
    "a(b)[c]{d}.txt", "a*b.txt", "a~b.txt", "a|b^c`d.txt", "<a>.txt", "two  spaces.txt", " leading and trailing ",
    "é.txt", "e\u0301.txt", "日本語.txt", "😀.txt", "👩‍👩‍👧.txt", "\u202eabc.txt", "\u00a0.txt", "...", ".hidden",
    "_.txt", "what_.txt",
)  # fmt: skip


def make_event(method: str, url: str, headers: dict[str, str] | None = None, body: str = "") -> dict[str, Any]:
    """The event of a request: the path decoded and cut at a question mark, the query as it was sent."""
    parts = urlsplit(url)
    path = unquote(parts.path).partition("?")[0]
    http = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "sample"}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": parts.query,
        "headers": {"host": "mangrove.example.com", "x-forwarded-proto": "https"} | (headers or {}),
        "requestContext": {"domainName": "mangrove.example.com", "http": http, "stage": "$default"},
        "body": body,
        "isBase64Encoded": False,
    }
