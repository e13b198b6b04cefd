"""What the tests of downloads share: addresses, signatures, the failure page."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote

import httpx

from tests.service import Client

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
MISSING = "failed link: failed to get file: failed to get obj: object not found"


def make_signature(key: str, data: str, expires: int = 0) -> str:
    """A signature made from the rules alone (behaviour 9.2)."""
    digest = hmac.new(key.encode(), f"{data}:{expires}".encode(), hashlib.sha256).digest()
    return f"{base64.urlsafe_b64encode(digest).decode()}:{expires}"


def read_key(admin: Client) -> str:
    return str(admin.get("/api/admin/setting/get", key="token")["data"]["value"])


def make_url(route: str, path: str, sign: str | None = None) -> str:
    return f"/{route}{quote(path)}" + ("" if sign is None else f"?sign={quote(sign)}")


def check_page(answer: httpx.Response, status: int, message: str) -> None:
    """The answer must be the failure page of that status and message."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert f"<h1>{status} {httpx.codes.get_reason_phrase(status)}</h1><hr><p>{message}</p>" in answer.text
