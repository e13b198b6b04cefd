"""What others change in a storage: a listing that was read anyway is compared with the index.

Where they differ, the folder is marked like what this service changes itself, and with it the sub-folders that the
index does not know. On one machine only, and out of everybody's way: few listings wait, what finds no room is dropped,
and after each comparison there is a pause of several times its length.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from mangrove.configuration import snapshot
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.core.slices import run_in_slices
from mangrove.core.telemetry import log_exception
from mangrove.drivers.base import Entry
from mangrove.records.files.index_marks import Place
from mangrove.search.database import Database, Rows
from mangrove.search.names import encode_name
from mangrove.search.scope import IndexScope, find_child, is_indexed
from mangrove.search.segments import Segments, SegmentStore
from mangrove.search.writing import make_columns
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import ListingObserver
from mangrove.tree.mounts import Located
from mangrove.tree.operations import journal
from mangrove.tree.operations.journal import Journal, Touched

MOST_WAITING = 16  # listings
LARGEST = 10_000  # entries of a folder that is compared name by name; of a larger one the number is
MOST_UNKNOWN = 100  # sub-folders that are marked by themselves; else the folder is, with all below it
MOST_REMEMBERED = 4096  # folders that are remembered for having been marked
SLICE = 1024  # entries
PAUSE = 5.0  # times as long as the comparison took

_IS_LAID_OVER = """
SELECT count(*) FROM masked WHERE storage = ? AND (path = ? OR (deep AND starts_with(?, rtrim(path, '/') || '/')))
"""
_FRESH = "FROM fresh_names WHERE storage = ? AND path = ?"
_STORED = "FROM read_parquet(?) WHERE folder = (SELECT any_value(id) FROM read_parquet(?) WHERE path = ?)"
_NAMES = f"SELECT coalesce(name, folded), is_dir, size, modified {{}} LIMIT {LARGEST + 1}"
_COUNT = "SELECT count(*) {}"

Key = tuple[int, str]
Row = tuple[bool, int | None, float]  # as the index has it: whether it is a folder, size, time


@dataclass(frozen=True, slots=True)
class _Observed:
    """A folder as it was listed; `entries`: None for one that is too large."""

    located: Located
    scope: IndexScope
    entries: Sequence[Entry] | None
    count: int

    @property
    def path(self) -> TreePath:
        """In the tree."""
        return self.located.mount.path / self.located.path

    @property
    def key(self) -> Key:
        return self.located.mount.storage.id, str(self.located.path)


@dataclass(frozen=True, slots=True)
class _Difference:
    """`unknown`: names of sub-folders that the index does not have; `listing`: tells this one from others."""

    unknown: Sequence[str]
    listing: int


class Corrections(ListingObserver):
    """The listings that wait, and those that were marked already."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Observed] = {}
        self._marked: OrderedDict[Key, tuple[str, int]] = OrderedDict()  # the index then, and the listing
        self._has_work = asyncio.Event()

    def note(self, located: Located, folder: CachedFolder) -> None:
        settings, storage = snapshot.current().settings, located.mount.storage
        if not settings.corrects_index or not is_indexed(storage, settings):
            return
        count = len(folder.entries)
        observed = _Observed(located, IndexScope.make(settings), folder.entries if count <= LARGEST else None, count)
        is_new = observed.key not in self._waiting
        if (is_new and len(self._waiting) >= MOST_WAITING) or not observed.scope.has_folder(observed.path):
            return
        self._waiting[observed.key] = observed
        self._has_work.set()

    async def run(self) -> None:
        """Take the place of who is told of listings, and compare what waits, for ever."""
        runtime.put(ListingObserver, self)
        while True:
            await self._has_work.wait()
            began = time.monotonic()
            await self.correct_next()
            await asyncio.sleep((time.monotonic() - began) * PAUSE)

    async def correct_next(self) -> None:
        """Compare the listing that waits longest, and mark what differs; what fails is left to the next listing."""
        if not self._waiting:
            self._has_work.clear()
            return
        observed = self._waiting.pop(next(iter(self._waiting)))
        try:
            await self._correct(observed)
        except Problem:
            pass  # the records or the database are busy, or the index is being replaced
        except Exception:  # a fault here must not end the corrections of all other listings
            log_exception("a listing was not compared with the search index", storage=observed.key[0])

    async def _correct(self, observed: _Observed) -> None:
        key = observed.key
        if runtime.get(Journal).is_noted(Place(*key)):
            return  # the next search reads it again
        segments = await runtime.get(SegmentStore).open(key[0])
        if segments is None:
            return  # it is built as a whole
        difference = await _find_difference(segments, observed)
        if difference is None or self._marked.get(key) == (segments.manifest.finished, difference.listing):
            return
        await journal.note(*_list_touched(observed, difference))
        self._marked[key] = segments.manifest.finished, difference.listing
        self._marked.move_to_end(key)
        if len(self._marked) > MOST_REMEMBERED:
            self._marked.popitem(last=False)


