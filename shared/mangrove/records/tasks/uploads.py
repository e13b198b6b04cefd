"""Sessions of uploads in parts, and the receipts of parts, for storages that do not list parts.

The id of a session begins with the key of its file (`make_file_key`), by which it is found again.
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

from mangrove.core.problems import RecordNotFound
from mangrove.records.store.base import Record, TableMeta, table_name, translate_errors

FILE_KEY_LENGTH, NONCE_LENGTH = 32, 24  # hexadecimal digits
MAX_DELETES_PER_CALL = 25


class UploadRecord(Record):
    """A session."""

    class Meta(TableMeta):
        table_name = table_name("uploads")

    file_key = UnicodeAttribute(hash_key=True, attr_name="place")
    nonce = UnicodeAttribute(range_key=True, attr_name="item")
    owner = NumberAttribute()
    state = UnicodeAttribute()
    created = NumberAttribute()
    spec = UnicodeAttribute()  # JSON
    expires = TTLAttribute()
    version = VersionAttribute()


class ReceiptRecord(Record):
    """A stored part."""

    class Meta(TableMeta):
        table_name = table_name("uploads")

    session_id = UnicodeAttribute(hash_key=True, attr_name="place")
    number = UnicodeAttribute(range_key=True, attr_name="item")  # in five digits
    size = NumberAttribute()
    receipt = UnicodeAttribute()
    expires = TTLAttribute()


@dataclass(frozen=True, slots=True)
class UploadSession:
    """A session of an upload in parts."""

    id: str
    owner: int
    state: str
    created: float
    """In seconds since the epoch, as `expires`."""
    spec: Mapping[str, Any]
    expires: float
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """A stored part."""

    number: int
    """From 1."""
    size: int
    text: str
    """The receipt of the driver."""


def make_file_key(owner: int, path: str, size: int) -> str:
    """Return the key of all sessions of a user for one path and size."""
    return sha256(f"{owner}\n{size}\n{path}".encode()).hexdigest()[:FILE_KEY_LENGTH]


def make_id(file_key: str) -> str:
    """Return the id of a new session."""
    return file_key + token_hex(NONCE_LENGTH // 2)


def save(session: UploadSession) -> UploadSession:
    """Store a session. Raise RecordConflict if it was changed or deleted since it was read."""
    record = UploadRecord(
        session.id[:FILE_KEY_LENGTH],
        session.id[FILE_KEY_LENGTH:],
        owner=session.owner,
        state=session.state,
        created=session.created,
        spec=orjson.dumps(session.spec).decode(),
        expires=datetime.fromtimestamp(session.expires, UTC),
    )
    if session.version is not None:
        record.version = session.version
    with translate_errors():
        record.save()
    return _make_session(record)


def get(id: str) -> UploadSession:
    """Return a session. Raise RecordNotFound."""
    is_id = len(id) == FILE_KEY_LENGTH + NONCE_LENGTH
    record = UploadRecord.find(id[:FILE_KEY_LENGTH], id[FILE_KEY_LENGTH:]) if is_id else None
    if record is None:
        raise RecordNotFound
    return _make_session(record)


def find(file_key: str) -> list[UploadSession]:
    """Return the sessions of a key, the newest first."""
    with translate_errors():
        sessions = [_make_session(record) for record in UploadRecord.query(file_key, consistent_read=True)]
    return sorted(sessions, key=lambda session: session.created, reverse=True)


def scan() -> Iterator[UploadSession]:
    """Yield all sessions, read lazily."""
    with translate_errors():
        for record in UploadRecord.scan(UploadRecord.state.exists()):
            yield _make_session(record)


def delete(id: str) -> None:
    """Delete a session with its receipts, if there is one."""
    delete_receipts(id)
    with translate_errors():
        UploadRecord(id[:FILE_KEY_LENGTH], id[FILE_KEY_LENGTH:]).delete(add_version_condition=False)


def put_receipt(session: UploadSession, receipt: Receipt) -> None:
    """Store the receipt of a part, or replace it."""
    record = ReceiptRecord(
        session.id,
        f"{receipt.number:05d}",
        size=receipt.size,
        receipt=receipt.text,
        expires=datetime.fromtimestamp(session.expires, UTC),
    )
    with translate_errors():
        record.save()


def delete_receipt(id: str, number: int) -> None:
    """Delete the receipt of a part that is about to be stored again."""
    with translate_errors():
        ReceiptRecord(id, f"{number:05d}").delete()


def list_receipts(id: str) -> list[Receipt]:
    """Return the receipts of a session, by number."""
    with translate_errors():
        return [
            Receipt(int(record.number), int(record.size), record.receipt)
            for record in ReceiptRecord.query(id, consistent_read=True)
        ]


def delete_receipts(id: str) -> None:
    """Delete all receipts of a session."""
    receipts = list_receipts(id)
    for start in range(0, len(receipts), MAX_DELETES_PER_CALL):
        with translate_errors(), ReceiptRecord.batch_write() as batch:
            for receipt in receipts[start : start + MAX_DELETES_PER_CALL]:
                batch.delete(ReceiptRecord(id, f"{receipt.number:05d}"))


def _make_session(record: UploadRecord) -> UploadSession:
    return UploadSession(
        record.file_key + record.nonce,
        int(record.owner),
        record.state,
        float(record.created),
        orjson.loads(record.spec),
        record.expires.timestamp(),
        int(record.version),
    )
