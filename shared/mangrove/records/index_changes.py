"""The log of changes of storages that the search index does not have yet. Searches read it, and compaction empties it.

The log is one partition in the order of its numbers: one query reads the new changes of all storages. A number begins
with the time at which it was assigned. Its row can be read at most MAX_WRITE_DELAY_SECONDS later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from secrets import token_hex
from typing import Any, NamedTuple

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store.base import Record, TableMeta, table_name
from mangrove.records.store.raw_rows import query_rows, write_rows

MAX_NAMES_PER_CHANGE = 200  # of 255 characters each: less than the 400 KB that a record may have
MAX_WRITE_DELAY_SECONDS = 5.0  # from the time in a number until its row can be read
LOG = "changes"


class IndexChangeRecord(Record):
    """A change in the log."""

    class Meta(TableMeta):
        table_name = table_name("index_changes")

    log = UnicodeAttribute(hash_key=True)
    number = UnicodeAttribute(range_key=True)
    storage = NumberAttribute()
    kind = UnicodeAttribute()
    content = UnicodeAttribute()  # JSON, see `_dump`


class ChangeKind(StrEnum):
    """A kind of change."""

    INTENT = "intent"
    """Something at `path` may change from now on."""
    NAMES = "names"
    """The folder `path` has `entries` now, and no longer `removed`."""
    MOVE = "move"
    """The content of the folder `path` is in `target` now."""
    COPY = "copy"
    """The content of the folder `path` is in `target` as well."""
    READ = "read"
    """The content of `path` is unknown and has to be read."""
    INDEX = "index"
    """The storage has other segments."""


class IndexedName(NamedTuple):
    """An entry of a folder, with fields of `drivers.base.Entry`."""

    name: str
    is_dir: bool
    size: int | None
    modified: float
    changed_by: int | None = None  # the id of the user who made the change; None for a folder, or if it is not known


@dataclass(frozen=True, slots=True)
class IndexChange:
    """A row of the log. Paths are inside the storage."""

    storage_id: int
    kind: ChangeKind
    path: str = "/"
    deep: bool = False  # for INTENT and READ: including everything below
    target: str = ""  # for MOVE and COPY
    entries: tuple[IndexedName, ...] = ()  # of the folder; for MOVE and COPY the entry at `target`
    removed: tuple[str, ...] = ()
    number: str = ""


def make_number(seconds: float) -> str:
    """Return the lowest number of a change at a time, in seconds since the epoch."""
    return f"{int(seconds * 1e6):017d}"


def read_seconds(number: str) -> float:
    """Return the time in a number, in seconds since the epoch."""
    return _read_microseconds(number) / 1e6


def _read_microseconds(number: str) -> int:
    return int(number[:17])


def number_changes(changes: Sequence[IndexChange], after: str = "") -> list[IndexChange]:
    """Return the changes with numbers, in order, all greater than `after`."""
    start = max(int(time.time() * 1e6), _read_microseconds(after) + 1 if after else 0)
    suffix = token_hex(3)
    return [
        IndexChange(
            change.storage_id, change.kind, change.path, change.deep, change.target, change.entries, change.removed,
            f"{start:017d}-{suffix}{position:06d}",
        )
        for position, change in enumerate(changes)
    ]  # fmt: skip


def write(changes: Sequence[IndexChange], delete: Collection[str] = ()) -> None:
    """Store numbered changes, and delete the changes with the numbers `delete`. Raise RecordsUnavailable."""
    requests: list[dict[str, Any]] = [{"PutRequest": {"Item": _dump(change)}} for change in changes]
    keys = ({"log": {"S": LOG}, "number": {"S": number}} for number in delete)
    requests += [{"DeleteRequest": {"Key": key}} for key in keys]
    write_rows(IndexChangeRecord, requests)
    if changes:
        change_counters().bump(Topic.INDEX_CHANGES)


def add(*changes: IndexChange) -> None:
    """Number and store changes."""
    write(number_changes(changes))


def _dump(change: IndexChange) -> dict[str, dict[str, Any]]:
    content = {
        "path": change.path, "deep": change.deep, "target": change.target,
        "entries": [*map(_dump_name, change.entries)], "removed": change.removed,
    }  # fmt: skip
    return {
        "log": {"S": LOG},
        "number": {"S": change.number},
        "storage": {"N": str(change.storage_id)},
        "kind": {"S": change.kind.value},
        "content": {"S": json.dumps(content, separators=(",", ":"))},  # it escapes what is not UTF-8
    }


def _dump_name(entry: IndexedName) -> Sequence[Any]:
    return entry[:4] if entry.changed_by is None else entry


def read(after: str = "", limit: int | None = None) -> list[IndexChange]:
    """Return at most `limit` changes with numbers greater than `after`, in order."""
    arguments = {
        "ConsistentRead": True,
        "KeyConditionExpression": "#log = :log AND #number > :number",
        "ExpressionAttributeNames": {"#log": "log", "#number": "number"},
        "ExpressionAttributeValues": {":log": {"S": LOG}, ":number": {"S": after or "0"}},
    }
    return list(map(_load, query_rows(IndexChangeRecord, limit, arguments)))


def read_of(storage_id: int) -> list[IndexChange]:
    """Return the changes of one storage, in order."""
    return [change for change in read() if change.storage_id == storage_id]


def _load(item: dict[str, dict[str, Any]]) -> IndexChange:
    content = json.loads(item["content"]["S"])
    return IndexChange(
        int(item["storage"]["N"]),
        ChangeKind(item["kind"]["S"]),
        content["path"],
        content["deep"],
        content["target"],
        tuple(IndexedName(*entry) for entry in content["entries"]),
        tuple(content["removed"]),
        item["number"]["S"],
    )


def delete_of(storage_id: int) -> None:
    """Delete all changes of a storage except those of the kind INDEX."""
    changes = read_of(storage_id)
    write([], [change.number for change in changes if change.kind is not ChangeKind.INDEX])
