"""Removed entries and older versions of files, which lie in a hidden folder of their storage.

The rows of a storage stand together, those of one kind in the order of their removal. An intent says what is about to
happen to an entry: it is written before the storage is changed, and deleted with the write of the result. An intent
that stays is that of a process that died. A move says that the content of an entry is moved file by file: a later
request or task step finds it and continues.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, compress, islice
from secrets import token_hex
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.path_keys import make_key as make_path_key
from mangrove.records.store.attributes import make_index
from mangrove.records.store.base import Record, TableMeta, get_connection, table_name, translate_errors
from mangrove.records.store.raw_rows import MAX_ATTEMPTS, Row, pause, query_rows, write_rows

OWNER_INDEX = "owner"
INTENTS = "intents"
MAX_KEYS_PER_CALL = 100  # the same for reads
MAX_ROWS_PER_QUERY = 1000  # of the versions of several files
AFTER_KEY = "!"  # appended to a sort key, is less than the next one
AFTER_IDS = "~"  # sorts after all ids


class TrashKind(StrEnum):
    """A reason for which an entry is kept."""

    REMOVED = "removed"
    REPLACED = "replaced"
    """A file of its name took its place."""
    VERSION = "version"
    """The same in a storage that keeps versions."""


class Action(StrEnum):
    """The change of an entry that an intent announces."""

    MOVE = "move"
    """It goes into the hidden folder, or back."""
    DELETE = "delete"
    """It is deleted for good."""


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """An entry that was removed or replaced."""

    id: str
    """Unique in its storage. Ids sort by the time of removal."""
    storage_id: int
    path: str
    """Its former path inside the storage."""
    is_dir: bool
    size: int
    """Bytes; 0 for a folder that was not measured, -1 where the storage does not know it."""
    modified: float
    """Seconds since the epoch."""
    owner: int
    """The id of the user who removed it, 0 if unknown."""
    remover: str
    """The name of that user at that time."""
    kind: TrashKind
    is_moved: bool = False
    """True if the storage cannot rename in one step, so that the content is moved file by file."""

    @property
    def removed(self) -> float:
        """The time of removal in seconds since the epoch."""
        return int(self.id[:12], 16) / 1000


@dataclass(frozen=True, slots=True)
class Intent:
    """A change of an entry that was begun."""

    entry: TrashEntry
    action: Action
    began: float
    """Seconds since the epoch."""

    @property
    def key(self) -> str:
        """The sort key. Keys sort by the time of removal."""
        return _make_intent_key(self.entry)


class TrashRecord(Record):
    """A row: an entry, a version or an intent."""

    class Meta(TableMeta):
        table_name = table_name("trash")

    place = UnicodeAttribute(hash_key=True)  # see `_make_place`
    id = UnicodeAttribute(range_key=True)
    owner = NumberAttribute(null=True)  # of an entry in the trash only
    content = UnicodeAttribute()  # JSON

    by_owner = make_index(OWNER_INDEX, AllProjection(), owner=NumberAttribute, id=UnicodeAttribute)
    """The index of the entries that a user removed."""


def make_id() -> str:
    """Return the id of an entry that is removed now: milliseconds since the epoch, and a random part."""
    return make_first_id(time.time()) + token_hex(8)


def make_first_id(seconds: float) -> str:
    """Return a text that is less than all ids of a time and greater than all before."""
    return f"{int(seconds * 1000):012x}"


def make_key(entry: TrashEntry) -> tuple[str, str]:
    """Return the place and the sort key of an entry. The versions of a file stand together."""
    if entry.kind is not TrashKind.VERSION:
        return str(entry.storage_id), entry.id
    return _make_versions_place(entry.storage_id), f"{_make_versions_prefix(entry.path)}{entry.id}"


def _make_versions_place(storage_id: int) -> str:
    return f"{storage_id}#versions"


def _make_versions_prefix(path: str) -> str:
    return f"{make_path_key(path)}//"  # no path has an empty segment


def add_intents(entries: Sequence[TrashEntry], action: Action) -> None:
    """Write that something happens to entries. An entry that is to be deleted is not listed any more."""
    now = time.time()
    puts = [_put_intent(Intent(entry, action, now)) for entry in entries]
    _write([*puts, *(_delete(*make_key(entry)) for entry in entries if action is Action.DELETE)])


def finish(*entries: TrashEntry) -> None:
    """Write that entries are in the hidden folder."""
    deletes = [[_delete(INTENTS, _make_intent_key(entry)), *_delete_moves(entry)] for entry in entries]
    _write([*map(_put, entries), *chain(*deletes)])  # until its row is there, an intent leads to an entry


def begin_move(entry: TrashEntry, target: str = "") -> None:
    """Write that the content of an entry is being moved: into the hidden folder, or back to the path `target`."""
    content = {"entry": _dump(entry), "target": target}
    key = _make_restore_key(entry) if target else _make_removal_key(entry.path)
    row = {"place": {"S": _make_moves_place(entry.storage_id)}, "id": {"S": key}, "content": {"S": json.dumps(content)}}
    _write([{"PutRequest": {"Item": row}}, _put_intent(Intent(entry, Action.MOVE, time.time()))])


def find_removal(storage_id: int, path: str) -> TrashEntry | None:
    """Return the entry into which the content at a path is being moved, None if it is not."""
    contents = _read_moves(storage_id, _make_removal_key(path))
    return next((entry for entry in (_load(content["entry"]) for content in contents) if entry.path == path), None)


def find_restore_target(entry: TrashEntry) -> str:
    """Return the path to which the content of an entry is being moved back, "" if it is not."""
    contents = _read_moves(entry.storage_id, _make_restore_key(entry))
    return next((str(content["target"]) for content in contents), "")


def forget(entries: Iterable[TrashEntry]) -> None:
    """Write that entries are not in the hidden folder any more."""
    _write([
        request
        for entry in entries
        for request in (
            _delete(*make_key(entry)), _delete(INTENTS, _make_intent_key(entry)), *_delete_moves(entry)
        )
    ])  # fmt: skip


def list_intents(limit: int, *, start: str = "") -> list[Intent]:
    """Return the first intents after the key `start`."""
    rows = _query(INTENTS, start, limit, is_newest_first=False)
    contents = [(_load(content["entry"]), content) for content in map(_read_content, rows)]
    return [Intent(entry, Action(content["action"]), content["began"]) for entry, content in contents]


def list_of(storage_id: int, limit: int, *, start: str = "", is_newest_first: bool = True) -> list[TrashEntry]:
    """Return entries of a storage after the id `start`."""
    return [_load(_read_content(row)) for row in _query(str(storage_id), start, limit, is_newest_first=is_newest_first)]


def list_owned(owner: int, limit: int, *, start: str = "") -> list[TrashEntry]:
    """Return entries that a user removed, the newest first, after the id `start`. One that was just removed may not be
    among them yet."""
    rows = _query("", start, limit, is_newest_first=True, owner=owner)
    return [_load(_read_content(row)) for row in rows]


def list_versions(storage_id: int, path: str, limit: int) -> list[TrashEntry]:
    """Return the versions of a file, the newest first."""
    rows = _query(_make_versions_place(storage_id), "", limit, is_newest_first=True, prefix=_make_versions_prefix(path))
    return [entry for entry in map(_load, map(_read_content, rows)) if entry.path == path]


def list_excess_versions(entries: Sequence[TrashEntry], count: int) -> list[TrashEntry]:
    """Return the versions of the files of entries beyond the newest `count` of each. The entries are of one storage.

    Files that stand next to each other share a query. After a query that reads mostly other files, the next is smaller.
    """
    prefixes = sorted({_make_versions_prefix(entry.path) for entry in entries})
    versions: dict[str, list[Row]] = {prefix: [] for prefix in prefixes}  # the oldest first
    limit = min(len(prefixes) * (count + 1) + 1, MAX_ROWS_PER_QUERY)
    start, position = "", 0
    while position < len(prefixes):
        rows = _query_versions(entries[0].storage_id, max(start, prefixes[position]), prefixes[-1], limit)
        is_requested = [_find_versions_prefix(row) in versions for row in rows]
        for row in compress(rows, is_requested):
            versions[_find_versions_prefix(row)].append(row)
        if len(rows) < limit:
            break
        start = rows[-1]["id"]["S"] + AFTER_KEY
        position = bisect_left(prefixes, _find_versions_prefix(rows[-1]))
        is_dense = 2 * sum(is_requested) >= limit
        limit = min(2 * limit, MAX_ROWS_PER_QUERY) if is_dense else max(limit // 8, count + 2)
    return [_load(_read_content(row)) for rows in versions.values() for row in rows[: max(len(rows) - count, 0)]]


def _query_versions(storage_id: int, start: str, last_prefix: str, limit: int) -> list[Row]:
    """Return at most `limit` versions from the sort key `start` to the last one with a prefix."""
    return query_rows(
        TrashRecord,
        limit,
        {
            "KeyConditionExpression": "#place = :place AND #id BETWEEN :start AND :end",
            "ExpressionAttributeNames": {"#place": "place", "#id": "id"},
            "ExpressionAttributeValues": {
                ":place": {"S": _make_versions_place(storage_id)},
                ":start": {"S": start},
                ":end": {"S": last_prefix + AFTER_IDS},
            },
            "ConsistentRead": True,
        },
    )


def _find_versions_prefix(row: Row) -> str:
    """Return the prefix of all versions of the file of a version."""
    key: str = row["id"]["S"]
    return key[: key.rindex("//") + 2]


def list_all_versions(storage_id: int, limit: int, *, start: str = "") -> tuple[list[TrashEntry], str]:
    """Return versions of all files of a storage by their paths, and where the next ones begin; "" at the end."""
    rows = _query(_make_versions_place(storage_id), start, limit, is_newest_first=False)
    next_start = rows[-1]["id"]["S"] if len(rows) == limit else ""
    return [_load(_read_content(row)) for row in rows], next_start


def get_many(keys: Sequence[tuple[int, str]]) -> list[TrashEntry]:
    """Return the entries of storage ids and ids that are there."""
    table = TrashRecord.Meta.table_name
    rows: list[Row] = []
    remaining = iter(dict.fromkeys(keys))
    while batch := list(islice(remaining, MAX_KEYS_PER_CALL)):
        requests = [{"place": {"S": str(storage_id)}, "id": {"S": id}} for storage_id, id in batch]
        for attempt in range(MAX_ATTEMPTS):
            pause(attempt)
            with translate_errors():
                answer = get_connection(TrashRecord).client.batch_get_item(
                    RequestItems={table: {"Keys": requests, "ConsistentRead": True}}
                )
            rows += answer["Responses"].get(table, ())
            requests = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if not requests:
                break
        else:
            raise RecordsUnavailable
    return [_load(_read_content(row)) for row in rows]


def find_version(storage_id: int, path: str, id: str) -> TrashEntry | None:
    """Return a version of a file, None if it is not there."""
    key = {"place": {"S": _make_versions_place(storage_id)}, "id": {"S": f"{_make_versions_prefix(path)}{id}"}}
    with translate_errors():
        answer = get_connection(TrashRecord).client.get_item(
            TableName=TrashRecord.Meta.table_name, Key=key, ConsistentRead=True
        )
    return _load(_read_content(answer["Item"])) if "Item" in answer else None


def _query(
    place: str, start: str, limit: int, *, is_newest_first: bool, owner: int | None = None, prefix: str = ""
) -> list[Row]:
    """Return at most `limit` rows of a place, or of an owner, after the sort key `start` or with a prefix."""
    name, value = ("place", {"S": place}) if owner is None else ("owner", {"N": str(owner)})
    arguments: dict[str, Any] = {
        "KeyConditionExpression": "#key = :key",
        "ExpressionAttributeNames": {"#key": name},
        "ExpressionAttributeValues": {":key": value},
        "ScanIndexForward": not is_newest_first,
    }
    arguments |= {"ConsistentRead": True} if owner is None else {"IndexName": OWNER_INDEX}
    if start:
        arguments["KeyConditionExpression"] += f" AND #id {'<' if is_newest_first else '>'} :start"
        arguments["ExpressionAttributeNames"]["#id"] = "id"
        arguments["ExpressionAttributeValues"][":start"] = {"S": start}
    if prefix:
        arguments["KeyConditionExpression"] += " AND begins_with(#id, :prefix)"
        arguments["ExpressionAttributeNames"]["#id"] = "id"
        arguments["ExpressionAttributeValues"][":prefix"] = {"S": prefix}
    return query_rows(TrashRecord, limit, arguments)


def _read_moves(storage_id: int, key: str) -> list[dict[str, Any]]:
    rows = _query(_make_moves_place(storage_id), "", 1, is_newest_first=False, prefix=key)
    return [_read_content(row) for row in rows if row["id"]["S"] == key]


def _delete_moves(entry: TrashEntry) -> list[dict[str, Any]]:
    place = _make_moves_place(entry.storage_id)
    keys = [_make_removal_key(entry.path), _make_restore_key(entry)] if entry.is_moved else []
    return [_delete(place, key) for key in keys]


def _make_moves_place(storage_id: int) -> str:
    return f"{storage_id}#moves"


def _make_removal_key(path: str) -> str:
    return f"remove {make_path_key(path)}"


def _make_restore_key(entry: TrashEntry) -> str:
    return f"restore {entry.id}"


def _make_intent_key(entry: TrashEntry) -> str:
    return f"{entry.id}-{entry.storage_id}"


def _put_intent(intent: Intent) -> dict[str, Any]:
    return {"PutRequest": {"Item": make_intent_row(intent)}}


def make_intent_row(intent: Intent) -> Row:
    """Return the row of an intent. An entry has at most one."""
    content = {"entry": _dump(intent.entry), "action": intent.action.value, "began": intent.began}
    return {"place": {"S": INTENTS}, "id": {"S": intent.key}, "content": {"S": json.dumps(content)}}


def _put(entry: TrashEntry) -> dict[str, Any]:
    return {"PutRequest": {"Item": make_row(entry)}}


def make_row(entry: TrashEntry) -> Row:
    """Return the row of an entry."""
    place, key = make_key(entry)
    row: Row = {
        "place": {"S": place},
        "id": {"S": key},
        "content": {"S": json.dumps(_dump(entry))},  # it escapes what is not UTF-8
    }
    if entry.kind is not TrashKind.VERSION:
        row["owner"] = {"N": str(entry.owner)}
    return row


def _delete(place: str, id: str) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": {"place": {"S": place}, "id": {"S": id}}}}


def _dump(entry: TrashEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in TrashEntry.__slots__}


def _read_content(row: Row) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(row["content"]["S"])
    return content


def _load(content: dict[str, Any]) -> TrashEntry:
    return TrashEntry(**content | {"kind": TrashKind(content["kind"])})


def _write(requests: Sequence[dict[str, Any]]) -> None:
    """Put and delete rows. Of several requests for one row, the last one counts."""
    write_rows(TrashRecord, {_find_row_key(request): request for request in requests}.values())


def _find_row_key(request: dict[str, Any]) -> tuple[str, str]:
    (content,) = request.values()
    key = content.get("Key") or content["Item"]
    return key["place"]["S"], key["id"]["S"]
