"""Application passwords: named, shown once, for protocols without a second factor, not for the API.

Each has 160 random bits, which cannot be guessed. A plain SHA-256 of it is stored: a slow hash would protect nothing
and cost 30 ms for each request of a WebDAV client.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from hmac import compare_digest

from mangrove.core.problems import BadRequest, RecordNotFound, ResourceNotFound
from mangrove.records.credentials import AppPassword, app_passwords
from mangrove.records.store.base import NameTaken

RANDOM_BYTES = 20
PREFIX = "mgv-"  # by which people and scanners for secrets recognize it
MAX_TITLE_LENGTH = 255
MAX_APP_PASSWORDS_PER_USER = 50
_FORM = re.compile(PREFIX + "[a-z2-7]{32}")


def is_app_password(text: str) -> bool:
    """True if a text has the form of an application password."""
    return _FORM.fullmatch(text) is not None


def add(user_id: int, title: str) -> tuple[AppPassword, str]:
    """Create an application password. Return it and its text, which is not stored."""
    if len(title) > MAX_TITLE_LENGTH:
        raise BadRequest("title is too long")
    own = app_passwords.find_by_user(user_id)
    if any(password.title == title for password in own):
        raise NameTaken(app_passwords.taken)
    if len(own) >= MAX_APP_PASSWORDS_PER_USER:
        raise BadRequest(f"a user may have at most {MAX_APP_PASSWORDS_PER_USER} application passwords")
    text = PREFIX + base64.b32encode(secrets.token_bytes(RANDOM_BYTES)).decode().lower()
    now = datetime.now(UTC)
    password = app_passwords.create(
        user_id=user_id, title=title, name=f"{user_id}#{title}", digest=make_digest(text), added=now, last_used=now
    )  # fmt: skip
    return password, text


def make_digest(text: str) -> str:
    """Return the stored digest of an application password."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_id(text: str, digests: Mapping[int, str]) -> int | None:
    """Return the id of the digest of a text. All digests are compared, so that the time does not depend on the
    match."""
    own = make_digest(text)
    return next(iter([id for id, digest in digests.items() if compare_digest(digest, own)]), None)


def delete_own(user_id: int, id: int) -> None:
    """Delete an application password of the user. Raise ResourceNotFound for any other id."""
    try:
        password = app_passwords.get(id)
    except RecordNotFound:
        password = None
    if password is None or password.user_id != user_id:
        raise ResourceNotFound("failed to get application password")
    delete(id)


def delete(id: int) -> None:
    """Delete an application password, if there is one of this id."""
    try:
        app_passwords.delete(id)
    except RecordNotFound:
        pass  # already gone
