"""Application passwords: named, shown once, good at doors that have no place for a second factor, not for the API.

They are made here, 160 random bits each. Nobody guesses those, so a plain SHA-256 is kept of them: a slow hash would
protect nothing and cost 30 ms for each request of a WebDAV client.
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
PREFIX = "mgv-"  # so that a person, and whoever looks for secrets in files, knows what it is
MAX_TITLE_LENGTH = 255
MAX_PASSWORDS = 50  # of one user
_FORM = re.compile(PREFIX + "[a-z2-7]{32}")


def is_app_password(text: str) -> bool:
    """Whether a text has the form of one."""
    return _FORM.fullmatch(text) is not None


def add(user_id: int, title: str) -> tuple[AppPassword, str]:
    """A new one, and its text, which is kept nowhere."""
    if len(title) > MAX_TITLE_LENGTH:
        raise BadRequest("title is too long")
    own = app_passwords.find_by_user(user_id)
    if any(one.title == title for one in own):
        raise NameTaken(app_passwords.taken)
    if len(own) >= MAX_PASSWORDS:
        raise BadRequest(f"a user may have at most {MAX_PASSWORDS} application passwords")
    text = PREFIX + base64.b32encode(secrets.token_bytes(RANDOM_BYTES)).decode().lower()
    now = datetime.now(UTC)
    made = app_passwords.create(
        user_id=user_id, title=title, name=f"{user_id}#{title}", digest=make_digest(text), added=now, last_used=now
    )  # fmt: skip
    return made, text


def make_digest(text: str) -> str:
    """What is kept of an application password."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_id(text: str, digests: Mapping[int, str]) -> int | None:
    """Whose of the digests belongs to a text; all are compared, whichever fits."""
    own = make_digest(text)
    return next(iter([id for id, digest in digests.items() if compare_digest(digest, own)]), None)


def delete_own(user_id: int, id: int) -> None:
    """Remove one of the user's own; ResourceNotFound for any other."""
    try:
        found = app_passwords.get(id)
    except RecordNotFound:
        found = None
    if found is None or found.user_id != user_id:
        raise ResourceNotFound("failed to get application password")
    delete(id)


def delete(id: int) -> None:
    """Remove any of them; one that is not there counts as removed."""
    try:
        app_passwords.delete(id)
    except RecordNotFound:
        pass  # already gone
