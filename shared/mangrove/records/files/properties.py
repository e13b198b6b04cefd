"""Dead WebDAV properties: what clients keep beside files and folders (RFC 4918, 4).

A record for each entry that has any, all of one folder together; beside it one for the folder, by which the folders
below a path are found. Paths are those inside a storage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256

from pynamodb.attributes import JSONAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import DoesNotExist

from mangrove.core.paths import TreePath
from mangrove.records.files.path_keys import make_key, make_prefix
from mangrove.records.store.base import Conflict, Record, TableMeta, retry_on_conflict, table_name, translate_errors

Values = Mapping[str, str]  # `{namespace}name` → the element as XML
LARGEST_AT_ONCE = 8 << 20  # characters of the properties of a folder that are read in one go
ITSELF = "."  # the name under which the root of a storage has its own


class PropertyRecord(Record):
    """`folder`: see `_make_folder_key`; `values`: of an entry; None for a folder that may have some."""

    class Meta(TableMeta):
        table_name = table_name("properties")

    folder = UnicodeAttribute(hash_key=True)
    name = UnicodeAttribute(range_key=True)
    path = UnicodeAttribute()
    values = JSONAttribute(null=True)
    version = VersionAttribute()


def _make_folder_key(storage_id: int, folder: TreePath) -> str:
    """Of any length of path."""
    return f"{storage_id}#{sha256(folder.encode()).hexdigest()}"


def _make_name(path: TreePath) -> str:
    return make_key(path.name) if path != "/" else ITSELF


def get(storage_id: int, path: TreePath) -> Values:
    """The properties of an entry."""
    record = _find(storage_id, path)
    return {} if record is None else record.values or {}


def find_in(storage_id: int, folder: TreePath) -> dict[str, Values] | None:
    """The properties of all entries of a folder that have any, by their names; None where these are very many."""
    key = _make_folder_key(storage_id, folder)
    found: dict[str, Values] = {}
    weight = 0
    with translate_errors():
        for record in PropertyRecord.query(key, consistent_read=True):
            values = record.values or {}
            weight += sum(map(len, values.values()))
            if weight > LARGEST_AT_ONCE:
                return None
            if record.name != ITSELF:
                found[TreePath(record.path).name] = values
    return found


def get_many(storage_id: int, folder: TreePath, names: Collection[str]) -> dict[str, Values]:
    """The properties of some entries of a folder, by their names."""
    return {name: values for name in names if (values := get(storage_id, folder / name))}


@retry_on_conflict
def put(storage_id: int, path: TreePath, values: Values) -> None:
    """Replace the properties of an entry."""
    record = _find(storage_id, path)
    with translate_errors():
        if not values:
            if record is not None:
                record.delete()
            return
        if record is None:
            _note_folder(storage_id, path.parent)
            record = PropertyRecord(_make_folder_key(storage_id, path.parent), _make_name(path), path=str(path))
        record.values = dict(values)
        record.save()


def _note_folder(storage_id: int, folder: TreePath) -> None:
    record = PropertyRecord(str(storage_id), make_key(str(folder)), path=str(folder))
    try:
        with translate_errors():
            record.save()
    except Conflict:
        pass  # it is known


def copy(storage_id: int, path: TreePath, target_id: int, target: TreePath) -> None:
    """Give what an entry, and all below it, has to the entry `target`, which loses what it had."""
    found = list(_iter_all(storage_id, path))
    remove(target_id, target)
    for record in found:
        inner = TreePath(record.path).below(path)
        put(target_id, target / inner if inner != "/" else target, record.values or {})


def remove(storage_id: int, path: TreePath) -> None:
    """Forget what an entry, and all below it, has."""
    for record in list(_iter_all(storage_id, path)):
        _delete(record)
    for record in _find_folders(storage_id, path):
        _delete(record)


def _delete(record: PropertyRecord) -> None:
    try:
        with translate_errors():
            record.delete()
    except Conflict:
        pass  # written anew meanwhile: of another entry by now


def _iter_all(storage_id: int, path: TreePath) -> Iterator[PropertyRecord]:
    own = _find(storage_id, path)
    if own is not None:
        yield own
    for folder in _find_folders(storage_id, path):
        key = _make_folder_key(storage_id, TreePath(folder.path))
        with translate_errors():
            yield from [one for one in PropertyRecord.query(key, consistent_read=True) if one.name != ITSELF]


def _find_folders(storage_id: int, path: TreePath) -> list[PropertyRecord]:
    """The folder at a path and those below it, as far as they may have properties."""
    condition = PropertyRecord.name.startswith(make_prefix(str(path)))
    with translate_errors():
        found = list(PropertyRecord.query(str(storage_id), condition, consistent_read=True))
    return [record for record in found if TreePath(record.path).within(path)]


def _find(storage_id: int, path: TreePath) -> PropertyRecord | None:
    with translate_errors():
        try:
            return PropertyRecord.get(
                _make_folder_key(storage_id, path.parent), _make_name(path), consistent_read=True
            )  # fmt: skip
        except DoesNotExist:
            return None
