"""Session tokens: JWT with HS256, which can be revoked and are checked against the current record of the user."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from mangrove.core.config import config
from mangrove.core.platform import platform
from mangrove.core.problems import Unauthorized
from mangrove.core.runtime import CacheKind
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records import open_sessions, sessions
from mangrove.records.store import versions
from mangrove.records.store.keys import Key, keyring
from mangrove.records.users import User

ALGORITHM = "HS256"
PUBLIC_KEYS = "cryptography.x509"
MAX_CLOCK_SKEW_SECONDS = 300  # tolerated clock difference between the issuer of a token and this process
USE_INTERVAL_SECONDS = 60  # minimum between two records of the last use
FindUser = Callable[[str], Awaitable[User | None]]
CLAIMS = ("username", "pwd_ts", "exp", "nbf", "iat", "jti")


@dataclass(slots=True)
class VerifiedToken:
    """A token with a valid signature."""

    username: str
    pwd_ts: int
    """The `pwd_ts` of its user when it was issued, or last kept."""
    exp: int
    nbf: int
    jti: str
    used: float
    """The time of its last use that was recorded; at first, the time when it was issued."""
    checked: float = 0.0
    """The monotonic time of the last look-up of its revocation, 0 before the first."""
    change_count: int = 0
    """The change counter of all sessions, before that look-up."""

    def is_recent(self) -> bool:
        """True if its revocation was looked up within the time that a snapshot is valid."""
        if self.change_count != change_counters().read(Topic.SESSIONS):
            return False
        seconds = config().snapshot_seconds
        return self.checked > 0 and (seconds is None or time.monotonic() - self.checked < seconds)


VERIFIED_TOKENS: CacheKind[str, VerifiedToken] = CacheKind("verified tokens", 4096)  # by their text


def _find_token(text: str) -> VerifiedToken:
    """Return the token of a text, from memory or verified now. Raise Unauthorized."""
    return VERIFIED_TOKENS.open().get(text) or _verify(text)


def read_header(headers: Mapping[str, str]) -> str:
    """Return the token of a request, which is sent as it is or as `Bearer TOKEN`; "" if there is none."""
    value: str = headers.get("authorization", "")
    scheme, _, token = value.partition(" ")
    return token.strip() or value if scheme.lower() == "bearer" else value


def issue(user: User) -> str:
    """Return a new token for the user, valid for `config().token_hours`."""
    jwt = _load_jwt()
    now = int(time.time())
    claims = {
        "username": user.username,
        "pwd_ts": user.pwd_ts,
        "exp": now + config().token_hours * 3600,
        "iat": now,
        "nbf": now,
        "jti": secrets.token_urlsafe(16),
    }
    return str(jwt.encode(claims, keyring().get(Key.TOKEN), ALGORITHM))


async def user_of(text: str, find: FindUser) -> User:
    """Return the user of a token; `find` finds users by name. Raise Unauthorized with the message that clients know."""
    token = _find_token(text)
    if not token.is_recent():
        _begin_look_up(text, token)
        if await asyncio.to_thread(sessions.is_revoked, token.jti):
            VERIFIED_TOKENS.open().remove(text)
            raise Unauthorized("token is invalidated")
        token.checked = time.monotonic()
    _check_times(token)
    user = await find(token.username)
    if user is None:
        raise Unauthorized("failed find user: record not found")
    if user.pwd_ts != token.pwd_ts:
        if not await asyncio.to_thread(sessions.is_kept, token.jti, user.pwd_ts):
            raise Unauthorized("Password has been changed, login please")
        token.pwd_ts = user.pwd_ts
    if user.disabled:
        raise Unauthorized("Current user is disabled, replace please")
    return user


def read_version(text: str) -> int:
    """Return the version of the configuration. If the revocation of the token has to be looked up, the same call does
    it."""
    try:
        token = _find_token(text)
    except Unauthorized:
        return versions.get_version()
    if token.is_recent():
        return versions.get_version()
    _begin_look_up(text, token)
    version, is_revoked = sessions.read_with_version(token.jti)
    if not is_revoked:  # else `user_of` looks it up again and raises
        token.checked = time.monotonic()
    return version


def _begin_look_up(text: str, token: VerifiedToken) -> None:
    """Cache a token before its revocation is looked up, so that a logout meanwhile removes it."""
    VERIFIED_TOKENS.open().put(text, token)
    token.change_count = change_counters().read(Topic.SESSIONS)


def _verify(text: str) -> VerifiedToken:
    claims = _decode(text)
    try:
        return VerifiedToken(
            str(claims["username"]), int(claims["pwd_ts"]), int(claims["exp"]), int(claims["nbf"]), str(claims["jti"]),
            int(claims["iat"]),
        )  # fmt: skip
    except (TypeError, ValueError):
        raise Unauthorized("token is invalidated") from None


def _decode(text: str) -> dict[str, Any]:
    """Return the claims of a token with a valid signature. Ignore its times."""
    jwt = _load_jwt()
    options = {"require": list(CLAIMS), "verify_exp": False, "verify_nbf": False, "verify_iat": False}
    try:
        return dict(jwt.decode(text, keyring().get(Key.TOKEN), algorithms=[ALGORITHM], options=options))
    except jwt.InvalidTokenError:
        raise Unauthorized("token is invalidated") from None


def _load_jwt() -> ModuleType:
    """Return PyJWT, imported at the first use of a token.

    In a function it is imported without its public-key algorithms, which are not used here: their library takes longer
    to import than the rest of a first request. With None in `sys.modules`, PyJWT works as if that library were not
    installed.
    """
    if platform().has_cold_starts and sys.modules.keys().isdisjoint(("jwt", PUBLIC_KEYS)):
        sys.modules[PUBLIC_KEYS] = None  # type: ignore[assignment]  # documented for this
        try:
            return import_module("jwt")
        finally:
            del sys.modules[PUBLIC_KEYS]
    return import_module("jwt")


def _check_times(token: VerifiedToken) -> None:
    now = time.time()
    if now >= token.exp:  # without tolerance: a token is not valid after its expiry
        raise Unauthorized("token is expired")
    if now < token.nbf - MAX_CLOCK_SKEW_SECONDS:
        raise Unauthorized("token not active yet")


def is_session(text: str) -> bool:
    """True if an accepted text is a session token, not the permanent token."""
    return find_session(text) is not None


def find_session(text: str) -> VerifiedToken | None:
    """Return the token of a text with a valid signature; None for any other text."""
    try:
        return _verify(text)
    except Unauthorized:
        return None


def keep(text: str, pwd_ts: int) -> None:
    """Keep a session token valid when the `pwd_ts` of its user changes to this value. Ignore other texts."""
    token = find_session(text)
    if token is not None:
        sessions.keep(token.jti, pwd_ts, token.exp)
        open_sessions.set_pwd_ts(token.jti, pwd_ts)


def revoke(text: str) -> None:
    """Revoke a session token. Ignore other texts."""
    token = find_session(text)
    if token is not None:
        revoke_session(token.jti, token.exp)


def revoke_session(jti: str, expires: int) -> None:
    """Revoke the token of a session, which would expire at that time."""
    sessions.revoke(jti, expires)
    change_counters().bump(Topic.SESSIONS)
    VERIFIED_TOKENS.open().remove_all(lambda _, token: token.jti == jti)  # Base64 allows several spellings of a token


def find_due_use(text: str) -> str | None:
    """Return the id of the session of a token if its use has to be recorded now; the caller records it.

    A process records it at most once in USE_INTERVAL_SECONDS.
    """
    token, now = _find_token(text), time.time()
    if now - token.used < USE_INTERVAL_SECONDS:
        return None
    token.used = now
    return token.jti
