"""Changes by this service: cached listings are dropped, and the log of the search index records them.

Every change of a storage is made within a `StorageChange`:
`async with journal.move(source, target, …): await driver.move(…)`.

Before it, an intent records the folders in which something may change. If it cannot be written, RecordsUnavailable is
raised and nothing is changed. After it, the log records the present entries. An intent serves all changes of this
process in its folder. An intent that is not renewed any more belongs to a dead process: compaction then reads the
folder.

A change that cannot be logged at its end is logged later; this never turns a finished change into a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported
from mangrove.drivers.base import Entry
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.tree.callers import find_actor
from mangrove.tree.listing.listing import listings
from mangrove.tree.mount_table import FolderScope
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.change_log import ChangeLog
from mangrove.tree.operations.effects import (
    Effect,
    describe_effect,
    expand_replacement,
    find_logged_scopes,
    is_indexed_change,
)
from mangrove.tree.operations.effects import is_logged as is_logged


class Touched(NamedTuple):
    """A folder that is changed, alone or with everything below it."""

    storage_path: StoragePath
    deep: bool = False


class StorageChange:
    """A change of a storage in progress."""

    def __init__(self, forget: Callable[[], None], touched: Collection[Touched], in_bulk: bool = False) -> None:
        self._forget = forget  # drops the listings of the change, also if it was incomplete
        self._touched = touched
        self._in_bulk = in_bulk  # one of many, made by a task
        self._actor = find_actor()
        self._scopes: set[FolderScope] = set()
        self._has_begun = False
        self.effects: list[Effect] = []
        # folders to read if a task's change fails; without any, everything that the change affects is read
        self.doubtful: Sequence[StoragePath] = ()

    def put(self, storage_path: StoragePath, entry: Entry | None = None) -> None:
        """Record an entry that exists after the change; without `entry` it is looked up then."""
        self.effects.append(Effect(storage_path, entry))

    def put_files(self, folder: StoragePath, files: Sequence[Entry]) -> None:
        """Record files that exist in a folder after the change."""
        self.effects.append(Effect(folder, files=files))

    def remove(self, storage_path: StoragePath) -> None:
        """Record an entry that is removed by the change."""
        self.effects.append(Effect(storage_path, is_gone=True))

    def tidy(self, storage_path: StoragePath) -> None:
        """Record a folder that was removed if it was empty."""
        listings().forget_below(storage_path.mount.storage.id, storage_path.path)
        self.put(storage_path)

    def read(self, storage_path: StoragePath, *, deep: bool = False) -> None:
        """Record a folder whose content is unknown after the change."""
        self.effects.append(Effect(storage_path, is_unknown=True, is_deep=deep))

    def set_entry(self, entry: Entry) -> None:
        """Record the present entry of a change that has only one."""
        (effect,) = self.effects
        effect.entry = entry

    def set_moved(self, file: Entry) -> None:
        """Record a file that has another path now."""
        self.effects[-1].entry = file

    def set_moved_files(self, files: Mapping[int, Entry | None]) -> None:
        """Record the files of a `move_files` that have other paths now; those of other indexes are looked up."""
        for index, (old, new) in enumerate(zip(self.effects[::2], self.effects[1::2], strict=True)):
            old.is_gone, new.entry = index in files, files.get(index)

    def set_entries(self, entries: Sequence[Entry | None]) -> None:
        """Record the present entries of a change that only adds files; None for one that has to be looked up."""
        for effect, entry in zip(self.effects, entries, strict=True):
            effect.entry = entry

    async def begin(self) -> None:
        """Write an intent. Raise a Problem of the records if that fails: then nothing may be changed."""
        scopes = await find_logged_scopes(self._touched)
        if scopes:
            self.effects = [new for effect in self.effects for new in await expand_replacement(effect)]
            if self._in_bulk:
                scopes = runtime.get(ChangeLog).cover(scopes)
            await runtime.get(ChangeLog).begin(scopes)
        self._scopes, self._has_begun = scopes, True

    async def end(self, problem: BaseException | None = None) -> None:
        """Drop the listings, and log the change if it has started."""
        self._forget()
        if not self._has_begun or not self._scopes:
            return
        try:
            changes = await self._describe(problem)
        except BaseException:
            changes = [IndexChange(id, ChangeKind.READ, path, deep) for id, path, deep in self._scopes]
            await runtime.get(ChangeLog).end(self._scopes, changes, waits=False)
            raise
        await runtime.get(ChangeLog).end(self._scopes, changes, waits=not self._in_bulk)

    async def _describe(self, problem: BaseException | None) -> list[IndexChange]:
        changes: list[IndexChange] = []
        for effect in self._choose_effects(problem):
            # after a failure a file may be as another user left it
            effect.changed_by = (self._actor.id or None) if problem is None else None
            changes += await describe_effect(effect)
        return [change for change in changes if is_indexed_change(change)]

    def _choose_effects(self, problem: BaseException | None) -> list[Effect]:
        """Return the effects to log; after a failure only those that are looked up."""
        if problem is None:
            return self.effects
        reads = [Effect(storage_path, is_unknown=True, is_deep=deep) for storage_path, deep in self._touched]
        if self._in_bulk:
            doubtful = [Effect(storage_path, is_unknown=True) for storage_path in self.doubtful]
            return self.effects + (doubtful or reads)
        if isinstance(problem, EntryExists | NotSupported):
            return []  # refused before anything was changed
        if isinstance(problem, EntryNotFound) and all(effect.is_gone for effect in self.effects):
            return self.effects
        if any(deep for _, deep in self._touched):
            return reads
        return [Effect(effect.storage_path) for effect in self.effects]

    async def __aenter__(self) -> StorageChange:
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end(problem)


async def note(*changes: IndexChange) -> None:
    """Log changes that other programs made."""
    logged = [change for change in changes if is_logged() and is_indexed_change(change)]
    if logged:
        await runtime.get(ChangeLog).add(logged)


async def note_entries(entries: Sequence[tuple[StoragePath, Entry | None]]) -> None:
    """Log entries that other programs changed, as they are now; None for one that does not exist."""
    effects = [Effect(storage_path, entry, is_gone=entry is None) for storage_path, entry in entries]
    await _note_effects(effects)


async def note_unknown(folders: Sequence[StoragePath]) -> None:
    """Log that the content of folders, and of everything below them, has to be read."""
    await _note_effects([Effect(folder, is_unknown=True, is_deep=True) for folder in folders])


async def _note_effects(effects: Sequence[Effect]) -> None:
    await note(*[change for effect in effects for change in await describe_effect(effect)])


def add(storage_path: StoragePath, entry: Entry | None = None) -> StorageChange:
    """Return the change of a new, replaced or changed file in an existing folder."""
    change = StorageChange(lambda: _forget_ancestors(storage_path), [Touched(storage_path.parent)])
    change.put(storage_path, entry)
    return change


def add_many(storage_paths: Sequence[StoragePath]) -> StorageChange:
    """Return the change of new or replaced files in existing folders."""
    folders = dict.fromkeys(storage_path.parent for storage_path in storage_paths)

    def forget() -> None:
        for folder in folders:
            _forget_ancestors(folder)
            listings().forget(folder.mount.storage.id, folder.path)

    change = StorageChange(forget, [Touched(folder) for folder in folders])
    for storage_path in storage_paths:
        change.put(storage_path)
    return change


def make_folders(storage_path: StoragePath, steps: Sequence[TreePath], *, in_bulk: bool) -> StorageChange:
    """Return the change that makes a folder and its missing parents; `steps`: all of these, the topmost last."""
    topmost = storage_path.with_path(steps[-1]) if steps else None
    touched = [Touched((topmost or storage_path).parent), *([Touched(topmost, True)] if topmost is not None else ())]
    change = StorageChange(lambda: _forget_ancestors(storage_path), touched, in_bulk)
    now = time.time()
    for step in reversed(steps):
        change.put(storage_path.with_path(step), Entry(step.name, 0, now, True))
    return change


def move(source: StoragePath, target: StoragePath, *, is_folder: bool, replaces: bool) -> StorageChange:
    """Return the change of an entry that gets another path; `replaces`: an entry that may exist."""
    change = _make_change([source, target], is_folder, target)
    if is_folder:
        change.effects = [Effect(target, source=source, is_move=True, replaces=replaces)]
    else:
        change.remove(source)
        change.put(target)
    return change


def move_files(pairs: Sequence[tuple[StoragePath, StoragePath]]) -> StorageChange:
    """Return the change of files that get other paths. Its effects are those of `move`, one file after the other."""
    change = _make_change([end for pair in pairs for end in pair], False, *(target for _, target in pairs))
    for source, target in pairs:
        change.remove(source)
        change.put(target)
    return change


def copy(source: StoragePath, target: StoragePath, *, is_folder: bool, replaces: bool) -> StorageChange:
    """Return the change of an entry that is copied to another path; `replaces`: an entry that may exist."""
    change = _make_change([target], is_folder, target)
    if is_folder:
        change.effects = [Effect(target, source=source, replaces=replaces)]
    else:
        change.put(target)
    return change


def remove_if_empty(storage_path: StoragePath) -> StorageChange:
    """Return the change of a folder that is removed if it is empty."""
    change = _make_change([storage_path], are_folders=False)
    change.put(storage_path)
    return change


def remove(storage_path: StoragePath, *, is_folder: bool) -> StorageChange:
    """Return the change of a removed entry, a folder with all its content."""
    change = _make_change([storage_path], is_folder)
    change.remove(storage_path)
    return change


def restore(storage_path: StoragePath, *, is_folder: bool) -> StorageChange:
    """Return the change of an entry that comes back, a folder with all it holds."""
    change = _make_change([storage_path], is_folder, storage_path)
    change.put(storage_path)
    if is_folder:
        change.effects.append(Effect(storage_path, is_unknown=True, is_deep=True, is_restored=True))
    return change


def _make_change(entries: Sequence[StoragePath], are_folders: bool, *added: StoragePath) -> StorageChange:
    """Return a change of entries. `added`: those that are new at their paths. If a folder is removed meanwhile, some
    storages make the folder again, so that the listings of all folders above it are dropped.
    """

    def forget() -> None:
        for entry in added:
            _forget_ancestors(entry)
        for entry in entries:
            listings().forget(entry.mount.storage.id, entry.path.parent)
            listings().forget_below(entry.mount.storage.id, entry.path)

    folders = [Touched(entry, True) for entry in entries] if are_folders else []
    return StorageChange(forget, [*dict.fromkeys(Touched(entry.parent) for entry in entries), *folders])


def change_folders(*touched: Touched) -> StorageChange:
    """Return the changes of a task in folders; in those that are `deep` also below.

    The task records the entries. If the change fails, a folder without a recorded entry counts as unknown.
    """

    def forget() -> None:
        folders = {(folder.mount.storage.id, path) for folder, _ in touched for path in folder.path.ancestors()}
        for storage_id, path in folders:
            listings().forget(storage_id, path)
        for folder, deep in touched:
            if deep:
                listings().forget_below(folder.mount.storage.id, folder.path)

    return StorageChange(forget, touched, in_bulk=True)


def _forget_ancestors(storage_path: StoragePath) -> None:
    """Drop the listings that are affected by a new entry and by new folders above it."""
    listings().forget(storage_path.mount.storage.id, *storage_path.path.ancestors())
