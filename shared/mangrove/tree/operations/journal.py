"""What this service changes: listings forget it, and marks in the records say where the search index may be wrong.

Every change of a storage is made within a `Change`: `async with journal.change(located): await driver.rename(…)`. The
folders that it touches are marked before it begins: RecordsUnavailable, and nothing is changed, where that cannot be.
While it goes on its marks are noted anew, and once more when it is over, if the last time is COALESCE_SECONDS ago; what
cannot be written then is tried until it can, and never turns a finished change into a failure. So, whenever a process
dies, every folder it changed carries a mark that is younger than a walk that may delete it allows (SLACK_SECONDS).

What a task changes below a folder of which this process wrote a deep mark notes that one anew; what a request changes
has a mark of its own all the same, since a search may find the folder too large to be read again as a whole.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from mangrove.configuration import snapshot
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_event
from mangrove.records.files import index_marks
from mangrove.records.files.index_marks import Place
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import Located, Mount, Mounts
from mangrove.tree.places import find_all_places

COALESCE_SECONDS = 2.0  # for which a mark counts for all changes in its folder
TICK_SECONDS = 1.0  # between two looks at the marks of changes that go on; with COALESCE_SECONDS less than the slack
DEEP_SECONDS = 60.0  # for which a deep mark stands for all that is changed below it
END_SECONDS = 1.0  # that a finished change waits for its second mark
MOST_KNOWN = 4096  # marks that are remembered
NEVER = float("-inf")


class Touched(NamedTuple):
    """A folder that is changed; `deep`: with all below it."""

    located: Located
    deep: bool = False


@dataclass(slots=True, eq=False)
class _Batch:
    """Places that are marked by one write. Its result: why that failed, None when it did not."""

    places: set[Place] = field(default_factory=set)
    task: asyncio.Task[Problem | None] | None = None


class Journal:
    """What this process marked last, and what it is changing."""

    def __init__(self) -> None:
        self._noted: dict[Place, float] = {}  # seconds of the monotonic clock, the oldest first
        self._open: Counter[Place] = Counter()
        self._owed: set[Place] = set()
        self._lock = asyncio.Lock()
        self._running: _Batch | None = None
        self._next: _Batch | None = None
        self._ticker: asyncio.Task[None] | None = None

    def cover(self, places: Iterable[Place]) -> set[Place]:
        """The places, or the deep marks of this process that they lie below."""
        return {self.find_cover(place) or place for place in places}

    def find_cover(self, place: Place) -> Place | None:
        """The deep mark of this process that a place lies below."""
        now = time.monotonic()
        for folder in TreePath(place.path).ancestors():
            deep = Place(place.storage_id, str(folder), True)
            if now - self._noted.get(deep, NEVER) < DEEP_SECONDS or deep in self._open:
                return deep
        return None

    def is_noted(self, place: Place) -> bool:
        """Whether this process marked a place so short a time ago that who reads it now reads it again later."""
        return time.monotonic() - self._noted.get(place, NEVER) < index_marks.SLACK_SECONDS

    async def note(self, places: Collection[Place]) -> None:
        """Mark places; the Problem of the records when that is not possible."""
        problem = await self._mark(places)
        if problem is not None:
            raise problem

    async def begin(self, places: Collection[Place]) -> None:
        """Mark what is going to change; the Problem of the records when that is not possible."""
        await self.note(places)
        self._open.update(places)
        self._tick_on()

    async def end(self, places: Collection[Place]) -> None:
        """Mark what has changed where the last mark is too old by now; never fails."""
        for place in places:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]
        if stale := self._find_stale(places):
            await asyncio.wait([asyncio.ensure_future(self._note_end(stale))], timeout=END_SECONDS)

    async def _note_end(self, places: Collection[Place]) -> None:
        problem = await self._mark(places)
        if problem is not None:
            log_event("changes could not be marked for the search index, tried again", reason=problem.message)
            self._owed.update(places)
            self._tick_on()

    def _find_stale(self, places: Iterable[Place]) -> set[Place]:
        limit = time.monotonic() - COALESCE_SECONDS
        return {place for place in places if self._noted.get(place, NEVER) <= limit}

    async def _mark(self, places: Iterable[Place]) -> Problem | None:
        """Write the marks that are too old, together with those that others ask for meanwhile."""
        wanted = self._find_stale(places)
        waiting: list[_Batch] = []
        if self._running is not None and wanted & self._running.places:
            waiting.append(self._running)
            wanted -= self._running.places
        if wanted:
            waiting.append(self._add_to_next(wanted))
        problems = [await asyncio.shield(batch.task) for batch in waiting if batch.task is not None]
        return next(filter(None, problems), None)

    def _add_to_next(self, wanted: set[Place]) -> _Batch:
        batch = self._next
        if batch is None:
            batch = self._next = _Batch()
            batch.task = asyncio.create_task(self._write(batch))
        batch.places |= wanted
        return batch

    async def _write(self, batch: _Batch) -> Problem | None:
        async with self._lock:
            self._next, self._running = None, batch
            noted = time.monotonic()
            try:
                await asyncio.to_thread(index_marks.put_many, batch.places)
            except Problem as problem:
                return problem
            finally:
                self._running = None
            self._remember(batch.places, noted)
        return None

    def _remember(self, places: Iterable[Place], noted: float) -> None:
        for place in places:
            self._noted.pop(place, None)
            self._noted[place] = noted
        while len(self._noted) > MOST_KNOWN:
            del self._noted[next(iter(self._noted))]

    def _tick_on(self) -> None:
        if self._ticker is None or self._ticker.done() or self._ticker.get_loop() is not asyncio.get_running_loop():
            self._ticker = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        """Note the marks of what goes on anew, and those that could not be written at its end."""
        while self._open or self._owed:
            await asyncio.sleep(TICK_SECONDS)
            owed = set(self._owed)
            if await self._mark(owed.union(self._open)) is None:
                self._owed -= owed


class Change:
    """A change of a storage while it is made. `forget` drops the listings that it touches, whether or not it was made
    in full; `in_bulk`: with many others, by a task."""

    def __init__(self, forget: Callable[[], None], touched: Collection[Touched], in_bulk: bool = False) -> None:
        self._forget = forget
        self._touched = touched
        self._in_bulk = in_bulk
        self._places: set[Place] = set()

    async def begin(self) -> None:
        """Mark what it touches; the Problem of the records, and nothing is to be changed, when that is not possible."""
        places = await _find_marked(self._touched)
        if places and self._in_bulk:
            places = runtime.get(Journal).cover(places)
        if places:
            await runtime.get(Journal).begin(places)
        self._places = places

    async def end(self) -> None:
        """Drop the listings, and mark what has changed, if it ever began."""
        self._forget()
        if self._places:
            await runtime.get(Journal).end(self._places)

    async def __aenter__(self) -> None:
        await self.begin()

    async def __aexit__(self, *_: object) -> None:
        await self.end()


async def _find_marked(touched: Collection[Touched]) -> set[Place]:
    """The places to be marked: of all storages that show what is touched, and whose names are in the index."""
    if not has_marks():
        return set()
    found: set[Place] = set()
    for located, deep in touched:
        found |= await find_all_places(located.mount.storage.id, located.path, deep)
    table = runtime.get(Mounts).table
    ignored = snapshot.current().settings.ignore_paths
    return {place for place in found if _is_indexed(table.by_id.get(place.storage_id), place.path, ignored)}


def has_marks() -> bool:
    """Whether changes are marked."""
    return snapshot.is_loaded() and snapshot.current().settings.marks_changes


def is_covered(located: Located) -> bool:
    """Whether a deep mark stands for all that a task changes at and below a folder."""
    place = Place(located.mount.storage.id, str(located.path))
    return runtime.get(Journal).find_cover(place) is not None


def _is_indexed(mount: Mount | None, path: str, ignored: Collection[TreePath]) -> bool:
    if mount is None or mount.storage.disable_index:
        return False
    if mount.driver is not None and not mount.driver.config.is_indexed:
        return False
    return not ignored or not any((mount.path / path).within(folder) for folder in ignored)


async def note(*touched: Touched) -> None:
    """Mark what others have changed."""
    places = await _find_marked(touched)
    if places:
        await runtime.get(Journal).note(places)


def add(located: Located) -> Change:
    """A new or replaced file, or an empty folder, whose folder is there."""
    return Change(lambda: _forget_upwards(located), [Touched(located.parent)])


def make_folders(located: Located, first: Located | None, *, in_bulk: bool) -> Change:
    """A folder that is made with those above it that are missing; `first`: the topmost of these, None for none."""
    touched = [Touched((first or located).parent), *([Touched(first, True)] if first is not None else ())]
    return Change(lambda: _forget_upwards(located), touched, in_bulk)


def change(*entries: Located, are_folders: bool = False) -> Change:
    """Entries that appear, vanish or become others; `are_folders`: or folders that do so with all they hold."""

    def forget() -> None:
        for entry in entries:
            _forget(entry)

    folders = [Touched(entry, True) for entry in entries] if are_folders else []
    return Change(forget, [*(Touched(entry.parent) for entry in entries), *folders])


def change_folders(*touched: Touched) -> Change:
    """What a task changes in the folders themselves: of those that are `deep`, also in what is below."""

    def forget() -> None:
        folders = {(one.mount.storage.id, path) for one, _ in touched for path in one.path.ancestors()}
        for storage_id, path in folders:
            listings().forget(storage_id, path)
        for located in (one for one, deep in touched if deep):
            listings().forget_below(located.mount.storage.id, located.path)

    return Change(forget, touched, in_bulk=True)


def _forget_upwards(located: Located) -> None:
    """Drop the listings that a new entry (and new folders on the way to it) changed."""
    for folder in located.path.ancestors():
        listings().forget(located.mount.storage.id, folder)


def _forget(located: Located) -> None:
    """Drop the listings of a changed entry's folder, of itself and of all below."""
    listings().forget(located.mount.storage.id, located.path.parent)
    listings().forget_below(located.mount.storage.id, located.path)
