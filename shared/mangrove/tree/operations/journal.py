"""Changes by this service: listings forget them, and the log of the search index records them.

Every change of a storage is made within a `Change`: `async with journal.move(source, target, …): await driver.move(…)`.
Before it an intent says in which folders something may change: RecordsUnavailable, and nothing is changed, where that
cannot be written. After it the log says what is there now. An intent serves all changes of this process in its folder.
One that is not renewed any more tells of a process that died: compaction reads the folder then.

What cannot be written at the end of a change is written later, and never turns a finished change into a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import NamedTuple

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported
from mangrove.drivers.base import Entry
from mangrove.records.files.index_changes import ChangeKind, IndexChange
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.change_log import Journal
from mangrove.tree.operations.effects import Effect, describe_effect, find_logged, is_indexed_change, look_ahead
from mangrove.tree.operations.effects import is_logged as is_logged
from mangrove.tree.places import Place


class Touched(NamedTuple):
    """A folder that is changed; `deep`: with all below it."""

    storage_path: StoragePath
    deep: bool = False


class Change:
    """A change of a storage while it is made. `forget` drops the listings that it touches, whether or not it was made
    in full; `in_bulk`: with many others, by a task."""

    def __init__(self, forget: Callable[[], None], touched: Collection[Touched], in_bulk: bool = False) -> None:
        self._forget = forget
        self._touched = touched
        self._in_bulk = in_bulk
        self._places: set[Place] = set()
        self._has_begun = False
        self.effects: list[Effect] = []
        self.doubtful: Sequence[
            StoragePath
        ] = ()  # folders to be read if a task's change fails; none: all that it touches

    def put(self, storage_path: StoragePath, entry: Entry | None = None) -> None:
        """Note an entry that is there when the change is over, or what is there then if it is None."""
        self.effects.append(Effect(storage_path, entry))

    def remove(self, storage_path: StoragePath) -> None:
        """Note an entry that is gone when the change is over."""
        self.effects.append(Effect(storage_path, is_gone=True))

    def read(self, storage_path: StoragePath, *, deep: bool = False) -> None:
        """Note a folder of which it is not known what it holds when the change is over."""
        self.effects.append(Effect(storage_path, is_unknown=True, is_deep=deep))

    def set_entry(self, entry: Entry) -> None:
        """Note what the only entry of the change is by now."""
        (effect,) = self.effects
        effect.entry = entry

    async def begin(self) -> None:
        """Write what it touches; the Problem of the records, and nothing is to be changed, where that is impossible."""
        places = await find_logged(self._touched)
        if places:
            self.effects = [new for effect in self.effects for new in await look_ahead(effect)]
            if self._in_bulk:
                places = runtime.get(Journal).cover(places)
            await runtime.get(Journal).begin(places)
        self._places, self._has_begun = places, True

    async def end(self, problem: BaseException | None = None) -> None:
        """Drop the listings, and write what has changed, if it ever began."""
        self._forget()
        if not self._has_begun or not self._places:
            return
        try:
            changes = await self._describe(problem)
        except BaseException:
            changes = [IndexChange(one.storage_id, ChangeKind.READ, one.path, one.deep) for one in self._places]
            await runtime.get(Journal).end(self._places, changes, waits=False)
            raise
        await runtime.get(Journal).end(self._places, changes, waits=not self._in_bulk)

    async def _describe(self, problem: BaseException | None) -> list[IndexChange]:
        rows = [row for effect in self._choose_effects(problem) for row in await describe_effect(effect)]
        return [row for row in rows if is_indexed_change(row)]

    def _choose_effects(self, problem: BaseException | None) -> list[Effect]:
        """The effects to record; after a failure only those that were looked up."""
        if problem is None:
            return self.effects
        reads = [Effect(storage_path, is_unknown=True, is_deep=deep) for storage_path, deep in self._touched]
        if self._in_bulk:
            doubtful = [Effect(storage_path, is_unknown=True) for storage_path in self.doubtful]
            return self.effects + (doubtful or reads)
        if isinstance(problem, EntryExists | NotSupported):
            return []  # refused before anything was done
        if isinstance(problem, EntryNotFound) and all(effect.is_gone for effect in self.effects):
            return self.effects
        if any(deep for _, deep in self._touched):
            return reads
        return [Effect(effect.storage_path) for effect in self.effects]

    async def __aenter__(self) -> Change:
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end(problem)


async def note(*changes: IndexChange) -> None:
    """Write what others have changed."""
    logged = [change for change in changes if is_logged() and is_indexed_change(change)]
    if logged:
        await runtime.get(Journal).add(logged)


def add(storage_path: StoragePath, entry: Entry | None = None) -> Change:
    """A new, replaced or removed file, or empty folder, whose folder is there."""
    change = Change(lambda: _forget_upwards(storage_path), [Touched(storage_path.parent)])
    change.put(storage_path, entry)
    return change


def make_folders(storage_path: StoragePath, steps: Sequence[TreePath], *, in_bulk: bool) -> Change:
    """A folder that is made with those above it that are missing; `steps`: all of these, the topmost last."""
    first = storage_path.with_path(steps[-1]) if steps else None
    touched = [Touched((first or storage_path).parent), *([Touched(first, True)] if first is not None else ())]
    change = Change(lambda: _forget_upwards(storage_path), touched, in_bulk)
    now = time.time()
    for step in reversed(steps):
        change.put(storage_path.with_path(step), Entry(step.name, 0, now, True))
    return change


def move(source: StoragePath, target: StoragePath, *, is_folder: bool, replaces: bool) -> Change:
    """An entry that gets another path; `replaces`: what is there already."""
    change = _change([source, target], is_folder)
    if is_folder:
        change.effects = [Effect(target, source=source, is_move=True, replaces=replaces)]
    else:
        change.remove(source)
        change.put(target)
    return change


def copy(source: StoragePath, target: StoragePath, *, is_folder: bool, replaces: bool) -> Change:
    """An entry that gets a copy at another path; `replaces`: what is there already."""
    change = _change([target], is_folder)
    if is_folder:
        change.effects = [Effect(target, source=source, replaces=replaces)]
    else:
        change.put(target)
    return change


def remove(storage_path: StoragePath, *, is_folder: bool) -> Change:
    """An entry that vanishes; `is_folder`: with all it holds."""
    change = _change([storage_path], is_folder)
    change.remove(storage_path)
    return change


def _change(entries: Sequence[StoragePath], are_folders: bool) -> Change:
    def forget() -> None:
        for entry in entries:
            _forget(entry)

    folders = [Touched(entry, True) for entry in entries] if are_folders else []
    return Change(forget, [*(Touched(entry.parent) for entry in entries), *folders])


def change_folders(*touched: Touched) -> Change:
    """The changes of a task in the folders themselves: of those that are `deep`, also in what is below. The task notes
    the entries; a folder without such a note counts as unknown where the change fails."""

    def forget() -> None:
        folders = {(one.mount.storage.id, path) for one, _ in touched for path in one.path.ancestors()}
        for storage_id, path in folders:
            listings().forget(storage_id, path)
        for storage_path in (one for one, deep in touched if deep):
            listings().forget_below(storage_path.mount.storage.id, storage_path.path)

    return Change(forget, touched, in_bulk=True)


def _forget_upwards(storage_path: StoragePath) -> None:
    """Drop the listings that a new entry (and new folders on the way to it) changed."""
    for folder in storage_path.path.ancestors():
        listings().forget(storage_path.mount.storage.id, folder)


def _forget(storage_path: StoragePath) -> None:
    """Drop the listings of a changed entry's folder, of itself and of all below."""
    listings().forget(storage_path.mount.storage.id, storage_path.path.parent)
    listings().forget_below(storage_path.mount.storage.id, storage_path.path)
