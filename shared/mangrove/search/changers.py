"""The user who changed a file last through the service, as the index knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mangrove.configuration import users
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.base import Entry
from mangrove.search.calls import DamagedSegment, TablesLost
from mangrove.search.columns import is_same_time, make_columns, read_names
from mangrove.search.find import require_search
from mangrove.search.index import search_index
from mangrove.search.names import encode_name
from mangrove.search.scope import is_indexed
from mangrove.search.statements import SearchSource, find_unhidden
from mangrove.search.tables import SearchedStorage
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import find_entry
from mangrove.tree.mounts import Mount

_IN_TABLES = """
SELECT size, modified, changed_by FROM names JOIN folders ON folders.base = names.base AND number = folder
WHERE names.base = ? AND path = ? AND coalesce(name, folded) = ? AND NOT is_dir
"""
_FIND_IDS = """
SELECT id FROM folders WHERE base = ? AND path = ? AND id IS NOT NULL
UNION ALL SELECT id FROM read_parquet(?) AS folders WHERE path = ? AND {}
"""
_IS_HIDDEN = "SELECT 1 FROM hidden_names WHERE base = ? AND folder = ? AND name = ?"
_IN_SEGMENTS = f"""
SELECT size, modified, changed_by FROM {read_names()}
WHERE folder = ? AND coalesce(name, folded) = ? AND NOT is_dir
"""


async def find_changer(access: PathAccess) -> str:
    """Return the name of the user who changed a file last.

    Return "" for a folder, and if it is not known: no user changed the file through the service, another program
    changed it since, the account was removed, or the index does not have it.

    Raise NotReadable, EntryNotFound, the problems of a storage, SearchUnavailable or SearchTooSlow.
    """
    require_search(access.tree.settings)
    storage_path = await access.require_read().locate("")
    entry = await find_entry(storage_path)
    if entry is None:
        raise EntryNotFound
    if entry.is_dir or storage_path.path == "/" or not is_indexed(storage_path.mount.storage, access.tree.settings):
        return ""
    try:
        id = await _find_id(storage_path.mount, storage_path.path, entry)
    except (DamagedSegment, TablesLost):  # the next search loads or builds the index again
        return ""
    user = None if id is None else await users.find_by_id(id)
    return "" if user is None else user.username


async def _find_id(mount: Mount, path: TreePath, entry: Entry) -> int | None:
    """Return the id of the user whose change left the file as it is now."""
    opened = await search_index().tables.open([SearchedStorage(mount.storage.id, mount.path, (path.parent,))])
    (source,) = opened.places
    key = encode_name(path.parent), encode_name(path.name)
    rows = await _select(_IN_TABLES, source.base, *key) or await _select_stored(source, *key)
    shown = make_columns([entry])
    (size,), (modified,) = shown.sizes, shown.modified
    return next((row[2] for row in rows if row[0] == size and is_same_time(row[1], modified)), None)


async def _select_stored(source: SearchSource, folder: str, name: str) -> Sequence[tuple[Any, ...]]:
    """Return the row of the segments for a file, unless the tables replace it."""
    segments = source.segments
    if segments is None or not segments.folders or await _select(_IS_HIDDEN, source.base, folder, name):
        return []
    unhidden = find_unhidden(source.base)
    files, name_files = ([str(file) for file in stored] for stored in (segments.folders, segments.names))
    ids = await _select(_FIND_IDS.format(unhidden.text), source.base, folder, files, folder, *unhidden.parameters)
    return [row for (id,) in ids for row in await _select(_IN_SEGMENTS, name_files, id, name)]


async def _select(text: str, *parameters: Any) -> Sequence[tuple[Any, ...]]:
    return await search_index().database.run(text, parameters)
