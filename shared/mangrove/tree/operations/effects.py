"""The effects of a change on its entries, for every storage that shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.chunked import iterate_chunked
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import is_part
from mangrove.records.index_changes import MAX_NAMES_PER_CHANGE, ChangeKind, IndexChange, IndexedName
from mangrove.tree.mount_table import FolderScope, MountTable
from mangrove.tree.mounts import Mount, Mounts, StoragePath

MAX_LISTED_NAMES = 2_000  # below a folder that came back; the update of the index reads a larger one
MAX_LISTING_SECONDS = 2.0  # for them


@dataclass(slots=True)
class Effect:
    """The effect of a change on an entry."""

    storage_path: StoragePath
    entry: Entry | None = None  # None if it has to be looked up
    source: StoragePath | None = None  # the former path of a folder's content
    is_move: bool = False  # the content has left `source`
    replaces: bool = False  # the entry may have existed before, so it is looked up first
    is_gone: bool = False
    is_unknown: bool = False  # the content of the folder
    changed_by: int | None = None  # the id of the user who made the change
    is_deep: bool = False  # with `is_unknown`: including everything below
    is_restored: bool = False  # with `is_unknown`: a folder that came back, whose names are logged if they are few
    files: Sequence[Entry] = ()  # of a folder, instead of an entry: files that exist in it now


def _get_table() -> MountTable:
    return runtime.get(Mounts).table


def _read(scope: FolderScope) -> IndexChange:
    """Return the change that requests a read of a folder."""
    return IndexChange(scope.storage_id, ChangeKind.READ, scope.path, scope.deep)


async def expand_replacement(effect: Effect) -> list[Effect]:
    """Return the effects of a folder that may replace another one: the result of merging them is unknown."""
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
    """Return the changes of all storages that show the entry."""
    storage_path = effect.storage_path
    if effect.files:
        return await _describe_files(storage_path, effect.files, effect.changed_by)
    if effect.is_restored:
        names = await _list_below(storage_path)
        if names is not None:
            return [change async for name in iterate_chunked(names) for change in await describe_effect(name)]
    if effect.is_unknown:
        storage_id = storage_path.mount.storage.id
        return [
            _read(scope) for scope in await _get_table().find_appearances(storage_id, storage_path.path, effect.is_deep)
        ]
    if effect.source is not None:
        return await _describe_folder(storage_path, effect.source, effect.is_move)
    change = await _describe_name(storage_path, effect.entry, effect.is_gone, effect.changed_by)
    changes = [change]
    if storage_path.path != "/":
        changes += await _describe_elsewhere(storage_path, effect.changed_by)
        if change.removed or any(entry.is_dir for entry in change.entries):
            changes += await _describe_below(storage_path)
    return changes


async def _list_below(root: StoragePath) -> list[Effect] | None:
    """Return the effects of all names below a folder; None if they are too many to list now, or cannot be listed.

    A search hides what is below a name that was removed a moment ago, until it finds the names in the log again.
    """
    effects, folders, count = list[Effect](), [root], 0
    try:
        async with asyncio.timeout(MAX_LISTING_SECONDS):
            for folder in folders:  # which grows
                files: list[Entry] = []
                async for batch in folder.driver.list(folder.path):
                    count += len(batch)
                    if count > MAX_LISTED_NAMES:
                        return None
                    files += (entry for entry in batch if not entry.is_dir)
                    children = [(folder.child(entry.name), entry) for entry in batch if entry.is_dir]
                    effects += (Effect(child, entry) for child, entry in children)
                    folders += (child for child, entry in children if not entry.is_link)
                if files:
                    effects.append(Effect(folder, files=files))
    except (Problem, TimeoutError):
        return None
    return effects


async def _describe_files(folder: StoragePath, files: Sequence[Entry], changed_by: int | None) -> list[IndexChange]:
    if await _find_elsewhere(folder):
        effects = [Effect(folder.child(file.name), file, changed_by=changed_by) for file in files]
        return [change for effect in effects for change in await describe_effect(effect)]
    mount, path = folder.mount, folder.path
    names = [
        IndexedName(file.name, False, file.size, file.modified, changed_by)
        for file in files
        if _is_indexed_name(mount, path, file.name)
    ]
    return [
        IndexChange(
            mount.storage.id, ChangeKind.NAMES, str(path), entries=tuple(names[start : start + MAX_NAMES_PER_CHANGE])
        )
        for start in range(0, len(names), MAX_NAMES_PER_CHANGE)
    ]


async def _describe_name(
    storage_path: StoragePath, entry: Entry | None, is_gone: bool = False, changed_by: int | None = None
) -> IndexChange:
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
    changer = None if entry.is_dir else changed_by
    indexed_name = IndexedName(name, entry.is_dir, entry.size, entry.modified, changer)
    return IndexChange(storage_id, ChangeKind.NAMES, folder, entries=(indexed_name,))


async def _describe_elsewhere(storage_path: StoragePath, changed_by: int | None) -> list[IndexChange]:
    """Return the effects in other storages that show the entry.

    A folder in which the entry may have another name is read again.
    """
    changes = []
    scopes = await _find_elsewhere(storage_path.parent)
    has_same_names = _have_same_names(storage_path.mount, scopes)
    for scope in scopes:
        mount = _get_table().by_id.get(scope.storage_id)
        try:
            if mount is None or not has_same_names:
                changes.append(_read(scope))
                continue
            shown_path = StoragePath(await mount.get_driver(), TreePath(scope.path) / storage_path.path.name, mount)
            changes.append(await _describe_name(shown_path, None, changed_by=changed_by))
        except Problem:
            changes.append(_read(scope))
    return changes


async def _describe_below(storage_path: StoragePath) -> list[IndexChange]:
    """Return the changes of other storages that show a folder under another name: it is read again."""
    name = storage_path.path.name
    same_names = {
        (scope.storage_id, TreePath(scope.path) / name) for scope in await _find_elsewhere(storage_path.parent)
    }
    changes = []
    for scope in await _find_elsewhere(storage_path, deep=True):
        path = TreePath(scope.path)
        if any(scope.storage_id == id and path.within(same_name) for id, same_name in same_names):
            continue
        if path != "/":
            entry = IndexedName(path.name, True, 0, 0.0)
            folder = str(path.parent)
            changes.append(
                IndexChange(scope.storage_id, ChangeKind.NAMES, folder, entries=(entry,), removed=(path.name,))
            )
        changes.append(_read(FolderScope(scope.storage_id, scope.path, True)))
    return changes


async def _find_elsewhere(folder: StoragePath, deep: bool = False) -> list[FolderScope]:
    """Return the folders in which other storages show a folder."""
    table = _get_table()
    if not table.showing:
        return []
    own_key = folder.mount.storage.id, str(folder.path)
    scopes = await table.find_appearances(own_key[0], folder.path, deep)
    return sorted(scope for scope in scopes if (scope.storage_id, scope.path) != own_key)


def _have_same_names(mount: Mount, scopes: Iterable[FolderScope]) -> bool:
    """True if all these storages show the names of others unchanged."""
    encoding_ids = {showing.storage.id for showing in _get_table().showing if showing.redirects is None}
    return encoding_ids.isdisjoint({mount.storage.id, *(scope.storage_id for scope in scopes)})


async def _describe_folder(target: StoragePath, source: StoragePath, is_move: bool) -> list[IndexChange]:
    """Return the changes of a folder that was moved or copied with all its content, in all storages that show it."""
    name_change = await _describe_name(target, None)
    is_ignored = any(_is_ignored(end.mount, end.path) for end in (source, target))
    entries = () if is_ignored else name_change.entries
    changes = _describe_transfer(source.mount, [source.path], [target.path], entries, is_move)
    if not changes:
        changes = [name_change, IndexChange(name_change.storage_id, ChangeKind.READ, str(target.path), True)]
        if is_move:
            changes.append(await _describe_name(source, None))
    changes += await _describe_transfer_elsewhere(target, source, entries, is_move)
    for end in (source, target) if is_move else (target,):
        changes += await _describe_below(end)
    return changes


async def _describe_transfer_elsewhere(
    target: StoragePath, source: StoragePath, entries: tuple[IndexedName, ...], is_move: bool
) -> list[IndexChange]:
    changes: list[IndexChange] = []
    ends = [(end.path.name, await _find_elsewhere(end.parent)) for end in (source, target)]
    scopes = [scope for _, end_scopes in ends for scope in end_scopes]
    has_same_names = _have_same_names(source.mount, scopes)
    for id in dict.fromkeys(scope.storage_id for scope in scopes):
        mount = _get_table().by_id.get(id)
        sources, targets = (
            [TreePath(scope.path) / name for scope in end_scopes if scope.storage_id == id] for name, end_scopes in ends
        )
        transfer: list[IndexChange] = []
        if mount is not None and has_same_names:
            transfer = _describe_transfer(mount, sources, targets, entries, is_move)
        if not transfer:
            transfer = [IndexChange(id, ChangeKind.READ, str(path), True) for path in targets]
            transfer += [IndexChange(id, ChangeKind.READ, str(path.parent)) for path in (*sources, *targets)]
        changes += transfer
    return changes


def _describe_transfer(
    mount: Mount,
    sources: Sequence[TreePath],
    targets: Sequence[TreePath],
    entries: tuple[IndexedName, ...],
    is_move: bool,
) -> list[IndexChange]:
    """Return the change of a storage that shows the folder once at both ends; none for another storage."""
    if not entries or len(sources) != 1 or len(targets) != 1:
        return []
    redirects = mount.redirects
    if redirects is not None and any(len(redirects.find_targets(path)) != 1 for path in (*sources, *targets)):
        return []  # it merges several folders
    kind = ChangeKind.MOVE if is_move else ChangeKind.COPY
    return [IndexChange(mount.storage.id, kind, str(sources[0]), target=str(targets[0]), entries=entries)]


async def find_logged_scopes(touched: Iterable[tuple[StoragePath, bool]]) -> set[FolderScope]:
    """Return the folders to log: in all storages that show a changed entry, and whose names are in the index."""
    if not is_logged():
        return set()
    table = _get_table()
    scopes: set[FolderScope] = set()
    for storage_path, deep in touched:
        scopes |= await table.find_appearances(storage_path.mount.storage.id, storage_path.path, deep)
    return {scope for scope in scopes if _is_indexed(table.by_id.get(scope.storage_id), TreePath(scope.path))}


def is_logged() -> bool:
    """True if changes are written for the search index."""
    return configuration.is_loaded() and configuration.cached().settings.marks_changes


def is_indexed_change(change: IndexChange) -> bool:
    """True if the index has the names of a change."""
    mount = _get_table().by_id.get(change.storage_id)
    path = TreePath(change.target or change.path)
    if mount is None or not _is_indexed(mount, path):
        return False
    names = change.removed + tuple(entry.name for entry in change.entries)
    return change.kind is not ChangeKind.NAMES or any(_is_indexed_name(mount, path, name) for name in names)


def _is_indexed_name(mount: Mount, folder: TreePath, name: str) -> bool:
    return not is_part(name) and not (_get_ignored_paths() and _is_ignored(mount, folder / name))


def _is_indexed(mount: Mount | None, path: TreePath) -> bool:
    if mount is None or mount.storage.disable_index:
        return False
    if mount.driver is not None and not mount.driver.config.is_indexed:
        return False
    return not _is_ignored(mount, path)


def _is_ignored(mount: Mount, path: TreePath) -> bool:
    ignored_paths = _get_ignored_paths()
    return bool(ignored_paths) and any((mount.path / path).within(folder) for folder in ignored_paths)


def _get_ignored_paths() -> Sequence[TreePath]:
    return configuration.cached().settings.ignore_paths
