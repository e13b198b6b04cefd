"""The tables of the database of this process: small indexes as a whole, and the changes of all others.

Each search reads new changes from the log (`records.index_changes`) and applies them. The standalone service reads the
log only after one of its processes has written to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from mangrove.core import runtime
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.drivers.base import ROOT
from mangrove.records import index_changes
from mangrove.records.index_changes import MAX_WRITE_DELAY_SECONDS, ChangeKind, IndexChange
from mangrove.search.calls import Statement
from mangrove.search.columns import read_names
from mangrove.search.database import Database
from mangrove.search.delta import TouchedFolders, apply_changes, drop_base, join_path
from mangrove.search.segments import Segments, SegmentStore
from mangrove.search.statements import SearchSource

MAX_NAMES_IN_TABLES = 250_000  # of small indexes: about 25 MB
MAX_NAMES_OF_SMALL_INDEX = 20_000
MAX_NAMES_OF_DELTA = 200_000  # changed in one storage; further changes are found after the next compaction
MAX_CHECKS_PER_SEARCH = 16  # of storages whose segments are loaded already
OPEN_CONCURRENCY = 32
APPLY_SECONDS = 20.0
RETIRE_SECONDS = 10.0  # after which no search uses a base any more
UPDATE_CHANGES = 200  # of one storage, after which its index should be updated
VIRTUAL = 0  # the id for names that no storage has
MAX_VIRTUAL_SOURCES = 16  # of the names of the tree, and of those of share links

_LOAD_FOLDERS = """
INSERT INTO folders SELECT base, nextval('numbers'), id, path FROM read_parquet(?, filename = true)
JOIN (SELECT unnest(?::VARCHAR[]) AS filename, unnest(?::UINTEGER[]) AS base) USING (filename)
"""
_LOAD_NAMES = f"""
INSERT INTO names SELECT n.base, f.number, n.name, n.folded, n.is_dir, n.size, n.modified, n.changed_by FROM (
    FROM {read_names(", filename = true")}
    JOIN (SELECT unnest(?::VARCHAR[]) AS filename, unnest(?::UINTEGER[]) AS base) USING (filename)
) AS n JOIN folders AS f ON f.base = n.base AND f.id = n.folder
"""
_FIND_STRIDE = "SELECT coalesce(max(id) + 1, 0) FROM read_parquet(?)"


@dataclass(slots=True)
class _TableState:
    """The state of a storage in the tables. `last`: the highest number of an applied change."""

    base: int
    segments: Segments | None
    is_small: bool = True  # the tables have all of it
    stride: int = 0
    applied: dict[str, IndexChange] = field(default_factory=dict)
    has_delta: bool = False
    touched: TouchedFolders = field(default_factory=TouchedFolders)
    last: str = ""
    name_count: int = 0  # changed
    version: int = 0
    checked: float = 0.0  # time of the monotonic clock

    @property
    def folder_files(self) -> list[str]:
        """Return the files of the segments that the tables do not have."""
        return [] if self.is_small or self.segments is None else [str(path) for path in self.segments.folders]


@dataclass(frozen=True, slots=True)
class SearchedStorage:
    """A storage that is searched: at and below `roots` inside it, mounted at `mount`."""

    id: int
    mount: TreePath
    roots: tuple[TreePath, ...]
    others: tuple[TreePath, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenedIndex:
    """The sources of a search, and ids of storages.

    The index of those in `behind` should be updated; those in `missing` have none, those in `partial` an incomplete
    one.
    """

    places: Sequence[SearchSource]
    behind: frozenset[int]
    missing: frozenset[int]
    partial: frozenset[int]


class IndexTables:
    """The indexes that this process has opened, and the changes since."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._states: dict[int, _TableState] = {}
        self._changes: dict[int, dict[str, IndexChange]] = {}  # changes that the segments do not have, by number
        self._outdated: set[int] = set()
        self._recent: set[str] = set()  # numbers that were read and may be read again
        self._read_at = 0.0  # seconds since the epoch
        self._written = -1  # the value of the counter of writes at that time
        self._generation = -1  # of the database
        self._next_base = 1
        self._small_count = 0
        self._retired: list[tuple[float, int]] = []
        self._virtual: dict[Hashable, int] = {}  # bases, the one that was used last at the end
        self._lock = asyncio.Lock()

    async def open(self, storages: Sequence[SearchedStorage]) -> OpenedIndex:
        """Bring the tables up to date for a search of these storages. Raise DamagedSegment or RecordsUnavailable."""
        ids = [storage.id for storage in storages]
        async with self._lock:
            self._notice_loss()
            await self._read_changes()
            await self._open_segments(ids)
            await self._apply_new(ids)
            await self._drop_retired()
            places = [self._make_place(storage) for storage in storages]
        states = {id: self._states[id] for id in ids}
        return OpenedIndex(
            places,
            frozenset(id for id, state in states.items() if self._is_behind(id, state)),
            frozenset(id for id, state in states.items() if state.segments is None),
            frozenset(id for id, state in states.items() if state.segments and state.segments.manifest.partial),
        )

    def _make_place(self, storage: SearchedStorage) -> SearchSource:
        state = self._states[storage.id]
        segments = None if state.is_small else state.segments
        return SearchSource(
            storage.id, state.base, storage.mount, storage.roots, segments, storage.others, state.stride,
            state.has_delta,
        )  # fmt: skip

    def _is_behind(self, id: int, state: _TableState) -> bool:
        changes = self._changes.get(id)
        if not changes or state.segments is None:
            return False
        return len(changes) > UPDATE_CHANGES or any(change.kind is ChangeKind.READ for change in changes.values())

    def _notice_loss(self) -> None:
        """Start again if the database was replaced."""
        generation = self._database.generation
        if generation != self._generation:
            self._generation = generation
            self._states.clear()
            self._retired.clear()
            self._small_count = 0
            self._virtual.clear()

    async def _read_changes(self) -> None:
        """Read new changes from the log, and again those that may have arrived after a higher number."""
        written = change_counters().read(Topic.INDEX_CHANGES)
        if platform().reports_changes and written == self._written:
            return
        now = time.time()
        after = index_changes.make_number(self._read_at - MAX_WRITE_DELAY_SECONDS) if self._read_at else ""
        changes = await asyncio.to_thread(index_changes.read, after)
        self._recent = {number for number in self._recent if number > after}
        for change in changes:
            if change.number not in self._recent:
                self._recent.add(change.number)
                self._take(change)
        self._read_at, self._written = now, written

    def _take(self, change: IndexChange) -> None:
        if change.kind is ChangeKind.INDEX:
            self._outdated.add(change.storage_id)
        elif change.kind is not ChangeKind.INTENT:
            self._changes.setdefault(change.storage_id, {})[change.number] = change

    async def _open_segments(self, ids: Sequence[int]) -> None:
        """Open the segments of new storages, and of those whose segments may have been replaced."""
        needed = [id for id in ids if id not in self._states or id in self._outdated]
        known = sorted(self._states.keys() & set(ids), key=lambda id: self._states[id].checked)
        chosen = list(dict.fromkeys([*needed, *known[:MAX_CHECKS_PER_SEARCH]]))
        store = runtime.get(SegmentStore)
        opened = await gather_bounded([partial(store.open, id) for id in chosen], OPEN_CONCURRENCY)
        now = time.monotonic()
        changed = {}
        for id, segments in zip(chosen, opened, strict=True):
            state = self._states.get(id)
            if state is None or state.segments is not segments:
                changed[id] = segments
            else:
                state.checked = now
        await self._load(changed)
        self._outdated.difference_update(chosen)

    async def _load(self, changed: Mapping[int, Segments | None]) -> None:
        """Replace the segments that the tables were made of."""
        small: dict[int, Segments] = {}
        states: dict[int, _TableState] = {}
        for id, segments in changed.items():
            self._retire(id)
            state = states[id] = _TableState(self._next_base, segments, checked=time.monotonic())
            self._next_base += 1
            if segments is None:
                continue
            count = segments.manifest.count
            state.is_small = count <= MAX_NAMES_OF_SMALL_INDEX and self._small_count + count <= MAX_NAMES_IN_TABLES
            if state.is_small:
                self._small_count += count
                small[state.base] = segments
            else:
                state.touched = TouchedFolders(are_known=True)
                ((state.stride,),) = await self._database.run(_FIND_STRIDE, [list(map(str, segments.folders))])
            self._drop_merged(id, segments)
        if small:
            await self._change(_load_small(small))
        self._states |= states

    def _retire(self, id: int) -> None:
        state = self._states.pop(id, None)
        if state is not None:
            self._retired.append((time.monotonic(), state.base))
            if state.is_small and state.segments is not None:
                self._small_count -= state.segments.manifest.count

    def _drop_merged(self, id: int, segments: Segments) -> None:
        """Drop the changes that the segments have."""
        merged, read = segments.manifest.merged, index_changes.make_number(segments.manifest.began)
        changes = {
            number: change
            for number, change in self._changes.get(id, {}).items()
            if number > (max(merged, read) if change.kind is ChangeKind.READ else merged)
        }
        self._changes[id] = changes
        if not changes:
            del self._changes[id]

    async def _apply_new(self, ids: Iterable[int]) -> None:
        for id in ids:
            changes = self._changes.get(id)
            state = self._states[id]
            if changes and len(changes) > len(state.applied):
                new = [changes[number] for number in sorted(changes.keys() - state.applied.keys())]
                if any(_is_late(change, state) for change in new):
                    await self._load({id: state.segments})
                    state, new = self._states[id], [changes[number] for number in sorted(changes)]
                await self._apply(id, state, new)

    async def _apply(self, id: int, state: _TableState, changes: Sequence[IndexChange]) -> None:
        applied = []
        for change in changes:
            state.name_count += len(change.entries) + len(change.removed)
            state.applied[change.number] = change
            if state.name_count <= MAX_NAMES_OF_DELTA:
                applied.append(change)
        try:
            await self._run_changes(state, applied)
        except BaseException:
            self._retire(id)  # so that it is loaded again
            raise
        state.last = max(state.last, changes[-1].number)

    async def _run_changes(self, state: _TableState, changes: Sequence[IndexChange]) -> None:
        statements = await asyncio.to_thread(apply_changes, state.base, state.folder_files, changes, state.touched)
        if statements:
            await self._change(statements)
            state.has_delta = True
            state.version += 1

    async def _change(self, statements: Sequence[Statement]) -> None:
        await self._database.change(statements, seconds=APPLY_SECONDS)

    async def _drop_retired(self) -> None:
        limit = time.monotonic() - RETIRE_SECONDS
        old = [base for retired, base in self._retired if retired < limit]
        if old:
            await self._change([statement for base in old for statement in drop_base(base)])
            self._retired = [pair for pair in self._retired if pair[0] >= limit]

    def get_versions(self, ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return a key that changes with the content of the tables for these storages."""
        return tuple((state.base, state.version) for id in ids if (state := self._states.get(id)) is not None)

    def get_virtual(self, key: Hashable) -> SearchSource | None:
        """Return the source of names that no storage has, if they were set with that key."""
        base = self._virtual.pop(key, None)
        if base is None:
            return None
        self._virtual[key] = base
        return SearchSource(VIRTUAL, base, ROOT, (ROOT,))

    async def set_virtual(self, key: Hashable, changes: Collection[IndexChange]) -> SearchSource:
        """Set names that no storage has, with their key. Only the MAX_VIRTUAL_SOURCES that were used last are kept."""
        async with self._lock:
            base = self._next_base
            self._next_base += 1
            await self._change(apply_changes(base, (), changes))
            self._retire_virtual(key)
            self._virtual[key] = base
            while len(self._virtual) > MAX_VIRTUAL_SOURCES:
                self._retire_virtual(next(iter(self._virtual)))
        return SearchSource(VIRTUAL, base, ROOT, (ROOT,))

    def _retire_virtual(self, key: Hashable) -> None:
        base = self._virtual.pop(key, None)
        if base is not None:
            self._retired.append((time.monotonic(), base))


def _load_small(segments: Mapping[int, Segments]) -> list[Statement]:
    """Return the statements that load segments as a whole, by their bases."""
    folders = [(str(path), base) for base, stored in segments.items() for path in stored.folders]
    names = [(str(path), base) for base, stored in segments.items() for path in stored.names]
    statements: list[Statement] = []
    for text, files in ((_LOAD_FOLDERS, folders), (_LOAD_NAMES, names)):
        if files:
            paths = [path for path, _ in files]
            statements.append((text, (paths, paths, [base for _, base in files])))
    return statements


def _is_late(change: IndexChange, state: _TableState) -> bool:
    """True if a change was written before changes that were applied already, and their order matters."""
    if change.number > state.last:
        return False
    later = [applied for number, applied in state.applied.items() if number > change.number]
    return any(_do_overlap(change, applied) for applied in later)


def _do_overlap(change: IndexChange, other: IndexChange) -> bool:
    if ChangeKind.READ in (change.kind, other.kind):
        return False
    if not change.kind is other.kind is ChangeKind.NAMES:
        return True
    if change.path == other.path and _list_names(change) & _list_names(other):
        return True
    return _is_removed(change, other) or _is_removed(other, change)


def _list_names(change: IndexChange) -> set[str]:
    return {*change.removed, *(entry.name for entry in change.entries)}


def _is_removed(change: IndexChange, by: IndexChange) -> bool:
    """True if the folder of a change is at or below a name that another one removes."""
    return any(f"{change.path}/".startswith(f"{join_path(by.path, name)}/") for name in by.removed)
