"""Changes that other programs make in a storage, found by comparing listings with the index.

The listing was read for another purpose. Differences go to the log of changes, like changes of this service.

It runs in the standalone service only, with little load: few listings wait, and after each comparison there is a pause
of several times its length.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from mangrove import configuration
from mangrove.core.chunked import chunked
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_exception
from mangrove.drivers.base import Entry
from mangrove.records.index_changes import MAX_NAMES_PER_CHANGE, ChangeKind, IndexChange, IndexedName
from mangrove.search.calls import Rows
from mangrove.search.columns import make_columns
from mangrove.search.index import search_index
from mangrove.search.names import decode_name, encode_name
from mangrove.search.scope import IndexScope, find_child, is_indexed
from mangrove.search.statements import SegmentsPart, TablesPart
from mangrove.search.tables import SearchedStorage
from mangrove.search.words import ALL, unite
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal

MAX_WAITING_LISTINGS = 16
MAX_COMPARED_ENTRIES = 10_000  # of a folder; changes in a larger one are found by the next build
ENTRIES_PER_SLICE = 1024
PAUSE_FACTOR = 5.0  # times the length of the comparison

Row = tuple[bool, int | None, float]  # from the index: is it a folder, size, time


@dataclass(frozen=True, slots=True)
class _Observed:
    """A folder as it was listed."""

    storage_path: StoragePath
    folder: CachedFolder
    scope: IndexScope

    @property
    def path(self) -> TreePath:
        """Its path in the tree."""
        return self.storage_path.mount.path / self.storage_path.path


class Corrections:
    """The listings that wait for a comparison."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str], _Observed] = {}
        self._has_work = asyncio.Event()
        listings().add_observer(self.note)

    def note(self, storage_path: StoragePath, folder: CachedFolder) -> None:
        """Queue a listing for comparison, if there is room."""
        settings, storage = configuration.cached().settings, storage_path.mount.storage
        if not settings.corrects_index or not is_indexed(storage, settings):
            return
        observed, key = _Observed(storage_path, folder, IndexScope.make(settings)), (storage.id, str(storage_path.path))
        is_full = key not in self._waiting and len(self._waiting) >= MAX_WAITING_LISTINGS
        if is_full or len(folder.entries) > MAX_COMPARED_ENTRIES or not observed.scope.has_folder(observed.path):
            return
        self._waiting[key] = observed
        self._has_work.set()

    async def run(self) -> None:
        """Compare the waiting listings until cancelled."""
        while True:
            await self._has_work.wait()
            began = time.monotonic()
            await self.correct_next()
            await asyncio.sleep((time.monotonic() - began) * PAUSE_FACTOR)

    async def correct_next(self) -> None:
        """Compare the listing that waits longest, and log the differences.

        After a failure, the next listing of the folder is compared.
        """
        if not self._waiting:
            self._has_work.clear()
            return
        observed = self._waiting.pop(next(iter(self._waiting)))
        try:
            await _correct(observed)
        except Problem:
            pass  # the records or the database are busy, or the index is being replaced
        except Exception:  # an error here must not end the corrections of other listings
            log_exception(
                "listing could not be compared with the search index", storage=observed.storage_path.mount.storage.id
            )


async def _correct(observed: _Observed) -> None:
    rows = await _select_names(observed)
    if rows is None:
        return
    await observed.folder.entries.read_details()
    changes = await _compare(rows, observed)
    if changes and observed.folder.stamp.is_current():  # otherwise the service has changed it since
        await journal.note(*changes)


async def _select_names(observed: _Observed) -> Rows | None:
    """Return the content of a folder as a search finds it; None if its index is being built as a whole."""
    mount, path = observed.storage_path.mount, observed.storage_path.path
    opened = await search_index().tables.open([SearchedStorage(mount.storage.id, mount.path, (path,))])
    if opened.missing or opened.partial:
        return None
    (place,) = opened.places
    parts = [TablesPart(0, [place]), *([SegmentsPart(1, place)] if place.segments is not None else ())]
    rows = unite(part.select(ALL) for part in parts)
    text = f"SELECT name, is_dir, size, modified FROM ({rows.text}) WHERE path = ? LIMIT {2 * MAX_COMPARED_ENTRIES}"
    return await search_index().database.run(text, (*rows.parameters, encode_name(path)))


@chunked
def _compare(rows: Rows, observed: _Observed) -> Generator[None, None, list[IndexChange]]:
    """Return the changes that make the index equal to the listing."""
    known = {name: _make_row(is_dir, size, modified) for name, is_dir, size, modified in rows}
    yield
    entries, changed, unknown = observed.folder.entries, list[Entry](), list[str]()
    for start in range(0, len(entries), ENTRIES_PER_SLICE):
        listed = observed.scope.select(observed.path, entries[start : start + ENTRIES_PER_SLICE])
        for entry, (name, row) in zip(listed, _make_rows(listed), strict=True):
            old = known.pop(name, None)
            if old != row:
                changed.append(entry)
            if row[0] and not entry.is_link and (old is None or not old[0]):
                unknown.append(entry.name)
        yield
    return list(_make_changes(observed, changed, [*map(decode_name, known)], unknown))


def _make_changes(
    observed: _Observed, changed: Sequence[Entry], removed: Sequence[str], unknown: Sequence[str]
) -> Generator[IndexChange, None, None]:
    id, path = observed.storage_path.mount.storage.id, observed.storage_path.path
    for start in range(0, len(removed), MAX_NAMES_PER_CHANGE):
        names = tuple(removed[start : start + MAX_NAMES_PER_CHANGE])
        yield IndexChange(id, ChangeKind.NAMES, str(path), removed=names)
    for start in range(0, len(changed), MAX_NAMES_PER_CHANGE):
        entries = changed[start : start + MAX_NAMES_PER_CHANGE]
        names_there = tuple(IndexedName(entry.name, entry.is_dir, entry.size, entry.modified) for entry in entries)
        yield IndexChange(id, ChangeKind.NAMES, str(path), entries=names_there)
    for name in unknown:
        child = find_child(path, name)
        if child is not None and observed.scope.has_folder(observed.storage_path.mount.path / child):
            yield IndexChange(id, ChangeKind.READ, str(child), True)


def _make_row(is_dir: bool, size: int | None, modified: float) -> Row:
    """True if two entries differ. Size and time of a folder follow its content and are ignored."""
    return (True, None, 0.0) if is_dir else (False, size, modified)


def _make_rows(entries: Sequence[Entry]) -> list[tuple[str, Row]]:
    made = make_columns(entries)
    names = [other if name is None else name for name, other in zip(made.names, made.folded, strict=True)]
    return list(zip(names, map(_make_row, made.is_dir, made.sizes, made.modified), strict=True))
