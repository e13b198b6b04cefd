"""Signed download links: what must be signed, signatures, and the addresses of files (behaviour 9.2, 5.2)."""

from __future__ import annotations

import base64
import hmac
import time
from urllib.parse import quote

from mangrove.paths import TreePath
from mangrove.problems import Unauthorized
from mangrove.site.values import Settings
from mangrove.tree.mounts import Mount
from mangrove.tree.rules import Rules

BUCKET = 600  # seconds: expiring links are rounded up to this, so that a page of them can be kept


def sign(key: str, path: str, expires: int = 0) -> str:
    """`<base64url HMAC-SHA256 of "path:expires">:<expires>`; `expires` in unix seconds, 0 for never."""
    digest = hmac.digest(key.encode(), f"{path}:{expires}".encode(), "sha256")
    return f"{base64.urlsafe_b64encode(digest).decode()}:{expires}"


def verify(key: str, path: str, signature: str) -> None:
    """Unauthorized with the reason unless `signature` is good for `path` now."""
    signature = signature.removesuffix("/")
    expires = signature.rpartition(":")[2]
    if not expires:
        raise Unauthorized("expire missing")
    if ":" not in signature or not expires.isdecimal() or not expires.isascii() or len(expires) > 15:
        raise Unauthorized("expire invalid")
    if 0 < int(expires) < time.time():
        raise Unauthorized("sign expired")
    if not key or not hmac.compare_digest(sign(key, path, int(expires)).encode(), signature.encode()):
        raise Unauthorized("sign invalid")


def make_archive_key(token: str) -> str:
    """The key of links into archives; `""` when there is no token."""
    return f"{token}-archive" if token else ""


def compute_expiry(settings: Settings) -> int:
    """When a link made now ends, in unix seconds; 0 for never."""
    hours = settings.link_expiration
    return 0 if hours <= 0 else (int(time.time() + hours * 3600) // BUCKET + 1) * BUCKET


def requires_signature(settings: Settings, rules: Rules, mount: Mount, path: TreePath) -> bool:
    """Whether links to files at (or, for a folder, in) `path` carry a signature and need one."""
    return settings.sign_all or mount.storage.enable_sign or rules.has_password(path)


def make_signature(settings: Settings, path: TreePath) -> str:
    """The signature of a link made now; `""` when there is no key to sign with."""
    return sign(settings.token, path, compute_expiry(settings)) if settings.token else ""


def make_archive_signature(settings: Settings, path: TreePath) -> str:
    """The signature of a link into an archive made now; `""` when there is no key to sign with."""
    key = make_archive_key(settings.token)
    return sign(key, path, compute_expiry(settings)) if key else ""


def encode_path(path: str) -> str:
    """`path` percent-encoded for a URL, slashes kept."""
    return quote(path, safe="/~!$&'()*+,;=:@-._")


def make_proxy_url(settings: Settings, mount: Mount, path: TreePath, base: str, must_sign: bool) -> str:
    """The address under which the service, or the storage's download proxy, serves the bytes."""
    down = mount.storage.down_proxy_url.partition("\n")[0].strip()
    if down:
        query = "" if mount.storage.disable_proxy_sign else f"?sign={make_signature(settings, path)}"
        return f"{down}{encode_path(path)}{query}"
    query = f"?sign={make_signature(settings, path)}" if must_sign else ""
    return f"{base}/p{encode_path(path)}{query}"
