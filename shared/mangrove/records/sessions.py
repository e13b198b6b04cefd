"""Tokens that were revoked before they expired, and tokens that stay valid when the others of their user end."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex

from mangrove.records.store import versions
from mangrove.records.store.base import (
    Record,
    TableMeta,
    read_together,
    table_name,
    transaction,
    translate_errors,
)
from mangrove.records.store.counters import Counter

OPEN_PREFIX = "open#"
"""Of the keys of sessions that are open. Revoked tokens have none."""


class UsernameIndex(GlobalSecondaryIndex["SessionRecord"]):  # type: ignore[no-untyped-call]  # untyped in PynamoDB
    """The open sessions of a user, in the order of their last use."""

    class Meta:
        index_name = "username"
        projection = AllProjection()

    username = UnicodeAttribute(hash_key=True)
    last_used = NumberAttribute(range_key=True)


class SessionRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("sessions")

    jti = UnicodeAttribute(hash_key=True)
    expires = TTLAttribute()
    # of open sessions
    username = UnicodeAttribute(null=True)
    pwd_ts = NumberAttribute(null=True)
    device = UnicodeAttribute(null=True)
    address = UnicodeAttribute(null=True)
    created = NumberAttribute(null=True)
    last_used = NumberAttribute(null=True)

    by_username = UsernameIndex()


def make_open_key(jti: str) -> str:
    """Return the key of the record of an open session."""
    return f"{OPEN_PREFIX}{jti}"


def revoke(jti: str, expires: int) -> None:
    """Revoke the token `jti`, which would expire at `expires` (seconds since the epoch). Its session is not listed."""
    with translate_errors(), transaction(SessionRecord) as write:
        write.delete(SessionRecord(make_open_key(jti)))
        write.save(_make_record(jti, expires))


def _make_record(key: str, expires: int) -> SessionRecord:
    return SessionRecord(key, expires=datetime.fromtimestamp(expires, UTC))


def is_revoked(jti: str) -> bool:
    """True if the token was revoked."""
    return _exists(jti)


def read_with_version(jti: str) -> tuple[int, bool]:
    """Return the version of the configuration, and True if the token `jti` was revoked; in one call."""
    counter, record = read_together((Counter, versions.KEY), (SessionRecord, jti))
    return int(counter.value) if counter is not None else 0, record is not None and _is_valid(record)


def _exists(key: str) -> bool:
    with translate_errors():
        try:
            return _is_valid(SessionRecord.get(key, consistent_read=True))
        except DoesNotExist:
            return False


def _is_valid(record: SessionRecord) -> bool:
    return record.expires.timestamp() > time.time()


def keep(jti: str, pwd_ts: int, expires: int) -> None:
    """Keep the token `jti` valid when the `pwd_ts` of its user becomes this one, which invalidates all others."""
    with translate_errors():
        _make_record(_make_kept_key(jti, pwd_ts), expires).save()


def is_kept(jti: str, pwd_ts: int) -> bool:
    """True if the token is still valid with this `pwd_ts`."""
    return _exists(_make_kept_key(jti, pwd_ts))


def _make_kept_key(jti: str, pwd_ts: int) -> str:
    return f"kept#{jti}#{pwd_ts}"
