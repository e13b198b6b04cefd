"""Session tokens: JWT, HS256, checked against the user's present record, revocable."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.platform import platform
from mangrove.core.problems import Unauthorized
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records import sessions
from mangrove.records.store import versions
from mangrove.records.store.encryption import derive
from mangrove.records.users import User

ALGORITHM = "HS256"
PUBLIC_KEYS = "cryptography.x509"
SKEW_SECONDS = 300  # that the clock of who issued a token may be ahead, or ours was set back
MAX_VERIFIED = 4096  # tokens in memory
FindUser = Callable[[str], Awaitable[User | None]]
CLAIMS = ("username", "pwd_ts", "exp", "nbf", "iat", "jti")


@dataclass(slots=True)
class VerifiedToken:
    """A token with a right signature. `pwd_ts`: of its user when it was issued, or when it was last kept.
    `looked_up`: when its revocation was last asked for (monotonic), 0 for never; `generation`: of all sessions then."""

    username: str
    pwd_ts: int
    exp: int
    nbf: int
    jti: str
    looked_up: float = 0.0
    generation: int = 0

    def is_recent(self) -> bool:
        """Whether its revocation was looked up no longer ago than a snapshot is trusted."""
        if self.generation != change_counters().read(Topic.SESSIONS):
            return False
        seconds = config().snapshot_seconds
        return self.looked_up > 0 and (seconds is None or time.monotonic() - self.looked_up < seconds)


class VerifiedTokens:
    """The tokens this process has verified, the oldest first, by their text."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, VerifiedToken] = OrderedDict()

    def get(self, text: str) -> VerifiedToken:
        """The token of a text, from memory or verified now; Unauthorized."""
        return self._tokens.get(text) or _verify(text)

    def add(self, text: str, token: VerifiedToken) -> None:
        """Remember a token; the oldest of more than MAX_VERIFIED goes."""
        self._tokens[text] = token
        if len(self._tokens) > MAX_VERIFIED:
            self._tokens.popitem(last=False)

    def remove(self, text: str) -> None:
        """Forget a token."""
        self._tokens.pop(text, None)

    def remove_session(self, jti: str) -> None:
        """Forget all texts of one session: base64 lets a token be spelled in several ways."""
        for text, token in list(self._tokens.items()):
            if token.jti == jti:
                self.remove(text)


def read_header(headers: Mapping[str, str]) -> str:
    """Return the token of a request, which is sent as it is or as `Bearer TOKEN`; "" when there is none."""
    value: str = headers.get("authorization", "")
    scheme, _, token = value.partition(" ")
    return token.strip() or value if scheme.lower() == "bearer" else value


def issue(user: User) -> str:
    """A new token for the user, good for `config().token_hours`."""
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
    return str(jwt.encode(claims, derive("jwt"), ALGORITHM))


async def user_of(text: str, find: FindUser) -> User:
    """The user a token stands for, as `find` has them by name; Unauthorized with the reason clients know."""
    tokens = runtime.get(VerifiedTokens)
    token = tokens.get(text)
    if not token.is_recent():
        tokens.add(text, token)  # before the look-up, so that a logout meanwhile finds it and removes it
        token.generation = change_counters().read(Topic.SESSIONS)
        if await asyncio.to_thread(sessions.is_revoked, token.jti):
            tokens.remove(text)
            raise Unauthorized("token is invalidated")
        token.looked_up = time.monotonic()
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
    """The version of the configuration. Where it is due to know whether the session of a token was ended, the same call
    tells that, too; any other text is left alone."""
    tokens = runtime.get(VerifiedTokens)
    try:
        token = tokens.get(text)
    except Unauthorized:
        return versions.get_version()
    if token.is_recent():
        return versions.get_version()
    tokens.add(text, token)  # before the look-up, so that a logout meanwhile finds it and removes it
    token.generation = change_counters().read(Topic.SESSIONS)
    version, is_revoked = sessions.read_with_version(token.jti)
    if not is_revoked:  # else `user_of` looks again, and says so
        token.looked_up = time.monotonic()
    return version


def _verify(text: str) -> VerifiedToken:
    claims = _decode(text)
    try:
        return VerifiedToken(
            str(claims["username"]), int(claims["pwd_ts"]), int(claims["exp"]), int(claims["nbf"]), str(claims["jti"])
        )
    except (TypeError, ValueError):
        raise Unauthorized("token is invalidated") from None


def _decode(text: str) -> dict[str, Any]:
    """The claims of a token with a right signature, whatever its times say."""
    jwt = _load_jwt()
    options = {"require": list(CLAIMS), "verify_exp": False, "verify_nbf": False, "verify_iat": False}
    try:
        return dict(jwt.decode(text, derive("jwt"), algorithms=[ALGORITHM], options=options))
    except jwt.InvalidTokenError:
        raise Unauthorized("token is invalidated") from None


def _load_jwt() -> ModuleType:
    """PyJWT, which functions that check no token need not import.

    In a function without its algorithms of public keys, which no token of ours has: what they are made of takes longer
    to import than the rest of a first request. It does without them where that is not installed; None among the
    modules says so.
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
    if now >= token.exp:  # without tolerance: a token must not live longer than it says
        raise Unauthorized("token is expired")
    if now < token.nbf - SKEW_SECONDS:
        raise Unauthorized("token not active yet")


def is_session(text: str) -> bool:
    """Whether a text that a gate accepted is a session token, and not the permanent one."""
    return _find_session(text) is not None


def _find_session(text: str) -> VerifiedToken | None:
    try:
        return _verify(text)
    except Unauthorized:
        return None


def keep(text: str, pwd_ts: int) -> None:
    """Let a session token go on when its user's `pwd_ts` becomes this one; anything else is left alone."""
    token = _find_session(text)
    if token is not None:
        sessions.keep(token.jti, pwd_ts, token.exp)


def revoke(text: str) -> None:
    """End a session token before its time; anything else is left alone."""
    token = _find_session(text)
    if token is None:
        return
    sessions.revoke(token.jti, token.exp)
    change_counters().bump(Topic.SESSIONS)
    runtime.get(VerifiedTokens).remove_session(token.jti)
