"""Sign-in of each request by HTTP Basic. Credentials that were accepted are cached for a while, to spare the slow hash.

The cache has a keyed hash of the source, the name and the password. A cached session ends
under the same conditions as any other: the account is disabled, gets another password or loses a right, or the
application password is removed.

A refused sign-in drops the cached sessions of that name and source. During a lockout, the correct password is refused
as well; otherwise guessing could go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from typing import NamedTuple

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.http import find_client
from mangrove.core.problems import Problem, SecondFactorRequired, Unauthorized
from mangrove.core.runtime import CacheKind
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_event
from mangrove.identity.app_passwords import is_app_password
from mangrove.identity.rights import ADMIN, Right
from mangrove.identity.scopes import TokenProtocol
from mangrove.protocols.sessions import Credential, ProtocolAccess, ProtocolSession, sign_in_with_password
from mangrove.protocols.webdav.headers import ClientCredentials
from mangrove.records.credentials import app_passwords
from mangrove.records.store.keys import Key, keyring
from mangrove.tree import callers

WEBDAV = ProtocolAccess("webdav", Right.WEBDAV_READ, Right.WEBDAV_MANAGE, TokenProtocol.WEBDAV)
CACHE_SECONDS = 300.0


class _CachedSession(NamedTuple):
    """A cached session. `end`: of the monotonic clock; `generation`: the number of refusals of that name and source."""

    session: ProtocolSession
    end: float
    generation: int


ACCEPTED: CacheKind[bytes, _CachedSession] = CacheKind("accepted credentials", 4096)  # by their hash


def _digest(credentials: ClientCredentials, source: str) -> bytes:
    parts = [part.encode() for part in (source, credentials.username, credentials.password)]
    text = b"".join(len(part).to_bytes(4) + part for part in parts)
    key = keyring().derive(Key.INTEGRITY, "accepted credentials")
    return hashlib.blake2b(text, key=key, digest_size=32).digest()  # keyed; takes a fraction of the time of HMAC


async def _find_session(credentials: ClientCredentials, source: str) -> ProtocolSession | None:
    """Return the cached session of these credentials from that source, None if there is none or it has ended."""
    digest = _digest(credentials, source)
    cached = ACCEPTED.open().get(digest)
    if cached is None:
        return None
    is_over = cached.generation != _read_generation(credentials.username, source) or time.monotonic() > cached.end
    try:
        await cached.session.find_caller()
    except Unauthorized:
        is_over = True
    if is_over:
        ACCEPTED.open().remove(digest)
        return None
    return cached.session


def _cache_session(credentials: ClientCredentials, source: str, session: ProtocolSession) -> None:
    generation = _read_generation(credentials.username, source)
    end = time.monotonic() + CACHE_SECONDS
    ACCEPTED.open().put(_digest(credentials, source), _CachedSession(session, end, generation))


def _forget_sessions(username: str, source: str) -> None:
    """Drop the cached sessions of that name and source."""
    change_counters().bump(Topic.REFUSALS, (username, find_client(source)))


def _read_generation(username: str, source: str) -> int:
    return change_counters().read(Topic.REFUSALS, (username, find_client(source)))


async def sign_in(credentials: ClientCredentials, source: str) -> ProtocolSession:
    """Return the session of these credentials. Raise Unauthorized, SecondFactorRequired, TooMany or AccessDenied."""
    try:
        if credentials.token:
            return await _sign_in_with_token(credentials.token, source)
        session = await _find_session(credentials, source)
        if session is None:
            guest = await WEBDAV.find_guest(credentials.username)
            if guest is not None:
                return WEBDAV.open_session(guest, source)
            session = await sign_in_with_password(credentials.username, credentials.password, WEBDAV, source)
            _cache_session(credentials, source, session)
            session.log_start()
            if session.credential is not None:
                await asyncio.to_thread(session.credential.note_use)
        return session
    except Problem as problem:
        _forget_sessions(credentials.username, source)
        reason = type(problem).__name__
        log_event("sign-in refused", protocol=WEBDAV.name, user=credentials.username[:64], client=source, reason=reason)
        if isinstance(problem, SecondFactorRequired):
            raise Unauthorized("this account has a second factor: sign in with an application password") from None
        raise


async def _sign_in_with_token(token: str, source: str) -> ProtocolSession:
    """Return the session of a token's owner, or the administrator's for the permanent token."""
    permanent = (await configuration.get()).settings.token
    if is_app_password(token):
        user, scope = await callers.find_token(token, WEBDAV.token_protocol)
        return WEBDAV.open_session(user, source, Credential(app_passwords.name, scope.token_id))
    if not permanent or not hmac.compare_digest(token.encode(), permanent.encode()):
        raise Unauthorized
    administrator = await users.find_by_role(ADMIN)
    if administrator is None:  # its record is refused
        raise Unauthorized
    return WEBDAV.open_session(administrator, source)
