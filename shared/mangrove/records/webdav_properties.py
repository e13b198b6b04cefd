"""Dead WebDAV properties: data that clients store with files and folders (RFC 4918, 4), within a quota per user.

There is a record for each entry that has properties, grouped by folder, and one for the folder, which finds the folders
below a path. One more for each user counts the bytes. Paths are those inside a storage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from itertools import chain

from pynamodb.attributes import JSONAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.transactions import TransactWrite

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.records.path_keys import make_key, make_prefix
from mangrove.records.store.base import (
    Record,
    RecordConflict,
    TableMeta,
    retry_on_conflict,
    table_name,
    transaction,
    translate_errors,
)
from mangrove.records.store.empty_partitions import Partition, announce_records

Values = Mapping[str, str]  # the element as XML, by `{namespace}name`
MAX_PROPERTIES_PER_ENTRY = 64
MAX_BYTES_PER_ENTRY = 64 << 10
MAX_BYTES_PER_USER = 10 << 20
MAX_CHARACTERS_PER_FOLDER_READ = 4 << 20  # of the properties of a folder that are read together
ENTRIES_PER_READ = 100  # whose properties are read together in a folder with more
ITSELF = "."  # the name of the root of a storage
USAGE = "usage"  # the name of the record that counts a user's bytes


class PropertyQuotaExceeded(Problem):
    """An entry, or a user, has the maximum size of properties."""

    text = "no more properties can be stored"


class PropertyRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("properties")

    folder = UnicodeAttribute(hash_key=True)  # see `_make_folder_key`
    name = UnicodeAttribute(range_key=True)
    path = UnicodeAttribute()
    values = JSONAttribute(null=True)  # None for a folder whose entries may have some
    user_id = NumberAttribute(null=True)  # the user whose quota is charged for the values
    size = NumberAttribute(null=True)  # bytes of the values
    version = VersionAttribute()


class PropertyUsage(Record):
    class Meta(TableMeta):
        table_name = table_name("properties")

    folder = UnicodeAttribute(hash_key=True)  # `user#<id>`
    name = UnicodeAttribute(range_key=True, default=USAGE)
    size = NumberAttribute()  # bytes of all values that are charged to the user's quota


def _make_folder_key(storage_id: int, folder: TreePath) -> str:
    """Return the key of a folder with a path of any length."""
    return f"{storage_id}#{sha256(folder.encode()).hexdigest()}"


def _make_name(path: TreePath) -> str:
    return make_key(path.name) if path != "/" else ITSELF


def measure(values: Values) -> int:
    """Return the bytes that properties take."""
    return sum(len(name.encode()) + len(element.encode()) for name, element in values.items())


def _has_none(storage_id: int) -> bool:
    """Return True if no entry of a storage has properties: it has no record of a folder whose entries have some."""
    return Partition(PropertyRecord, str(storage_id)).is_empty()


def knows_none(storage_id: int) -> bool:
    """Return True if it is known, without a call, that no entry of a storage has properties."""
    return Partition(PropertyRecord, str(storage_id)).is_known_empty()


def get(storage_id: int, path: TreePath) -> Values:
    """Return the properties of an entry."""
    record = _find(storage_id, path)
    return {} if record is None else record.values or {}


def find_in(storage_id: int, folder: TreePath) -> dict[str, Values] | None:
    """Return the properties of all entries of a folder by their names, in one query; None if they exceed
    MAX_CHARACTERS_PER_FOLDER_READ.
    """
    if _has_none(storage_id):
        return {}
    key = _make_folder_key(storage_id, folder)
    properties: dict[str, Values] = {}
    size = 0
    with translate_errors():
        for record in PropertyRecord.query(key, consistent_read=True):
            values = record.values or {}
            size += sum(map(len, values.values()))
            if size > MAX_CHARACTERS_PER_FOLDER_READ:
                return None
            if record.name != ITSELF:
                properties[TreePath(record.path).name] = values
    return properties


def get_many(storage_id: int, folder: TreePath, names: Collection[str]) -> dict[str, Values]:
    """Return the properties of at most ENTRIES_PER_READ entries of a folder by their names, in one call."""
    if _has_none(storage_id):
        return {}
    key = _make_folder_key(storage_id, folder)
    with translate_errors():
        records = list(
            PropertyRecord.batch_get([(key, _make_name(folder / name)) for name in names], consistent_read=True)
        )
    return {TreePath(record.path).name: record.values for record in records if record.values}


def put(storage_id: int, path: TreePath, values: Values, user_id: int) -> None:
    """Replace the properties of an entry and charge the user's quota. Raise PropertyQuotaExceeded."""
    size = measure(values)
    if size > MAX_BYTES_PER_ENTRY:
        raise PropertyQuotaExceeded(f"the properties of one entry may have {MAX_BYTES_PER_ENTRY} bytes")
    if len(values) > MAX_PROPERTIES_PER_ENTRY:
        raise PropertyQuotaExceeded(f"one entry may have {MAX_PROPERTIES_PER_ENTRY} properties")
    _put(storage_id, path, values, user_id, size)


@retry_on_conflict
def _put(storage_id: int, path: TreePath, values: Values, user_id: int, size: int) -> None:
    record = _find(storage_id, path)
    changes = _make_changes(record)
    if not values:
        if record is not None:
            _write(changes, record, is_removed=True)
        return
    if record is None:
        _add_folder(storage_id, path.parent)
        record = PropertyRecord(_make_folder_key(storage_id, path.parent), _make_name(path), path=str(path))
    record.values, record.user_id, record.size = dict(values), user_id, size
    changes[user_id] = changes.get(user_id, 0) + size
    _write(changes, record)


