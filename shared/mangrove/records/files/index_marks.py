"""Folders of which the search index may be wrong: written around each change, deleted by who read the folder since.

A deep mark (of the folder and all below) and a shallow one of the same folder are two records: neither replaces the
other, so that each is written without a look at what is there, as many in one call as DynamoDB takes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from typing import Any, NamedTuple

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import (
    Conflict,
    Record,
    TableMeta,
    get_connection,
    table_name,
    transaction,
    translate_errors,
)

MOST_PUTS, MOST_DELETES = 25, 100  # of one call, and of one transaction: the limits of DynamoDB
ATTEMPTS = 6  # at what the engine put off
SLACK_SECONDS = 5.0  # a mark may be deleted by a walk that began this long after it was noted, and not by an older one


class IndexMarkRecord(Record):
    """`folder`: see `_make_key`; `noted` in seconds since the epoch."""

    class Meta(TableMeta):
        table_name = table_name("index_marks")

    storage = NumberAttribute(hash_key=True)
    folder = UnicodeAttribute(range_key=True)
    path = UnicodeAttribute()
    deep = BooleanAttribute()
    noted = NumberAttribute()
    version = UnicodeAttribute()


class Place(NamedTuple):
    """A folder by its path inside a storage; `deep`: with all below it."""

    storage_id: int
    path: str
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """What the index says of a folder (`deep`: and of all below it) may be wrong. `noted`: seconds since the epoch when
    that was written last; `version`: of that writing."""

    storage_id: int
    path: str
    deep: bool
    noted: float
    version: str


def put(storage_id: int, folders: Collection[tuple[str, bool]]) -> None:
    """Mark folders of one storage: each by its path, and whether with all below it."""
    put_many([Place(storage_id, path, deep) for path, deep in folders])


def put_many(places: Collection[Place]) -> None:
    """Mark folders, or note the marks that they have anew."""
    noted, version = time.time(), token_hex(8)
    items = [_make_item(place, noted, version) for place in dict.fromkeys(places)]
    for start in range(0, len(items), MOST_PUTS):
        _write([{"PutRequest": {"Item": item}} for item in items[start : start + MOST_PUTS]])


def _make_key(path: str, deep: bool) -> str:
    """Of any length of path, and another for a deep mark."""
    return sha256(path.encode()).hexdigest() + ("/" if deep else "")


def _make_item(place: Place, noted: float, version: str) -> dict[str, dict[str, Any]]:
    return {
        "storage": {"N": str(place.storage_id)},
        "folder": {"S": _make_key(place.path, place.deep)},
        "path": {"S": str(place.path)},
        "deep": {"BOOL": place.deep},
        "noted": {"N": repr(noted)},
        "version": {"S": version},
    }


def _write(requests: list[dict[str, Any]]) -> None:
    """Write at most MOST_PUTS; RecordsUnavailable when the engine puts some off again and again."""
    table = IndexMarkRecord.Meta.table_name
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(0.02 * 2**attempt)
        with translate_errors():
            answer = get_connection(IndexMarkRecord).client.batch_write_item(RequestItems={table: requests})
        requests = answer.get("UnprocessedItems", {}).get(table, [])
        if not requests:
            return
    raise RecordsUnavailable


def list_all(limit: int) -> list[Mark]:
    """At most `limit` marks, of all storages."""
    return _read("scan", limit)


def list_of(storage_id: int, limit: int) -> list[Mark]:
    """At most `limit` marks of one storage."""
    key = {"KeyConditionExpression": "#s = :s", "ExpressionAttributeNames": {"#s": "storage"}}
    return _read("query", limit, **key, ExpressionAttributeValues={":s": {"N": str(storage_id)}})


def _read(call: str, limit: int, **arguments: Any) -> list[Mark]:
    """The records themselves: a model of each would take longer than all that a search does beside."""
    found: list[Mark] = []
    arguments |= {"TableName": IndexMarkRecord.Meta.table_name, "ConsistentRead": True}
    while len(found) < limit:
        with translate_errors():
            read = getattr(get_connection(IndexMarkRecord).client, call)
            answer = read(**arguments, Limit=limit - len(found))
        found += map(_make_mark, answer["Items"])
        if "LastEvaluatedKey" not in answer:
            break
        arguments["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    return found


def _make_mark(item: dict[str, dict[str, Any]]) -> Mark:
    return Mark(
        int(item["storage"]["N"]),
        item["path"]["S"],
        item["deep"]["BOOL"],
        float(item["noted"]["N"]),
        item["version"]["S"],
    )


def delete(marks: Sequence[Mark]) -> None:
    """Delete marks that were not noted anew since they were read."""
    left = [*{(mark.storage_id, _make_key(mark.path, mark.deep)): mark for mark in marks}.values()]
    for start in range(0, len(left), MOST_DELETES):
        _delete_unchanged(left[start : start + MOST_DELETES])


def _delete_unchanged(marks: Sequence[Mark]) -> None:
    """In one transaction, from which those are left out whose condition does not hold."""
    while marks:
        try:
            with translate_errors(), transaction(IndexMarkRecord) as write:
                for mark in marks:
                    record = IndexMarkRecord(mark.storage_id, _make_key(mark.path, mark.deep))
                    write.delete(record, condition=IndexMarkRecord.version == mark.version)
            return
        except Conflict as conflict:
            if not any(conflict.failed):
                raise RecordsUnavailable from conflict  # it met another transaction: worth a retry
            marks = [mark for mark, failed in zip(marks, conflict.failed, strict=True) if not failed]


def delete_of(storage_id: int) -> None:
    """Delete all marks of a storage."""
    for marks in _iter_chunks(storage_id):
        keys = [{"storage": {"N": str(storage_id)}, "folder": {"S": _make_key(one.path, one.deep)}} for one in marks]
        _write([{"DeleteRequest": {"Key": key}} for key in keys])


def _iter_chunks(storage_id: int) -> Iterator[list[Mark]]:
    while marks := list_of(storage_id, MOST_PUTS):
        yield marks
