"""Tokens that were logged out before their end, and those that outlive what ended the others of their user."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pynamodb.attributes import TTLAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist

from mangrove.records import versions
from mangrove.records.store.base import Record, TableMeta, read_together, table_name, translate_errors
from mangrove.records.store.counters import Counter


class SessionRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("sessions")

    jti = UnicodeAttribute(hash_key=True)
    expires = TTLAttribute()


def revoke(jti: str, expires: int) -> None:
    """No longer accept the token `jti`, which would end at `expires` (unix seconds)."""
    _note(jti, expires)


def _note(key: str, expires: int) -> None:
    with translate_errors():
        SessionRecord(key, expires=datetime.fromtimestamp(expires, UTC)).save()


def sweep() -> None:
    """Remove what has ended: DynamoDB does so by itself, the engine on one machine does not."""
    with translate_errors():
        for record in SessionRecord.scan(SessionRecord.expires < datetime.now(UTC)):
            record.delete()


def is_revoked(jti: str) -> bool:
    """Whether the token was logged out."""
    return _is_noted(jti)


def read_with_version(jti: str) -> tuple[int, bool]:
    """The version of the configuration, and whether the token `jti` was logged out; one call."""
    counter, record = read_together((Counter, versions.KEY), (SessionRecord, jti))
    return int(counter.value) if counter is not None else 0, record is not None and _is_valid(record)


def _is_noted(key: str) -> bool:
    with translate_errors():
        try:
            return _is_valid(SessionRecord.get(key, consistent_read=True))
        except DoesNotExist:
            return False


def _is_valid(record: SessionRecord) -> bool:
    return record.expires.timestamp() > time.time()


def keep(jti: str, pwd_ts: int, expires: int) -> None:
    """Let the token `jti` go on when its user's `pwd_ts` becomes this one, which ends all others."""
    _note(_make_kept_key(jti, pwd_ts), expires)


def is_kept(jti: str, pwd_ts: int) -> bool:
    """Whether the token goes on under this `pwd_ts`."""
    return _is_noted(_make_kept_key(jti, pwd_ts))


def _make_kept_key(jti: str, pwd_ts: int) -> str:
    return f"kept#{jti}#{pwd_ts}"
