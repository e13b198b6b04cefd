"""Sessions of users who signed in over a protocol beside the API, and their end.

A session is checked against the account at every verb. `find_ended` returns the sessions that have to end: the account
was deleted, disabled or got another password, it lost the right to use the protocol, or the key or application password
was removed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core import runtime
from mangrove.core.problems import AccessDenied, RecordNotFound, SecondFactorRequired, Unauthorized
from mangrove.core.telemetry import AccessLog, log_event
from mangrove.identity import accounts
from mangrove.identity import app_passwords as tokens
from mangrove.identity.passwords import run_in_turn
from mangrove.identity.rights import GUEST, Caller, Right
from mangrove.identity.scopes import TokenProtocol, TokenScope
from mangrove.records.credentials import app_passwords, ssh_keys
from mangrove.records.users import User
from mangrove.tree import audit, callers

ENDED = "the session has ended, sign in again"


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a sign-in without the account's password: the kind of its record, and its id."""

    kind: str
    id: int

    def __str__(self) -> str:
        return f"{_NAMES[self.kind]} {self.id}"

    def note_use(self) -> None:
        """Record the time of its last use; blocks."""
        _NOTE_USE[self.kind](self.id)


def _note_use_of_key(id: int) -> None:
    try:
        ssh_keys.change(id, last_used=datetime.now(UTC))
    except RecordNotFound:
        pass  # removed meanwhile: the session ends


_NAMES = {ssh_keys.name: "key", app_passwords.name: "application password"}
_NOTE_USE = {ssh_keys.name: _note_use_of_key, app_passwords.name: tokens.note_use}


@dataclass(frozen=True, slots=True)
class ProtocolSession:
    """A connection of a user who signed in.

    `source`: the client's address; `reading`, `writing`: the rights that the protocol requires; `credential`: None for
    the account's password.
    """

    protocol: str
    username: str
    user_id: int
    pwd_ts: int
    source: str
    reading: Right
    writing: Right
    credential: Credential | None = None

    async def find_caller(self, right: Right = Right.READ) -> Caller:
        """Return the present account with the scope of its token.

        Raise Unauthorized if the session has ended, or if the account can no longer use the protocol.
        """
        user = await _find_user(self.username)
        if user is None or user.id != self.user_id or user.disabled or user.pwd_ts != self.pwd_ts:
            raise Unauthorized(ENDED)
        caller = callers.make_caller(user, right, self.source, await self._find_scope(user))
        if not caller.has(self.reading):
            raise Unauthorized(ENDED)
        return caller

    async def _find_scope(self, user: User) -> TokenScope | None:
        """Return the scope of the application password, None for another credential.

        Raise Unauthorized if the credential was removed.
        """
        used, scope = self.credential, None
        if used is None:
            return None
        if used.kind == app_passwords.name:
            scope = await callers.find_scope(user.id, used.id)
            if scope is None:
                raise Unauthorized(ENDED)
        elif used.id not in await users.find_credentials(used.kind, user.id):
            raise Unauthorized(ENDED)
        return scope

    async def make_caller(self, right: Right) -> Caller:
        """Return the caller of a verb that needs `right`.

        Raise AccessDenied for an account or a token that can only read over the protocol.
        """
        caller = await self.find_caller(right)
        if right is not Right.READ and not caller.has(self.writing):
            raise AccessDenied
        return caller

    def log_start(self) -> None:
        """Log a sign-in in one line."""
        by = "password" if self.credential is None else str(self.credential)
        log_event("signed in", protocol=self.protocol, user=self.username, client=self.source, by=by)

    def log(self, verb: str, path: str, began: float, problem: str = "") -> None:
        """Write one line of the access log. `began`: seconds of the performance counter."""
        outcome = {"problem": problem} if problem else {}
        milliseconds = round((time.perf_counter() - began) * 1000, 1)
        line = {"method": verb, "path": path, **self.describe(), **outcome, "ms": milliseconds}
        runtime.get(AccessLog).log(line, is_detail=False)

    def describe(self) -> dict[str, str]:
        """Return the user, the client's address and the protocol, for a line of the log."""
        return {"protocol": self.protocol, "user": self.username, "client": self.source}


@dataclass(frozen=True, slots=True)
class ProtocolAccess:
    """The name of a protocol, the rights that it requires, and the protocol of the tokens that it accepts."""

    name: str
    reading: Right
    writing: Right
    token_protocol: TokenProtocol

    def open_session(self, user: User, source: str, credential: Credential | None = None) -> ProtocolSession:
        """Return the session of a user who has signed in. Raise AccessDenied without the right to use the protocol."""
        if user.disabled:
            raise Unauthorized("Current user is disabled, replace please")
        if not callers.make_caller(user).has(self.reading):
            raise AccessDenied(f"the permission to use {self.name} is missing")
        return ProtocolSession(
            self.name, user.username, user.id, user.pwd_ts, source, self.reading, self.writing, credential
        )  # fmt: skip

    async def find_guest(self, username: str) -> User | None:
        """Return the guest's account if it has that name and can use the protocol. It needs no password."""
        user = await _find_user(username)
        is_welcome = (
            user is not None
            and user.role == GUEST
            and not user.disabled
            and callers.make_caller(user).has(self.reading)
        )
        return user if is_welcome else None

    async def find_key(self, username: str, fingerprint: str) -> tuple[User, Credential] | None:
        """Return the account and its registered key of that fingerprint (`SHA256:…`), None if there is no such key."""
        user = await _find_user(username)
        if user is None or user.disabled or user.role == GUEST:
            return None
        keys = await asyncio.to_thread(users.read_credentials, ssh_keys.name, user.id)
        key_id = next((id for id, own in keys.items() if own == fingerprint), None)
        return None if key_id is None else (user, Credential(ssh_keys.name, key_id))


async def sign_in_with_password(
    username: str, password: str, access: ProtocolAccess, source: str, code: str = ""
) -> ProtocolSession:
    """Return the session for a name and a password: an application password, or the account's own, with the one-time
    code if the account requires one.

    Raise Unauthorized, SecondFactorRequired, TooMany during a lockout, or AccessDenied without the right to use the
    protocol.
    """
    try:
        return await _sign_in(username, password, access, source, code)
    except (Unauthorized, SecondFactorRequired) as problem:
        if code or not isinstance(problem, SecondFactorRequired):
            await asyncio.to_thread(audit.record_refused_sign_in, username, source, access.name)
        raise


async def _sign_in(username: str, password: str, access: ProtocolAccess, source: str, code: str) -> ProtocolSession:
    await configuration.get()
    find_tokens = partial(users.read_credentials, app_passwords.name)
    check = partial(accounts.authenticate_protocol_login, username, password, code, source, users.find, find_tokens)
    user, id = await run_in_turn(source, check)
    if id is None:
        return access.open_session(user, source)
    scope = await callers.find_scope(user.id, id)
    if scope is None:
        raise Unauthorized(ENDED)
    scope.require(access.token_protocol)
    return access.open_session(user, source, Credential(app_passwords.name, id))


async def _find_user(username: str) -> User | None:
    """Return the present account of a name."""
    await configuration.get()
    return await users.find_by_name(username)


async def find_ended(sessions: Iterable[ProtocolSession]) -> list[ProtocolSession]:
    """Return the sessions that have ended. If nothing has changed since the last call, it reads no record."""
    ended: list[ProtocolSession] = []
    for session in sessions:
        try:
            await session.find_caller()
        except Unauthorized:
            ended.append(session)
    return ended
