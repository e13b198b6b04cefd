"""Sessions of uploads in parts, and the receipts of parts where the storage does not list them itself.

The id of a session begins with the key of what it is for (`make_place`), so that one is found again without its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any

import orjson
from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import DoesNotExist

from mangrove.core.problems import RecordNotFound
from mangrove.records.store.base import Record, TableMeta, table_name, translate_errors

PLACE_LENGTH, NONCE_LENGTH = 32, 24  # hexadecimal digits
BATCH = 25  # rows that one call deletes


class UploadRecord(Record):
    """A session; `facts` is JSON."""

    class Meta(TableMeta):
        table_name = table_name("uploads")

    place = UnicodeAttribute(hash_key=True)
    item = UnicodeAttribute(range_key=True)
    owner = NumberAttribute()
    state = UnicodeAttribute()
    created = NumberAttribute()
    facts = UnicodeAttribute(attr_name="spec")
    expires = TTLAttribute()
    version = VersionAttribute()


class ReceiptRecord(Record):
    """A part; `place` is the id of its session, `item` the number in five digits."""

    class Meta(TableMeta):
        table_name = table_name("uploads")

    place = UnicodeAttribute(hash_key=True)
    item = UnicodeAttribute(range_key=True)
    size = NumberAttribute()
    receipt = UnicodeAttribute()
    expires = TTLAttribute()


@dataclass(frozen=True, slots=True)
class UploadSession:
    """`created`, `expires` in seconds since the epoch; `facts` as the module above stored them."""

    id: str
    owner: int
    state: str
    created: float
    facts: Mapping[str, Any]
    expires: float
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """A stored part: its number (from 1), its bytes, and what the driver answered."""

    number: int
    size: int
    text: str


def make_place(owner: int, path: str, size: int) -> str:
    """The key of all sessions of a user for one path and size."""
    return sha256(f"{owner}\n{size}\n{path}".encode()).hexdigest()[:PLACE_LENGTH]


def make_id(place: str) -> str:
    """The id of a new session there."""
    return place + token_hex(NONCE_LENGTH // 2)


def save(session: UploadSession) -> UploadSession:
    """Store a session; RecordConflict when it changed, or vanished, since it was read."""
    record = UploadRecord(
        session.id[:PLACE_LENGTH],
        session.id[PLACE_LENGTH:],
        owner=session.owner,
        state=session.state,
        created=session.created,
        facts=orjson.dumps(session.facts).decode(),
        expires=datetime.fromtimestamp(session.expires, UTC),
    )
    if session.version is not None:
        record.version = session.version
    with translate_errors():
        record.save()
    return _make_session(record)


def get(id: str) -> UploadSession:
    """One session; RecordNotFound."""
    if len(id) != PLACE_LENGTH + NONCE_LENGTH:
        raise RecordNotFound
    with translate_errors():
        try:
            return _make_session(UploadRecord.get(id[:PLACE_LENGTH], id[PLACE_LENGTH:], consistent_read=True))
        except DoesNotExist:
            raise RecordNotFound from None


def find(place: str) -> list[UploadSession]:
    """The sessions of that key, the newest first."""
    with translate_errors():
        found = [_make_session(record) for record in UploadRecord.query(place, consistent_read=True)]
    return sorted(found, key=lambda session: session.created, reverse=True)


def scan() -> Iterator[UploadSession]:
    """Every session, read lazily."""
    with translate_errors():
        for record in UploadRecord.scan(UploadRecord.state.exists()):
            yield _make_session(record)


def delete(id: str) -> None:
    """Remove a session with its receipts; no error when it is not there."""
    delete_receipts(id)
    with translate_errors():
        UploadRecord(id[:PLACE_LENGTH], id[PLACE_LENGTH:]).delete(add_version_condition=False)


def put_receipt(session: UploadSession, receipt: Receipt) -> None:
    """Note a part that is stored; what was noted of it before is replaced."""
    record = ReceiptRecord(
        session.id,
        f"{receipt.number:05d}",
        size=receipt.size,
        receipt=receipt.text,
        expires=datetime.fromtimestamp(session.expires, UTC),
    )
    with translate_errors():
        record.save()


def drop_receipt(id: str, number: int) -> None:
    """Forget a part that is going to be written again."""
    with translate_errors():
        ReceiptRecord(id, f"{number:05d}").delete()


def list_receipts(id: str) -> list[Receipt]:
    """The parts that are noted, by number."""
    with translate_errors():
        return [
            Receipt(int(record.item), int(record.size), record.receipt)
            for record in ReceiptRecord.query(id, consistent_read=True)
        ]


def delete_receipts(id: str) -> None:
    """Forget all parts of a session."""
    receipts = list_receipts(id)
    for start in range(0, len(receipts), BATCH):
        with translate_errors(), ReceiptRecord.batch_write() as batch:
            for one in receipts[start : start + BATCH]:
                batch.delete(ReceiptRecord(id, f"{one.number:05d}"))


def _make_session(record: UploadRecord) -> UploadSession:
    return UploadSession(
        record.place + record.item,
        int(record.owner),
        record.state,
        float(record.created),
        orjson.loads(record.facts),
        record.expires.timestamp(),
        int(record.version),
    )
