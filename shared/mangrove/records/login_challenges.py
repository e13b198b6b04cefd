"""Challenges of sign-ins that take more than one request. Each is used once, by whichever process gets the answer."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute

from mangrove.core.http import find_client
from mangrove.core.problems import TooMany
from mangrove.records.store import counters
from mangrove.records.store.base import Protected, RecordConflict, TableMeta, table_name, translate_errors
from mangrove.records.store.encryption import EncryptedAttribute

ID_BYTES = 32  # random, of the id that a client returns
MAX_ID_LENGTH = 128  # characters; a longer text is not looked up
CHALLENGE_WINDOW_SECONDS = 600
MAX_CHALLENGES_PER_CLIENT = 300  # in a time window; the users of an office may share an address


class ChallengeRecord(Protected):
    class Meta(TableMeta):
        table_name = table_name("login_challenges")

    key = UnicodeAttribute(hash_key=True)  # the hexadecimal SHA-256 of the id
    purpose = UnicodeAttribute()
    data = EncryptedAttribute()  # JSON
    until = NumberAttribute()  # seconds since the epoch
    expires = TTLAttribute()


def create(purpose: str, data: Mapping[str, Any], seconds: int) -> str:
    """Store what an answer is compared with for `seconds`. Return the id, of which only a digest is stored."""
    id = secrets.token_urlsafe(ID_BYTES)
    until = int(time.time()) + seconds
    record = ChallengeRecord(
        _make_key(id), purpose=purpose, data=orjson.dumps(data).decode(), until=until,
        expires=datetime.fromtimestamp(until + 1, UTC),
    )  # fmt: skip
    with translate_errors():
        record.save()
    return id


def use(purpose: str, id: str) -> dict[str, Any] | None:
    """Return the data of a challenge and delete it. Return None if it is unknown, expired, used, or for another
    purpose."""
    if not id or len(id) > MAX_ID_LENGTH:
        return None
    record = ChallengeRecord.find(_make_key(id))
    if record is None or record.purpose != purpose or record.until <= time.time():
        return None
    try:
        with translate_errors():
            record.delete(condition=ChallengeRecord.key.exists())
    except RecordConflict:
        return None  # another request used it at the same time
    data: dict[str, Any] = orjson.loads(record.data)
    return data


def _make_key(id: str) -> str:
    return hashlib.sha256(id.encode(errors="replace")).hexdigest()


def issue(purpose: str, data: Mapping[str, Any], seconds: int, source: str) -> str:
    """Store a challenge for `seconds` and return its id. Raise TooMany if the client asks for too many."""
    window = int(time.time()) // CHALLENGE_WINDOW_SECONDS
    count = counters.add_failure(f"challenges#{find_client(source)}#{window}", CHALLENGE_WINDOW_SECONDS)
    if count > MAX_CHALLENGES_PER_CLIENT:
        raise TooMany("too many sign-ins were begun, try again later", retry_after=CHALLENGE_WINDOW_SECONDS)
    return create(purpose, data, seconds)