def _make_changes(record: PropertyRecord | None) -> dict[int, int]:
    """Return the change in bytes of the usage of a record's user when its values are deleted."""
    if record is None or record.user_id is None:  # an older version did not count
        return {}
    return {int(record.user_id): -int(record.size or 0)}


def _write(changes: Mapping[int, int], record: PropertyRecord, is_removed: bool = False) -> None:
    """Save or remove a record and count its bytes, both or nothing. Raise RecordConflict or PropertyQuotaExceeded."""
    try:
        with translate_errors(), transaction(PropertyRecord) as write:
            if is_removed:
                write.delete(record)
            else:
                write.save(record)
            for user_id, change in changes.items():
                _count(write, user_id, change)
    except RecordConflict as conflict:
        if any(conflict.failed[1:]):
            raise PropertyQuotaExceeded(
                f"the properties that one user stores may have {MAX_BYTES_PER_USER} bytes"
            ) from None
        raise


def _count(write: TransactWrite, user_id: int, change: int) -> None:
    free: Condition = PropertyUsage.size.does_not_exist() | (PropertyUsage.size <= MAX_BYTES_PER_USER - change)
    usage = PropertyUsage(f"user#{user_id}", USAGE)
    write.update(usage, actions=[PropertyUsage.size.add(change)], condition=free if change > 0 else None)


def read_usage(user_id: int) -> int:
    """Return the bytes that are charged to a user's quota."""
    usage = PropertyUsage.find(f"user#{user_id}", USAGE)
    return 0 if usage is None else int(usage.size)


def _add_folder(storage_id: int, folder: TreePath) -> None:
    record = PropertyRecord(str(storage_id), make_key(str(folder)), path=str(folder))
    try:
        with announce_records([Partition(PropertyRecord, str(storage_id))]), translate_errors():
            record.save()
    except RecordConflict:
        pass  # it is known


def copy(storage_id: int, path: TreePath, target_id: int, target: TreePath, user_id: int) -> None:
    """Copy the properties of an entry and everything below it to the entry `target`, replacing its own.

    If the user's quota has no room for all of it, raise PropertyQuotaExceeded and change nothing.
    """
    size = 0
    for record in _iter_all(storage_id, path):
        size += measure(record.values or {})
        if size > MAX_BYTES_PER_USER:
            break
    if size and read_usage(user_id) + size > MAX_BYTES_PER_USER:
        raise PropertyQuotaExceeded(f"the properties that one user stores may have {MAX_BYTES_PER_USER} bytes")
    remove(target_id, target)
    for record in _iter_all(storage_id, path):
        put(target_id, _make_target(record, path, target), record.values or {}, user_id)


def _make_target(record: PropertyRecord, path: TreePath, target: TreePath) -> TreePath:
    inner = TreePath(record.path).below(path)
    return target / inner if inner != "/" else target


def move(storage_id: int, path: TreePath, target_id: int, target: TreePath) -> None:
    """Move the properties of an entry and everything below it to the entry `target`, replacing its own.

    Quotas do not change.
    """
    remove(target_id, target)
    for record in _iter_all(storage_id, path):
        _move(record, target_id, _make_target(record, path, target))
    remove(storage_id, path)


def _move(record: PropertyRecord, target_id: int, target: TreePath) -> None:
    moved = PropertyRecord(
        _make_folder_key(target_id, target.parent), _make_name(target), path=str(target), values=record.values,
        user_id=record.user_id, size=record.size,
    )  # fmt: skip
    _add_folder(target_id, target.parent)
    try:
        with translate_errors(), transaction(PropertyRecord) as write:
            write.delete(record)
            write.save(moved)
    except RecordConflict:
        pass  # written again meanwhile: it belongs to another entry now


def remove(storage_id: int, path: TreePath) -> None:
    """Remove the properties of an entry and everything below it."""
    for record in chain(_iter_all(storage_id, path), _find_folders(storage_id, path)):
        try:
            _write(_make_changes(record), record, is_removed=True)
        except RecordConflict:
            pass  # written again meanwhile: it belongs to another entry now


def _iter_all(storage_id: int, path: TreePath) -> Iterator[PropertyRecord]:
    own = _find(storage_id, path)
    if own is not None:
        yield own
    for folder in _find_folders(storage_id, path):
        key = _make_folder_key(storage_id, TreePath(folder.path))
        with translate_errors():
            yield from (record for record in PropertyRecord.query(key, consistent_read=True) if record.name != ITSELF)


def _find_folders(storage_id: int, path: TreePath) -> list[PropertyRecord]:
    """Return the folder at a path and those below it, as far as they may have properties."""
    if _has_none(storage_id):
        return []
    condition = PropertyRecord.name.startswith(make_prefix(str(path)))
    with translate_errors():
        records = list(PropertyRecord.query(str(storage_id), condition, consistent_read=True))
    return [record for record in records if TreePath(record.path).within(path)]


def _find(storage_id: int, path: TreePath) -> PropertyRecord | None:
    if _has_none(storage_id):
        return None
    return PropertyRecord.find(_make_folder_key(storage_id, path.parent), _make_name(path))
