"""The effects of a change on its entries, for every storage that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import is_part
from mangrove.records.files.index_changes import ChangeKind, IndexChange, IndexedName
from mangrove.tree.mounts import Mount, Mounts, StoragePath
from mangrove.tree.places import Place, find_all_places


@dataclass(slots=True)
class Effect:
    """The effect of a change on an entry.

    `entry`: None where it has to be looked up. `source`: the former place of a folder's content; `is_move`: True if the
    content has left that place.
    """

    storage_path: StoragePath
    entry: Entry | None = None
    source: StoragePath | None = None
    is_move: bool = False
    replaces: bool = False  # what is there already, which has to be looked at before
    is_gone: bool = False
    is_unknown: bool = False  # what the folder `storage_path` holds; `is_deep`: and all below it
    is_deep: bool = False


async def look_ahead(effect: Effect) -> list[Effect]:
    """Return the effects of a folder that replaces another one: the way in which the two are joined is not known."""
    if not effect.replaces or effect.source is None:
        return [effect]
    try:
        await effect.storage_path.driver.stat(effect.storage_path.path)
    except EntryNotFound:
        return [effect]
    except Problem:
        pass
    unknown = Effect(effect.storage_path, is_unknown=True, is_deep=True)
    return [Effect(effect.storage_path), unknown, *([Effect(effect.source)] if effect.is_move else ())]


async def describe_effect(effect: Effect) -> list[IndexChange]:
    """The changes of all storages that show the entry."""
    own = Place(effect.storage_path.mount.storage.id, str(effect.storage_path.path), effect.is_deep)
    if effect.is_unknown:
        places = await find_all_places(own.storage_id, effect.storage_path.path, effect.is_deep)
        return [IndexChange(place.storage_id, ChangeKind.READ, place.path, place.deep) for place in places]
    if effect.source is not None:
        return await _describe_folder(effect.storage_path, effect.source, effect.is_move)
    changes = [await _describe_name(effect.storage_path, effect.entry, effect.is_gone)]
    if effect.storage_path.path != "/":
        changes += await _describe_elsewhere(effect.storage_path)
        if changes[0].removed or any(entry.is_dir for entry in changes[0].entries):
            changes += await _describe_below(effect.storage_path)
    return changes


async def _describe_name(storage_path: StoragePath, entry: Entry | None, is_gone: bool = False) -> IndexChange:
    folder, storage_id = str(storage_path.path.parent), storage_path.mount.storage.id
    if storage_path.path == "/":
        return IndexChange(storage_id, ChangeKind.READ, "/")
    name = storage_path.path.name
    try:
        if entry is None and not is_gone:
            entry = await storage_path.driver.stat(storage_path.path)
    except EntryNotFound:
        pass
    except Problem:
        return IndexChange(storage_id, ChangeKind.READ, folder)
    if entry is None:
        return IndexChange(storage_id, ChangeKind.NAMES, folder, removed=(name,))
    return IndexChange(storage_id, ChangeKind.NAMES, folder, entries=(_make_name(entry, name),))


def _make_name(entry: Entry, name: str) -> IndexedName:
    return IndexedName(name, entry.is_dir, entry.size, entry.modified)


async def _describe_elsewhere(storage_path: StoragePath) -> list[IndexChange]:
    """Return the effects in other storages that show the entry.

    If its name may be another one there, its folder is to be read.
    """
    changes = []
    places = await _find_elsewhere(storage_path.parent)
    are_alike = _have_own_names(storage_path.mount, places)
    for place in places:
        mount = runtime.get(Mounts).table.by_id.get(place.storage_id)
        read = IndexChange(place.storage_id, ChangeKind.READ, place.path)
        try:
            if mount is None or not are_alike:
                changes.append(read)
                continue
            other = StoragePath(await mount.get_driver(), TreePath(place.path) / storage_path.path.name, mount)
            changes.append(await _describe_name(other, None))
        except Problem:
            changes.append(read)
    return changes


async def _describe_below(storage_path: StoragePath) -> list[IndexChange]:
    """Return the folders of other storages that show the content of a folder under another name: they are read."""
    names = {
        (place.storage_id, TreePath(place.path) / storage_path.path.name)
        for place in await _find_elsewhere(storage_path.parent)
    }
    changes = []
    for place in await _find_elsewhere(storage_path, deep=True):
        path = TreePath(place.path)
        if not any(place.storage_id == id and path.within(name) for id, name in names):
            if path != "/":
                entry = IndexedName(path.name, True, 0, 0.0)
                folder = str(path.parent)
                changes.append(
                    IndexChange(place.storage_id, ChangeKind.NAMES, folder, False, "", (entry,), (path.name,))
                )
            changes.append(IndexChange(place.storage_id, ChangeKind.READ, str(path), True))
    return changes


async def _find_elsewhere(folder: StoragePath, deep: bool = False) -> list[Place]:
    """The places at which other storages show a folder."""
    if not runtime.get(Mounts).table.showing:
        return []
    own = folder.mount.storage.id, str(folder.path)
    places = await find_all_places(own[0], folder.path, deep)
    return sorted(place for place in places if (place.storage_id, place.path) != own)


def _have_own_names(mount: Mount, places: Iterable[Place]) -> bool:
    """True if none of these storages shows names of others in another form."""
    table = runtime.get(Mounts).table
    encoding = {one.storage.id for one in table.showing if one.redirects is None}
    return encoding.isdisjoint({mount.storage.id, *(place.storage_id for place in places)})


async def _describe_folder(target: StoragePath, source: StoragePath, is_move: bool) -> list[IndexChange]:
    """A folder that moved, or was copied with all it holds, wherever it is shown."""
    named = await _describe_name(target, None)
    is_ignored = any(_is_ignored(storage_path.mount, storage_path.path) for storage_path in (source, target))
    is_known = bool(named.entries) and not is_ignored
    own = _describe_transfer(source.mount, [source.path], [target.path], named.entries if is_known else (), is_move)
    changes = own or [named, IndexChange(named.storage_id, ChangeKind.READ, str(target.path), True)]
    if is_move and not own:
        changes.append(await _describe_name(source, None))
    places = [await _find_elsewhere(storage_path.parent) for storage_path in (source, target)]
    are_alike = _have_own_names(source.mount, [*places[0], *places[1]])
    for id in dict.fromkeys(place.storage_id for place in (*places[0], *places[1])):
        mount = runtime.get(Mounts).table.by_id.get(id)
        sources, targets = (
            [TreePath(place.path) / storage_path.path.name for place in folders if place.storage_id == id]
            for folders, storage_path in zip(places, (source, target), strict=True)
        )
        elsewhere: list[IndexChange] = []
        if mount is not None and are_alike:
            elsewhere = _describe_transfer(mount, sources, targets, named.entries if is_known else (), is_move)
        if not elsewhere:
            elsewhere = [IndexChange(id, ChangeKind.READ, str(path), True) for path in targets]
            elsewhere += [IndexChange(id, ChangeKind.READ, str(path.parent)) for path in (*sources, *targets)]
        changes += elsewhere
    for storage_path in (source, target) if is_move else (target,):
        changes += await _describe_below(storage_path)
    return changes


def _describe_transfer(
    mount: Mount,
    sources: Sequence[TreePath],
    targets: Sequence[TreePath],
    entries: tuple[IndexedName, ...],
    is_move: bool,
) -> list[IndexChange]:
    """The change of a storage that shows the folder once at both ends; nothing where it is not as simple."""
    if not entries or len(sources) != 1 or len(targets) != 1:
        return []
    redirects = mount.redirects
    if redirects is not None and any(len(redirects.find_targets(path)) != 1 for path in (*sources, *targets)):
        return []  # it shows several folders as one
    kind = ChangeKind.MOVE if is_move else ChangeKind.COPY
    return [IndexChange(mount.storage.id, kind, str(sources[0]), target=str(targets[0]), entries=entries)]


async def find_logged(touched: Iterable[tuple[StoragePath, bool]]) -> set[Place]:
    """The places to be logged: of all storages that show what is touched, and whose names are in the index."""
    if not is_logged():
        return set()
    places: set[Place] = set()
    for storage_path, deep in touched:
        places |= await find_all_places(storage_path.mount.storage.id, storage_path.path, deep)
    table = runtime.get(Mounts).table
    return {place for place in places if _is_indexed(table.by_id.get(place.storage_id), TreePath(place.path))}


def is_logged() -> bool:
    """True if changes are written for the search index."""
    return configuration.is_loaded() and configuration.cached().settings.marks_changes


def is_indexed_change(change: IndexChange) -> bool:
    """True if the index has what a change tells of."""
    mount = runtime.get(Mounts).table.by_id.get(change.storage_id)
    path = TreePath(change.target or change.path)
    if mount is None or not _is_indexed(mount, path):
        return False
    names = change.removed + tuple(entry.name for entry in change.entries)
    return change.kind is not ChangeKind.NAMES or not all(
        is_part(name) or _is_ignored(mount, path / name) for name in names
    )


def _is_indexed(mount: Mount | None, path: TreePath) -> bool:
    if mount is None or mount.storage.disable_index:
        return False
    if mount.driver is not None and not mount.driver.config.is_indexed:
        return False
    return not _is_ignored(mount, path)


def _is_ignored(mount: Mount, path: TreePath) -> bool:
    ignored = configuration.cached().settings.ignore_paths
    return bool(ignored) and any((mount.path / path).within(folder) for folder in ignored)