def _list_touched(observed: _Observed, difference: _Difference) -> Iterable[Touched]:
    if len(difference.unknown) > MOST_UNKNOWN:
        return [Touched(observed.located, True)]
    below = [Touched(observed.located.child(name), True) for name in difference.unknown]
    return [Touched(observed.located), *below]


async def _find_difference(segments: Segments, observed: _Observed) -> _Difference | None:
    """How a listing differs from what a search finds in its folder; None for not at all."""
    if observed.entries is None:
        ((count,),) = await _select(segments, observed.key, _COUNT)
        return None if count == observed.count else _Difference((), observed.count)
    found = await _select(segments, observed.key, _NAMES)
    return await run_in_slices(_compare(found, observed, observed.entries))


async def _select(segments: Segments, key: Key, columns: str) -> Rows:
    """What a search finds in a folder: what was read again, or else what the index says."""
    database, (storage_id, path) = runtime.get(Database), (key[0], encode_name(key[1]))
    ((masks,),) = await database.run(_IS_LAID_OVER, [storage_id, path, path])
    if masks:
        return await database.run(columns.format(_FRESH), [storage_id, path])
    files = [[str(file) for file in files] for files in (segments.names, segments.folders)]
    if not all(files):
        return await database.run(columns.format("FROM fresh_names WHERE FALSE"))
    return await database.run(columns.format(_STORED), [*files, path])


def _compare(found: Rows, observed: _Observed, entries: Sequence[Entry]) -> Generator[None, None, _Difference | None]:
    known: dict[str, Row] = {}
    for start in range(0, len(found), SLICE):
        known |= {name: _make_row(is_dir, size, time) for name, is_dir, size, time in found[start : start + SLICE]}
        yield
    listed, unknown, listing = 0, list[str](), 0
    is_same = True
    for start in range(0, len(entries), SLICE):
        some = observed.scope.select(observed.path, entries[start : start + SLICE])
        rows = _make_rows(some)
        listed += len(rows)
        listing ^= hash(frozenset(rows))
        is_same = is_same and all(known.get(name) == row for name, row in rows)
        unknown += [
            entry.name
            for entry, (name, row) in zip(some, rows, strict=True)
            if row[0] and not entry.is_link and not known.get(name, (False,))[0] and _is_below(observed, entry.name)
        ]
        yield
    return None if is_same and listed == len(found) else _Difference(unknown, listing)


def _make_row(is_dir: bool, size: int | None, modified: float) -> Row:
    """Size and time of a folder follow what it holds, and make no difference."""
    return (True, None, 0.0) if is_dir else (False, size, modified)


def _make_rows(entries: Sequence[Entry]) -> list[tuple[str, Row]]:
    made = make_columns(entries)
    names = [other if name is None else name for name, other in zip(made.names, made.folded, strict=True)]
    return list(zip(names, map(_make_row, made.is_dir, made.sizes, made.modified), strict=True))


def _is_below(observed: _Observed, name: str) -> bool:
    """Whether the sub-folder of that name has a place of its own in the index."""
    child = find_child(observed.path, name)
    return child is not None and observed.scope.has_folder(child)
