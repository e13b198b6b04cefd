"""The folders that changed since the index was written, read again and laid over it.

A mark (`records.index_marks`) says that the index may be wrong about a folder. Each search reads the marks, and lists
again what they name, which a listing that is kept makes cheap; the rows go into the tables `fresh_names` and `masked`
of the database, where every search of this process finds them. What does not fit the budget stays as the index has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import NotAFolder, NotFound, Problem
from mangrove.core.slices import run_in_slices
from mangrove.drivers.base import Entry
from mangrove.records.files import index_marks
from mangrove.records.files.index_marks import Mark
from mangrove.search.database import Database, Statement
from mangrove.search.names import encode_name
from mangrove.search.scope import IndexScope, find_child
from mangrove.search.writing import make_columns
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import Located, Mount

MOST_MARKS = 2000  # that are looked at
BUDGET_SECONDS = 0.5
MOST_FOLDERS = 200  # that are read for one mark
MOST_ROWS = 100_000  # of one mark
MOST_LAID = 400_000  # rows of all
READS_AT_ONCE = 8
MANY = 200  # marks of one storage: worth an update of its index
CHUNK = 2048  # rows that are put into the database at once
SETTLED_SECONDS = index_marks.SLACK_SECONDS  # so long after a mark was noted any change has noted it anew

INSERT = """
INSERT INTO fresh_names SELECT ?, ?, coalesce(name, folded), folded, is_dir, size, modified FROM (SELECT
unnest(?::VARCHAR[]) name, unnest(?::VARCHAR[]) folded, unnest(?::BOOLEAN[]) is_dir, unnest(?::BIGINT[]) size,
unnest(?::DOUBLE[]) modified)
"""

DELETES = (
    "DELETE FROM fresh_names WHERE storage = ? AND (path = ? OR (? AND starts_with(path, ?)))",
    "DELETE FROM masked WHERE storage = ? AND (path = ? OR (? AND starts_with(path, ?)))",
)

Key = tuple[int, str]


class VirtualRow(NamedTuple):
    """A name in a folder of the tree that no storage has, or that another storage is mounted at."""

    folder: TreePath
    entry: Entry


@dataclass(frozen=True, slots=True)
class SearchedMount:
    """A storage that takes part in a search: at and below `root` inside it, as far as no path of `others`, where other
    storages are mounted, hides it."""

    mount: Mount
    root: TreePath
    scope: IndexScope
    others: tuple[TreePath, ...] = ()

    def concerns(self, mark: Mark) -> bool:
        """Whether what the mark says could be found here."""
        path = TreePath(mark.path)
        if any(path.within(other) for other in self.others):
            return False
        return path.within(self.root) or (mark.deep and self.root.within(path))

    def has_folder(self, path: TreePath) -> bool:
        """Whether the names in a folder of the storage are indexed."""
        return self.scope.has_folder(self.mount.path / path)

    def select(self, path: TreePath, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries of a folder of the storage that are indexed."""
        return self.scope.select(self.mount.path / path, entries)


@dataclass(frozen=True, slots=True)
class _Laid:
    """What lies over the index for a mark. `is_deep`: it hides all that the index says of what is below. `began`:
    seconds since the epoch when it was read last; `source`: what was read, told from another reading by its time."""

    mark: Mark
    is_deep: bool
    began: float = 0.0
    source: tuple[tuple[str, float], ...] | None = None
    rows: int = 0

    def is_settled(self, mark: Mark) -> bool:
        """Whether nothing can have changed since that the mark does not tell of by a new version."""
        is_same = self.mark.version == mark.version and self.mark.deep == mark.deep
        return is_same and self.began > mark.noted + SETTLED_SECONDS


class _TooMuch(Exception):
    """More than one search reads again."""


@dataclass(slots=True)
class _Reading:
    """A marked folder, and with a deep mark all below it, as they are now; nothing when they are gone."""

    folders: list[tuple[TreePath, CachedFolder]] = field(default_factory=list)
    rows: int = 0

    def add(self, path: TreePath, folder: CachedFolder) -> None:
        """One more folder; _TooMuch."""
        self.folders.append((path, folder))
        self.rows += len(folder.entries)
        if len(self.folders) > MOST_FOLDERS or self.rows > MOST_ROWS:
            raise _TooMuch

    @property
    def is_gone(self) -> bool:
        """Whether there is no such folder any more."""
        return not self.folders

    @property
    def source(self) -> tuple[tuple[str, float], ...]:
        return tuple((str(path), folder.read_at if folder.entries else 0.0) for path, folder in self.folders)


