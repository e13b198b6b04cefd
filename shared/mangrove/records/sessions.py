"""Tokens that were logged out before their end."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pynamodb.attributes import TTLAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist

from mangrove.records.base import Record, TableMeta, table_name, translate_errors


class SessionRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("sessions")

    jti = UnicodeAttribute(hash_key=True)
    expires = TTLAttribute()


def revoke(jti: str, expires: int) -> None:
    """No longer accept the token `jti`, which would end at `expires` (unix seconds)."""
    with translate_errors():
        SessionRecord(jti, expires=datetime.fromtimestamp(expires, UTC)).save()


def sweep() -> None:
    """Remove what has ended: DynamoDB does so by itself, the engine on one machine does not."""
    with translate_errors():
        for record in SessionRecord.scan(SessionRecord.expires < datetime.now(UTC)):
            record.delete()


def is_revoked(jti: str) -> bool:
    """Whether the token was logged out."""
    with translate_errors():
        try:
            record = SessionRecord.get(jti, consistent_read=True)
        except DoesNotExist:
            return False
    return record.expires.timestamp() > time.time()
