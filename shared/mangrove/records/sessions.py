"""Tokens that were revoked before they expired, and tokens that stay valid when the others of their user end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.connection.base import BOTOCORE_EXCEPTIONS
from pynamodb.constants import STRING
from pynamodb.exceptions import GetError
from pynamodb.indexes import AllProjection

from mangrove.records.store import versions
from mangrove.records.store.attributes import make_index
from mangrove.records.store.base import (
    Record,
    TableMeta,
    get_connection,
    table_name,
    transaction,
    translate_errors,
)
from mangrove.records.store.counters import Counter

OPEN_PREFIX = "open#"
"""Of the keys of sessions that are open. Revoked tokens have none."""


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

    by_username = make_index("username", AllProjection(), username=UnicodeAttribute, last_used=NumberAttribute)
    """The index of the open sessions of a user, in the order of their last use."""


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
    counter, record = _read_together((Counter, versions.KEY), (SessionRecord, jti))
    return int(counter.value) if counter is not None else 0, record is not None and _is_valid(record)


def _read_together(*requests: tuple[type[Record], str]) -> list[Any]:
    """Return records of several tables by their keys, None for a missing one; usually in one call."""
    keys = {model: {model.get_key_name(): {STRING: key}} for model, key in requests}
    tables = {model.Meta.table_name: {"Keys": [key], "ConsistentRead": True} for model, key in keys.items()}
    with translate_errors():
        try:
            answer = get_connection(requests[0][0]).dispatch("BatchGetItem", {"RequestItems": tables})
        except BOTOCORE_EXCEPTIONS as error:
            raise GetError(str(error), error) from error
    return [_find_in_answer(model, key, answer) for model, key in requests]


def _find_in_answer(model: type[Record], key: str, answer: dict[str, Any]) -> Any:
    """Return a record of an answer to BatchGetItem; read it if the answer reports that it was left out."""
    name = model.Meta.table_name
    if name not in answer.get("UnprocessedKeys", ()):
        items = answer["Responses"].get(name)
        return model.from_raw_data(items[0]) if items else None
    return model.find(key)


def _exists(key: str) -> bool:
    record = SessionRecord.find(key)
    return record is not None and _is_valid(record)


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