class Overlay:
    """What lies over the index in the database of this process."""

    def __init__(self) -> None:
        self._laid: dict[Key, _Laid] = {}
        self._too_large: set[Mark] = set()
        self._virtual: Sequence[VirtualRow] | None = None
        self._generation = -1
        self._writing = asyncio.Lock()

    async def lay(self, searched: Sequence[SearchedMount]) -> frozenset[int]:
        """Bring it up to date for a search of these storages; the ids of those whose index is worth an update."""
        marks = await asyncio.to_thread(index_marks.list_all, MOST_MARKS)
        self._notice_loss()
        if len(marks) < MOST_MARKS:
            await self._lift({(mark.storage_id, mark.path) for mark in marks})
        by_storage: dict[int, list[Mark]] = {}
        for mark in marks:
            by_storage.setdefault(mark.storage_id, []).append(mark)
        known = frozenset(self._too_large)
        left = await self._lay_marks(self._find_wanted(searched, by_storage))
        if self._too_large - known:  # the marks below those are looked at by themselves
            left = await self._lay_marks(self._find_wanted(searched, by_storage))
        return frozenset(mark.storage_id for mark in left) | {id for id, own in by_storage.items() if len(own) > MANY}

    def _find_wanted(
        self, searched: Sequence[SearchedMount], by_storage: Mapping[int, Sequence[Mark]]
    ) -> list[tuple[SearchedMount, Mark]]:
        """The marks to be laid for a search of these storages."""
        return [
            (one, mark)
            for one in searched
            for mark in self._select(by_storage.get(one.mount.storage.id, ()))
            if one.concerns(mark)
        ]

    def _notice_loss(self) -> None:
        generation = runtime.get(Database).generation
        if generation != self._generation:
            self._laid.clear()
            self._virtual = None
            self._generation = generation

    def _select(self, marks: Sequence[Mark]) -> list[Mark]:
        """The marks of a storage without those that a deep one above stands for, unless that one is too large."""
        deep = {mark.path for mark in marks if mark.deep and mark not in self._too_large}
        return [
            mark
            for mark in marks
            if not any(path in deep for path in TreePath(mark.path).ancestors()[0 if not mark.deep else 1 :])
        ]

    async def _lift(self, marked: Collection[Key]) -> None:
        """Take away what lies there for marks that are gone: the index is right about it."""
        gone = [key for key in self._laid if key not in marked]
        if not gone:
            return
        async with self._writing:
            lying = [(key, laid.is_deep) for key in gone if (laid := self._laid.get(key)) is not None]
            await runtime.get(Database).change([delete for one in lying for delete in _make_deletes(*one)])
            for one in lying:
                self._forget(*one)

    def _forget(self, key: Key, is_deep: bool) -> None:
        self._laid.pop(key, None)
        if is_deep:
            path = TreePath(key[1])
            for other in [one for one in self._laid if one[0] == key[0] and TreePath(one[1]).within(path)]:
                del self._laid[other]

    async def _lay_marks(self, wanted: Sequence[tuple[SearchedMount, Mark]]) -> list[Mark]:
        """Lay what changed, as far as it fits the budget; the marks that are left."""
        left = {id(mark): mark for _, mark in wanted if not self._is_current(mark)}
        limit = asyncio.Semaphore(READS_AT_ONCE)

        async def lay(one: SearchedMount, mark: Mark) -> None:
            async with limit:
                if await self._lay_mark(one, mark):
                    del left[id(mark)]

        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                await asyncio.gather(*(lay(one, mark) for one, mark in wanted if id(mark) in left))
        except TimeoutError:
            pass
        return list(left.values())

    def _is_current(self, mark: Mark) -> bool:
        laid = self._laid.get(_key_of(mark))
        return laid is not None and laid.is_settled(mark)

    async def _lay_mark(self, one: SearchedMount, mark: Mark) -> bool:
        """Read a marked folder and lay it over the index; whether it lies there."""
        if mark in self._too_large:
            return False
        began = time.time()
        try:
            return await self._put(one, mark, began, await _read(one, mark))
        except _TooMuch:
            if len(self._too_large) >= MOST_MARKS:
                self._too_large.clear()
            self._too_large.add(mark)
            return False
        except Problem:  # the storage does not answer, or not for this folder: what was known of it stays
            return False

    async def _put(self, one: SearchedMount, mark: Mark, began: float, reading: _Reading) -> bool:
        key = _key_of(mark)
        laid = self._laid.get(key)
        if laid is not None and laid.source == reading.source and laid.mark.deep == mark.deep:
            self._laid[key] = replace(laid, mark=mark, began=max(began, laid.began))
            return True
        if sum(other.rows for other in self._laid.values()) + reading.rows > MOST_LAID:
            return False
        rows = await run_in_slices(_make_inserts(one, mark, reading))
        async with self._writing:
            laid = self._laid.get(key)
            if laid is not None and laid.began > began:
                return True  # somebody who read it later was here first
            is_deep = mark.deep or reading.is_gone
            deletes = _make_deletes(key, is_deep or (laid is not None and laid.is_deep))
            self._forget(key, is_deep or (laid is not None and laid.is_deep))
            self._laid[key] = _Laid(mark, is_deep)  # so that it is taken away again if this call is broken off
            await runtime.get(Database).change([*deletes, _make_mask(key, is_deep), *rows])
            self._laid[key] = _Laid(mark, is_deep, began, reading.source, reading.rows)
        return True

    async def lay_virtual(self, rows: Sequence[VirtualRow]) -> None:
        """The folders that are mounts, or lead to them, as rows of the storage 0."""
        if rows == self._virtual:
            return
        async with self._writing:
            self._virtual = None
            inserts = await run_in_slices(_make_virtual_inserts(rows))
            await runtime.get(Database).change([("DELETE FROM fresh_names WHERE storage = 0", ()), *inserts])
            self._virtual = rows


