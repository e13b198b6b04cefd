"""Sessions that are open: the device, the address and the last use of each, to be listed and ended.

A session is valid without such a record: its token has a signature. Records expire with their tokens.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from itertools import islice

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from mangrove.records.sessions import OPEN_PREFIX, SessionRecord, make_open_key
from mangrove.records.store.base import RecordConflict, translate_errors


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session. Times are seconds since the epoch."""

    id: str
    """The `jti` of its token."""
    username: str
    pwd_ts: int
    """The `pwd_ts` of the user with which it is valid."""
    device: str
    """The `User-Agent` of the sign-in."""
    address: str
    """The address of the client at the last use."""
    created: int
    last_used: int
    expires: int


_NUMBERS = [field.name for field in fields_of(OpenSession) if field.type == "int" and field.name != "expires"]


def _to_session(record: SessionRecord) -> OpenSession:
    numbers = {name: int(getattr(record, name)) for name in _NUMBERS}
    return OpenSession(
        id=record.jti.removeprefix(OPEN_PREFIX), username=record.username, device=record.device, address=record.address,
        expires=int(record.expires.timestamp()), **numbers,
    )  # fmt: skip


def add(session: OpenSession) -> None:
    """Record a session that was opened."""
    record = SessionRecord(
        make_open_key(session.id), username=session.username, device=session.device, address=session.address,
        expires=datetime.fromtimestamp(session.expires, UTC), **{name: getattr(session, name) for name in _NUMBERS},
    )  # fmt: skip
    with translate_errors():
        record.save()


def find(id: str) -> OpenSession | None:
    """Return a session; None if there is no record of it."""
    record = SessionRecord.find(make_open_key(id))
    return None if record is None else _to_session(record)


def find_by_user(username: str, limit: int) -> list[OpenSession]:
    """Return the sessions of a user, at most `limit`, the last used first. One just opened may be missing."""
    with translate_errors():
        records = SessionRecord.by_username.query(username, scan_index_forward=False, limit=limit)
        return list(islice(_iter_valid(records), limit))


def find_last_used(limit: int) -> list[OpenSession]:
    """Return the sessions of all users, at most `limit`, the last used first."""
    is_open = SessionRecord.jti.startswith(OPEN_PREFIX)
    with translate_errors():
        sessions = _iter_valid(SessionRecord.scan(is_open))
        return heapq.nlargest(limit, sessions, key=lambda session: session.last_used)


def _iter_valid(records: Iterator[SessionRecord]) -> Iterator[OpenSession]:
    now = time.time()
    return (session for session in map(_to_session, records) if session.expires > now)


def note_use(id: str, address: str) -> None:
    """Record that a session is used now from this address. Ignore a session without a record."""
    now = int(time.time())
    is_later = SessionRecord.last_used < now
    _update(id, [SessionRecord.last_used.set(now), SessionRecord.address.set(address)], is_later)


def set_pwd_ts(id: str, pwd_ts: int) -> None:
    """Record the `pwd_ts` with which a session stays valid. Ignore a session without a record."""
    _update(id, [SessionRecord.pwd_ts.set(pwd_ts)], SessionRecord.jti.exists())


def _update(id: str, actions: list[Action], condition: Condition) -> None:
    try:
        with translate_errors():
            SessionRecord(make_open_key(id)).update(actions=actions, condition=condition)
    except RecordConflict:
        pass
