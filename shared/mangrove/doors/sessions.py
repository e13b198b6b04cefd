"""Who is signed in at a door that keeps a connection open, and until when.

A session is checked against the account as it is now at every verb, and `find_ended` finds those that have to end:
the account is gone, disabled or has another password, it lost the right to use the door, or the key is removed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from mangrove import runtime
from mangrove.identity import accounts, passwords
from mangrove.identity.login_queue import LoginQueue
from mangrove.identity.rights import GUEST, Caller, Right
from mangrove.problems import Denied, Unauthorized
from mangrove.records import sshkeys
from mangrove.records.base import RecordMissing
from mangrove.records.sshkeys import SshKey
from mangrove.records.users import User
from mangrove.site import snapshot
from mangrove.telemetry import log_event

ENDED = "the session has ended, sign in again"


@dataclass(frozen=True, slots=True)
class Session:
    """A connection that somebody signed in on. `door`: its protocol, for the log; `source`: the client's address;
    `reading`, `writing`: the rights that the door asks for; `key_id`: of the SSH key it was opened with."""

    door: str
    username: str
    user_id: int
    pwd_ts: int
    source: str
    reading: Right
    writing: Right
    key_id: int | None = None

    async def find_user(self) -> User:
        """The account as it is now; Unauthorized when the session is over."""
        user = (await snapshot.fresh()).users.get(self.username)
        if user is None or user.id != self.user_id or user.disabled or user.pwd_ts != self.pwd_ts:
            raise Unauthorized(ENDED)
        if not user.permission & self.reading:
            raise Unauthorized(ENDED)
        return user

    async def make_caller(self, right: Right) -> Caller:
        """The caller of a verb that needs `right`; Denied where the door is open for reading alone."""
        caller = Caller(await self.find_user(), right)
        if right is not Right.READ and not caller.has(self.writing):
            raise Denied
        return caller

    def log_start(self) -> None:
        """One line that somebody signed in."""
        by = "password" if self.key_id is None else f"key {self.key_id}"
        log_event("signed in", door=self.door, user=self.username, client=self.source, by=by)

    def log(self, verb: str, path: str, began: float, problem: str = "") -> None:
        """One line of the access log; `began`: seconds of the performance counter."""
        outcome = {"problem": problem} if problem else {}
        milliseconds = round((time.perf_counter() - began) * 1000, 1)
        client = {"user": self.username, "client": self.source}
        log_event("request", door=self.door, method=verb, path=path, **client, **outcome, ms=milliseconds)


@dataclass(frozen=True, slots=True)
class Door:
    """How one protocol lets people in: its name, and the rights that it asks for."""

    name: str
    reading: Right
    writing: Right

    def open_session(self, user: User, source: str, key: SshKey | None = None) -> Session:
        """A session of somebody who has proven who they are; Denied without the right to use the door."""
        if user.disabled:
            raise Unauthorized("Current user is disabled, replace please")
        if not user.permission & self.reading:
            raise Denied(f"the permission to use {self.name} is missing")
        key_id = key.id if key else None
        return Session(
            self.name, user.username, user.id, user.pwd_ts, source, self.reading, self.writing, key_id
        )  # fmt: skip

    async def find_guest(self, username: str) -> User | None:
        """The guest's account, if that is its name and the guest may use the door: no password is asked for."""
        user = (await snapshot.fresh()).users.get(username)
        is_welcome = user is not None and user.role == GUEST and not user.disabled and user.permission & self.reading
        return user if is_welcome else None

    async def check_password(self, username: str, password: str, code: str, source: str) -> User:
        """Who has that password, and one-time code where the account wants one; as `accounts.authenticate`."""
        users = (await snapshot.fresh()).users
        static_hash = passwords.make_static_hash(password)
        check = partial(accounts.authenticate, username, static_hash, code, source, users)
        return await runtime.get(LoginQueue).run(source, check)

    async def find_key(self, username: str, fingerprint: str) -> tuple[User, SshKey] | None:
        """The account and its registered key of that fingerprint (`SHA256:…`); None when there is none."""
        user = (await snapshot.fresh()).users.get(username)
        if user is None or user.disabled or user.role == GUEST:
            return None
        keys = await asyncio.to_thread(sshkeys.find_by_user, user.id)
        found = next((key for key in keys if key.fingerprint == fingerprint), None)
        return (user, found) if found else None


def note_use(key_id: int) -> None:
    """Let the key's owner see when it was used last; blocks."""
    try:
        sshkeys.change(key_id, last_used=datetime.now(UTC))
    except RecordMissing:
        pass  # removed meanwhile: the session ends


async def find_ended(sessions: Iterable[Session]) -> list[Session]:
    """The sessions that are over."""
    ended: list[Session] = []
    living: list[Session] = []
    for session in sessions:
        try:
            await session.find_user()
            living.append(session)
        except Unauthorized:
            ended.append(session)
    key_ids = {session.key_id for session in living if session.key_id is not None}
    removed = await asyncio.to_thread(_find_removed, key_ids) if key_ids else set()
    return ended + [session for session in living if session.key_id in removed]


def _find_removed(key_ids: Iterable[int]) -> set[int]:
    removed: set[int] = set()
    for id in key_ids:
        try:
            sshkeys.get(id)
        except RecordMissing:
            removed.add(id)
    return removed
