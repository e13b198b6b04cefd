"""Helpers of the download tests: addresses, signatures, the failure page."""

from __future__ import annotations

import base64
import hmac
import time
from urllib.parse import quote

import httpx
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.support.service import Client

ADMIN = 1  # the administrator's id
LETTERS = b"abcdefghijklmnopqrstuvwxyz"


def make_signature(key: bytes, path: str, expires: int = 0, *, owner: int = ADMIN, issued: int | None = None) -> str:
    """A signature made from the rules alone: the HMAC, then the time of issue and the user, five bytes each."""
    issued = int(time.time()) if issued is None else issued
    digest = hmac.digest(key, f"{issued}:{owner}:{path}:{expires}".encode(), "sha256")
    whole = digest + issued.to_bytes(5, "big") + owner.to_bytes(5, "big")
    return f"{base64.urlsafe_b64encode(whole).decode()}:{expires}"


def make_old_signature(token: str, data: str, expires: int = 0) -> str:
    """A signature as it was before."""
    digest = hmac.digest(token.encode(), f"{data}:{expires}".encode(), "sha256")
    return f"{base64.urlsafe_b64encode(digest).decode()}:{expires}"


def read_issued(signature: str) -> int:
    """When a link was made."""
    return int.from_bytes(base64.urlsafe_b64decode(signature.partition(":")[0])[32:37], "big")


def read_key(admin: Client, purpose: str = "links") -> bytes:
    """The key of links: of the master key, for this purpose and the present salt alone."""
    assert admin.data is not None
    salt = admin.get("/api/admin/setting/get", key="link_salt")["data"]["value"]
    hkdf = HKDF(SHA256(), 32, salt=None, info=f"{purpose} {salt}".encode())
    return hkdf.derive((admin.data / "key").read_bytes())


def make_url(route: str, path: str, sign: str | None = None) -> str:
    return f"/{route}{quote(path)}" + ("" if sign is None else f"?sign={quote(sign)}")


def check_page(answer: httpx.Response, status: int, message: str) -> None:
    """The answer must be the failure page of that status and message."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert f"<h1>{status} {httpx.codes.get_reason_phrase(status)}</h1><hr><p>{message}</p>" in answer.text