def _key_of(mark: Mark) -> Key:
    return mark.storage_id, mark.path


def _make_deletes(key: Key, is_deep: bool) -> list[Statement]:
    """What lies there for a folder, or with all below it."""
    storage_id, path = key[0], encode_name(key[1])
    below = "/" if path == "/" else f"{path}/"
    return [(text, (storage_id, path, is_deep, below)) for text in DELETES]


def _make_mask(key: Key, is_deep: bool) -> Statement:
    return "INSERT INTO masked VALUES (?, ?, ?)", (key[0], encode_name(key[1]), is_deep)


async def _read(one: SearchedMount, mark: Mark) -> _Reading:
    """The marked folder as it is now; _TooMuch, or the Problem of the storage."""
    driver = await one.mount.get_driver()
    reading = _Reading()
    waiting = [TreePath(mark.path)]
    while waiting:
        batch = [Located(driver, path, one.mount) for path in waiting[:READS_AT_ONCE]]
        del waiting[: len(batch)]
        for located, folder in zip(batch, await asyncio.gather(*map(_list_folder, batch)), strict=True):
            if folder is None:
                continue
            reading.add(located.path, folder)
            if mark.deep:
                waiting += await run_in_slices(_find_subfolders(one, located.path, folder))
    return reading


async def _list_folder(located: Located) -> CachedFolder | None:
    """Return the folder; None when there is none."""
    try:
        return await listings().get(located, refresh=not platform().reports_changes)
    except (NotFound, NotAFolder):
        return None


def _find_subfolders(
    one: SearchedMount, path: TreePath, folder: CachedFolder
) -> Generator[None, None, Sequence[TreePath]]:
    found = yield from folder.entries.select(lambda entry: entry.is_dir and not entry.is_link)
    paths = []
    for name in found.iterate_names():
        child = find_child(path, name)
        if child is not None and child not in one.others and one.has_folder(child):
            paths.append(child)
        yield
    return paths


def _make_inserts(one: SearchedMount, mark: Mark, reading: _Reading) -> Generator[None, None, list[Statement]]:
    statements: list[Statement] = []
    for path, folder in reading.folders:
        for start in range(0, len(folder.entries) if one.has_folder(path) else 0, CHUNK):
            entries = one.select(path, folder.entries[start : start + CHUNK])
            statements.append(_make_insert(mark.storage_id, path, entries))
            yield
        yield
    return statements


def _make_virtual_inserts(rows: Sequence[VirtualRow]) -> Generator[None, None, list[Statement]]:
    by_folder: dict[TreePath, list[Entry]] = {}
    for row in rows:
        by_folder.setdefault(row.folder, []).append(row.entry)
        yield
    statements = []
    for folder, entries in by_folder.items():
        for start in range(0, len(entries), CHUNK):
            statements.append(_make_insert(0, folder, entries[start : start + CHUNK]))
            yield
    return statements


def _make_insert(storage_id: int, path: TreePath, entries: Sequence[Entry]) -> Statement:
    rows = make_columns(entries)
    columns = (rows.names, rows.folded, rows.is_dir, rows.sizes, rows.modified)
    return INSERT, (storage_id, encode_name(path), *columns)
