"""Session tokens: JWT, HS256, checked against the user as he is now, revocable."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from mangrove.config import config
from mangrove.problems import Unauthorized
from mangrove.records import sessions
from mangrove.records.crypto import derive
from mangrove.records.users import User

ALGORITHM = "HS256"
KEPT = 4096  # verified tokens in memory


@dataclass(slots=True)
class Known:
    """A token whose signature was verified; `asked` says when its revocation was last looked up."""

    username: str
    pwd_ts: int
    exp: int
    nbf: int
    jti: str
    asked: float


_known: OrderedDict[str, Known] = OrderedDict()


def issue(user: User) -> str:
    """A new token for the user, good for `config().token_hours`."""
    now = int(time.time())
    claims = {
        "username": user.username,
        "pwd_ts": user.pwd_ts,
        "exp": now + config().token_hours * 3600,
        "iat": now,
        "nbf": now,
        "jti": secrets.token_urlsafe(16),
    }
    return jwt.encode(claims, derive("jwt"), ALGORITHM)


async def user_of(token: str, users: Mapping[str, User]) -> User:
    """The user a token stands for, as he is in `users`; Unauthorized with the reason clients know."""
    known = _known.get(token)
    if known is None:
        known = _verified(token)
    if not _trusted(known):
        _known[token] = known  # before asking, so that a logout meanwhile finds it and takes it out
        if await asyncio.to_thread(sessions.revoked, known.jti):
            _known.pop(token, None)
            raise Unauthorized("token is invalidated")
        known.asked = time.monotonic()
        if len(_known) > KEPT:
            _known.popitem(last=False)
    return _checked(known, users)


def _trusted(known: Known) -> bool:
    seconds = config().snapshot_seconds
    return known.asked > 0 and (seconds is None or time.monotonic() - known.asked < seconds)


def _verified(token: str) -> Known:
    claims = _decoded(token, verify_time=False)
    try:
        return Known(
            str(claims["username"]),
            int(claims["pwd_ts"]),
            int(claims["exp"]),
            int(claims["nbf"]),
            str(claims["jti"]),
            0.0,
        )
    except (TypeError, ValueError):
        raise Unauthorized("token is invalidated") from None


def _decoded(token: str, verify_time: bool) -> dict[str, Any]:
    options = {"require": ["username", "pwd_ts", "exp", "nbf", "iat", "jti"], "verify_exp": verify_time,
               "verify_nbf": verify_time, "verify_iat": False}  # fmt: skip
    try:
        return dict(jwt.decode(token, derive("jwt"), algorithms=[ALGORITHM], options=options))  # type: ignore[arg-type]
    except jwt.InvalidTokenError:
        raise Unauthorized("token is invalidated") from None


def _checked(known: Known, users: Mapping[str, User]) -> User:
    now = time.time()
    if now >= known.exp:
        raise Unauthorized("token is expired")
    if now < known.nbf - 5:
        raise Unauthorized("token not active yet")
    user = users.get(known.username)
    if user is None:
        raise Unauthorized("failed find user: record not found")
    if user.pwd_ts != known.pwd_ts:
        raise Unauthorized("Password has been changed, login please")
    if user.disabled:
        raise Unauthorized("Current user is disabled, replace please")
    return user


def revoke(token: str) -> None:
    """End a session token before its time; anything else is left alone."""
    try:
        known = _verified(token)
    except Unauthorized:
        return
    sessions.revoke(known.jti, known.exp)
    for text, one in list(_known.items()):  # base64 lets one token be spelled in several ways
        if one.jti == known.jti:
            _known.pop(text, None)
