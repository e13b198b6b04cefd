"""Tokens of users for programs: named, shown once, with a scope. Earlier versions called them application passwords.

A token has 160 random bits, which cannot be guessed. The records store a plain SHA-256 of it: a slow hash would not
increase the protection and would cost 30 ms for each request of a WebDAV client. The text contains the id of the user,
so that a token is looked up in memory.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hmac import compare_digest

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, RecordNotFound
from mangrove.identity.scopes import TokenMode, TokenProtocol
from mangrove.records.credentials import OLD_PROTOCOLS, AppPassword, app_passwords
from mangrove.records.store.base import NameTaken

RANDOM_BYTES = 20
PREFIX = "mgv-"  # lets people and secret scanners recognize a token
MAX_TITLE_LENGTH = 255
MAX_APP_PASSWORDS_PER_USER = 50
USE_INTERVAL_SECONDS = 60  # minimum between two writes of the last use
_FORM = re.compile(PREFIX + "(?:([0-9]{1,16})-)?[a-z2-7]{32}")


@dataclass(frozen=True, slots=True)
class NewToken:
    """The title and the scope of a token to be created. The default is an application password."""

    title: str
    folder: str = "/"
    mode: str = TokenMode.BOTH
    protocols: Collection[str] = tuple(OLD_PROTOCOLS.split(","))
    is_administrative: bool = False
    expires: int = 0
    """In seconds since the epoch; 0 for no end."""

    def check(self) -> None:
        """Raise BadRequest if the title or the scope is not valid."""
        if len(self.title) > MAX_TITLE_LENGTH:
            raise BadRequest("title is too long")
        if self.mode not in set(TokenMode):
            raise BadRequest(f"mode must be one of {', '.join(TokenMode)}")
        if not self.protocols or not set(self.protocols) <= set(TokenProtocol):
            raise BadRequest(f"protocols must be some of {', '.join(TokenProtocol)}")
        if self.expires and not time.time() < self.expires < _MAX_EXPIRES:
            raise BadRequest("expires must be a time in the future")
        if self.is_administrative:
            self._check_administrative()

    def _check_administrative(self) -> None:
        is_whole = TreePath(self.folder) == "/" and self.mode == TokenMode.BOTH
        if not is_whole or TokenProtocol.API not in self.protocols:
            raise BadRequest("a token for administration is for the API, with the folder / and the mode both")


_MAX_EXPIRES = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def is_app_password(text: str) -> bool:
    """True if a text has the form of a token."""
    return _FORM.fullmatch(text) is not None


def read_user_id(text: str) -> int | None:
    """Return the id of the user in the text of a token; None if the text has none, as in earlier versions."""
    match = _FORM.fullmatch(text)
    return int(match[1]) if match and match[1] else None


def add(user_id: int, new: NewToken) -> tuple[AppPassword, str]:
    """Create a token. Return it and its text, which is not stored. Raise BadRequest or NameTaken."""
    new.check()
    own = app_passwords.find_by_user(user_id)
    if any(password.title == new.title for password in own):
        raise NameTaken(app_passwords.taken)
    if len(own) >= MAX_APP_PASSWORDS_PER_USER:
        raise BadRequest(f"a user may have at most {MAX_APP_PASSWORDS_PER_USER} application passwords")
    text = f"{PREFIX}{user_id}-{base64.b32encode(secrets.token_bytes(RANDOM_BYTES)).decode().lower()}"
    now = datetime.now(UTC)
    password = app_passwords.create(
        user_id=user_id, title=new.title, name=f"{user_id}#{new.title}", digest=make_digest(text), added=now,
        last_used=now, folder=str(TreePath(new.folder)), mode=str(new.mode),
        protocols=",".join(protocol for protocol in TokenProtocol if protocol in new.protocols),
        is_administrative=new.is_administrative, expires=new.expires,
    )  # fmt: skip
    return password, text


def make_digest(text: str) -> str:
    """Return the stored digest of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_id(text: str, tokens: Mapping[int, AppPassword]) -> int | None:
    """Return the id of the token with this text. Compare all digests, so that the time does not depend on the match."""
    own = make_digest(text)
    return next(iter([id for id, token in tokens.items() if compare_digest(token.digest, own)]), None)


def note_use(id: int) -> None:
    """Record the time of the last use of a token, at most once in each USE_INTERVAL_SECONDS."""
    now = datetime.now(UTC)
    try:
        if now - app_passwords.get(id).last_used >= timedelta(seconds=USE_INTERVAL_SECONDS):
            app_passwords.change(id, last_used=now)
    except RecordNotFound:
        pass  # deleted meanwhile
