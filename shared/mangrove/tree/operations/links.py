"""Signed download links: files whose links are signed, signatures, and addresses of files."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import Unauthorized
from mangrove.identity.rights import Right
from mangrove.records.store.keys import Key, keyring
from mangrove.records.users import User
from mangrove.tree.callers import make_caller
from mangrove.tree.mounts import Mount
from mangrove.tree.rules import Rules

TIME_STEP_SECONDS = 600  # the times in links are rounded up to it, so that a page of links can be cached
NUMBER_BYTES = 5  # of each number in a signature


class Purpose(StrEnum):
    """The kinds of contents that a link opens. Each has a key of its own."""

    FILE = "links"
    ARCHIVE = "links into archives"
    SELECTION = "links to packed selections"


@dataclass(frozen=True, slots=True)
class LinkSigner:
    """A signer of links that are issued now. Equal signers make equal signatures."""

    key: bytes = field(repr=False)
    owner: int  # the id of the user who requested the links, 0 for nobody
    issued: int  # unix seconds
    expires: int  # unix seconds, 0 for never

    def sign(self, path: str) -> str:
        """Return `<base64url of HMAC-SHA256, issued and owner>:<expires>`. The HMAC covers the path and all three."""
        text = f"{self.issued}:{self.owner}:{path}:{self.expires}"
        numbers = self.issued.to_bytes(NUMBER_BYTES) + self.owner.to_bytes(NUMBER_BYTES)
        return _join(hmac.digest(self.key, text.encode(), "sha256") + numbers, self.expires)


def _join(digest: bytes, expires: int) -> str:
    return f"{base64.urlsafe_b64encode(digest).decode()}:{expires}"


def make_signer(settings: Settings, owner: int, purpose: Purpose = Purpose.FILE) -> LinkSigner:
    """Return the signer of the links that a user gets now."""
    issued = (int(time.time()) // TIME_STEP_SECONDS + 1) * TIME_STEP_SECONDS
    expires = issued + settings.link_expiration * 3600 if settings.link_expiration > 0 else 0
    return LinkSigner(_make_key(settings, purpose), owner, issued, expires)


def sign_selection(settings: Settings, owner: int, selection: str, folder: TreePath, seconds: int) -> str:
    """Return the signature of the link to a packed selection of a folder, which is good for `seconds`.

    `selection`: the id of the stored selection; "" for the whole folder.
    """
    now = int(time.time())
    signer = LinkSigner(_make_key(settings, Purpose.SELECTION), owner, now, now + seconds)
    return signer.sign(f"{selection}:{folder}")


def verify_selection(settings: Settings, selection: str, folder: TreePath, signature: str) -> int:
    """Return the id of the user whom a link to a packed selection was made for; Unauthorized unless it is good."""
    owner = verify(settings, f"{selection}:{folder}", signature, Purpose.SELECTION)
    assert owner is not None
    return owner


def _make_key(settings: Settings, purpose: Purpose) -> bytes:
    """Derive the key from the master key, not from the permanent token. A new salt invalidates all links."""
    return keyring().derive(Key.ENCRYPTION, f"{purpose} {settings.link_salt}")


def verify(settings: Settings, path: str, signature: str, purpose: Purpose = Purpose.FILE) -> int | None:
    """Return the id of the user for whom a link was made; None for a link of an earlier version.

    Raise Unauthorized with the reason unless `signature` is valid for `path` now.
    """
    signature = signature.removesuffix("/")
    expires = _parse_expiry(signature)
    if 0 < expires < time.time():
        raise Unauthorized("sign expired")
    numbers = _read_numbers(signature)
    if numbers is None:
        _verify_old(settings, path, signature, purpose)
        return None
    issued, owner = numbers
    if not _is_same(LinkSigner(_make_key(settings, purpose), owner, issued, expires).sign(path), signature):
        raise Unauthorized("sign invalid")
    if 0 < settings.link_expiration * 3600 < time.time() - issued:
        raise Unauthorized("sign expired")
    return owner


def _parse_expiry(signature: str) -> int:
    expires = signature.rpartition(":")[2]
    if not expires:
        raise Unauthorized("expire missing")
    if ":" not in signature or not expires.isdecimal() or not expires.isascii() or len(expires) > 15:
        raise Unauthorized("expire invalid")
    return int(expires)


def _read_numbers(signature: str) -> tuple[int, int] | None:
    """Return the time of issue and the user in a signature; None for another form."""
    try:
        raw = base64.b64decode(signature.rpartition(":")[0], altchars=b"-_", validate=True)
    except ValueError:
        return None
    if len(raw) != hashlib.sha256().digest_size + 2 * NUMBER_BYTES:
        return None
    return int.from_bytes(raw[-2 * NUMBER_BYTES : -NUMBER_BYTES]), int.from_bytes(raw[-NUMBER_BYTES:])


def sign_with_token(key: str, path: str, expires: int = 0) -> str:
    """Return a signature of an earlier version, without time and user: HMAC-SHA256 of `path:expires`."""
    return _join(hmac.digest(key.encode(), f"{path}:{expires}".encode(), "sha256"), expires)


def _verify_old(settings: Settings, path: str, signature: str, purpose: Purpose) -> None:
    """Raise Unauthorized unless it is a link of an earlier version, and the permanent token was not renewed since.

    Such a link has no time of issue. Without an expiry of its own it is valid only while links do not expire.
    """
    expires = _parse_expiry(signature)
    key = f"{settings.token}-archive" if purpose is Purpose.ARCHIVE else settings.token
    is_renewed = not settings.token or settings.link_salt
    if is_renewed or purpose is Purpose.SELECTION or not _is_same(sign_with_token(key, path, expires), signature):
        raise Unauthorized("sign invalid")
    if not expires and settings.link_expiration > 0:
        raise Unauthorized("sign expired")


def _is_same(expected: str, signature: str) -> bool:
    return hmac.compare_digest(expected.encode(), signature.encode())


def require_reader(
    user: User | None, rules: Rules, path: TreePath, aliased_paths: Iterable[TreePath], purpose: Purpose
) -> None:
    """Raise Unauthorized unless the user for whom a link was made may still read the file, at all aliased paths.

    The user knew the folder password.
    """
    may_read = (
        user is not None
        and not user.disabled
        and path.within(TreePath(user.base_path))
        and all(
            decision.is_reader and not decision.is_hidden
            for decision in (rules.evaluate(make_caller(user), aliased) for aliased in aliased_paths)
        )
        and (purpose is not Purpose.ARCHIVE or make_caller(user).has(Right.READ_ARCHIVES, path))
    )
    if not may_read:
        raise Unauthorized("sign revoked")


def encode_path(path: str) -> str:
    """Percent-encode `path` for a URL, without its slashes."""
    return quote(path, safe="/~!$&'()*+,;=:@-._")


def make_file_url(base: str, route: str, path: str, query: str = "") -> str:
    """Return the address of a file under a route of the service; `query` is encoded.

    A path with a question mark is moved to the query if the platform does not route it.
    """
    if "?" in path and not platform().routes_question_marks:
        query = f"path={quote(path, safe='/')}" + (f"&{query}" if query else "")
        path = path.replace("?", "_")
    return f"{base}{route}{encode_path(path)}" + (f"?{query}" if query else "")


def make_proxy_url(mount: Mount, path: TreePath, base: str, signature: str, must_sign: bool, route: str = "/p") -> str:
    """Return the address at which the service, or the storage's download proxy, serves the bytes."""
    download_proxy = mount.storage.down_proxy_url.partition("\n")[0].strip()
    if download_proxy:
        query = "" if mount.storage.disable_proxy_sign else f"?sign={signature}"
        return f"{download_proxy}{encode_path(path)}{query}"
    return make_file_url(base, route, path, f"sign={signature}" if must_sign else "")
