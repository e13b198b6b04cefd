"""Writes intents and finished changes to the log of changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_event
from mangrove.records.files import index_changes
from mangrove.records.files.index_changes import MAX_NAMES_PER_CHANGE, ChangeKind, IndexChange
from mangrove.tree.places import Place

INTENT_RENEWAL_SECONDS = 20.0
INTENT_IDLE_SECONDS = 20.0  # that an intent is kept for further changes in its folder, where the process goes on
INTENT_EXPIRY_SECONDS = 60.0  # an intent that was not renewed for so long is that of a process that died
TICK_SECONDS = 1.0  # between two looks at the intents and at what could not be written
END_SECONDS = 1.0  # that a finished change waits until the log has it
MAX_QUEUED_CHANGES = 20_000  # that are not written yet, before tasks wait


@dataclass(slots=True, eq=False)
class _Intent:
    """`number`: of its row; `users`: changes that go on; `used_at`: monotonic time at which the last one ended."""

    number: str = ""
    written_at: float = float("-inf")  # of the monotonic clock
    users: int = 0
    used_at: float = 0.0


class Journal:
    """The intents of this process, and the changes that are not in the log yet."""

    def __init__(self) -> None:
        self._intents: dict[Place, _Intent] = {}
        self._queue: list[IndexChange] = []
        self._deletions: list[str] = []
        self._last_number = ""
        self._lock = asyncio.Lock()
        self._ticker: asyncio.Task[None] | None = None

    @property
    def keeps_intents(self) -> bool:
        """True if the process goes on after a request, so that the next change may use the intent of the last one."""
        return platform().reports_changes

    def cover(self, places: Iterable[Place]) -> set[Place]:
        """The places, or the folders above them that have an intent with all below."""
        return {self._find_cover(place) or place for place in places}

    def _find_cover(self, place: Place) -> Place | None:
        above = (Place(place.storage_id, str(folder), True) for folder in TreePath(place.path).ancestors())
        return next((folder for folder in above if folder in self._intents), None)

    async def begin(self, places: Collection[Place]) -> None:
        """Write the intents that are missing; the Problem of the records when that is not possible."""
        for place in places:
            self._intents.setdefault(place, _Intent()).users += 1
        limit = time.monotonic() - 2 * INTENT_RENEWAL_SECONDS
        try:
            if any(self._intents[place].written_at <= limit for place in places):
                await self._write_intents(places, limit)
        except BaseException:
            self._leave(places)
            raise
        self._start_ticker()

    async def _write_intents(self, places: Collection[Place], limit: float) -> None:
        """Write new rows for those of the intents that were written before `limit`, and delete their old ones."""
        async with self._lock:
            old = [place for place in places if place in self._intents and self._intents[place].written_at <= limit]
            if not old:
                return  # others have written them meanwhile
            now = time.monotonic()
            rows = self._number([IndexChange(one.storage_id, ChangeKind.INTENT, one.path, one.deep) for one in old])
            numbers = [self._intents[place].number for place in old]
            await asyncio.to_thread(index_changes.write, rows, list(filter(None, numbers)))
            for place, row in zip(old, rows, strict=True):
                if (intent := self._intents.get(place)) is None:
                    self._deletions.append(row.number)
                else:
                    intent.number, intent.written_at = row.number, now

    def _number(self, rows: Sequence[IndexChange]) -> list[IndexChange]:
        numbered = index_changes.number_changes(rows, self._last_number)
        self._last_number = numbered[-1].number if numbered else self._last_number
        return numbered

    def _leave(self, places: Iterable[Place]) -> None:
        """Note that a change is over; an intent that has no further use is deleted with the next write."""
        now = time.monotonic()
        for place in places:
            intent = self._intents.get(place)
            if intent is not None:
                intent.users -= 1
                intent.used_at = now
                self._drop_idle(place, intent, now)

    def _drop_idle(self, place: Place, intent: _Intent, now: float) -> None:
        idle = INTENT_IDLE_SECONDS if self.keeps_intents else 0.0
        if intent.users <= 0 and now - intent.used_at >= idle:
            del self._intents[place]
            if intent.number:
                self._deletions.append(intent.number)

    async def end(self, places: Collection[Place], changes: Sequence[IndexChange], *, waits: bool = True) -> None:
        """Write what has changed; never fails. Without `waits` only so far as too much of it is not written yet."""
        self._queue += changes
        self._leave(places)
        if self._queue or self._deletions:
            writing = asyncio.ensure_future(self._flush())
            if waits or len(self._queue) > MAX_QUEUED_CHANGES:
                await asyncio.wait([writing], timeout=END_SECONDS)

    async def add(self, changes: Sequence[IndexChange]) -> None:
        """Write changes that were made elsewhere; the Problem of the records when that is not possible."""
        async with self._lock:
            await asyncio.to_thread(index_changes.write, self._number(changes))

    async def _flush(self) -> None:
        """Write what waits by the time at which it is this call's turn, all of it together."""
        async with self._lock:
            queue, self._queue = self._queue, []
            deletions, self._deletions = self._deletions, []
            if not queue and not deletions:
                return
            began = time.monotonic()
            try:
                await asyncio.to_thread(index_changes.write, self._number(_join(queue)), deletions)
            except Problem as problem:
                log_event("changes could not be written for the search index, tried again", reason=problem.message)
                self._queue, self._deletions = queue + self._queue, deletions + self._deletions
                self._start_ticker()
                return
            if time.monotonic() - began > index_changes.VISIBLE_SECONDS / 2:  # a search may not have noticed them
                self._queue = [read for change in queue for read in _find_reads(change)] + self._queue
                self._start_ticker()

    def _start_ticker(self) -> None:
        if self._ticker is None or self._ticker.done() or self._ticker.get_loop() is not asyncio.get_running_loop():
            self._ticker = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        """Renew the intents that are in use, drop the others, and write what could not be written."""
        while self._intents or self._queue or self._deletions:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for place, intent in list(self._intents.items()):
                self._drop_idle(place, intent, now)
            try:
                await self._write_intents([*self._intents], now - INTENT_RENEWAL_SECONDS)
            except Problem:
                pass  # with the next tick
            await self._flush()


def _join(changes: Sequence[IndexChange]) -> list[IndexChange]:
    """Join neighbours that tell of names in one folder, as far as one row holds them."""
    joined: list[IndexChange] = []
    for change in changes:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.kind is change.kind is ChangeKind.NAMES
            and (last.storage_id, last.path) == (change.storage_id, change.path)
            and not {*last.removed, *(entry.name for entry in last.entries)}.intersection(
                (*change.removed, *(entry.name for entry in change.entries))
            )
            and len(last.entries) + len(last.removed) + len(change.entries) + len(change.removed)
            <= MAX_NAMES_PER_CHANGE
        ):
            joined[-1] = replace(last, entries=last.entries + change.entries, removed=last.removed + change.removed)
        else:
            joined.append(change)
    return joined


def _find_reads(change: IndexChange) -> list[IndexChange]:
    """The folders to be read where it is not certain that a change was noticed."""
    if change.kind in (ChangeKind.MOVE, ChangeKind.COPY):
        paths = [path for path in (change.path, change.target) if change.kind is ChangeKind.MOVE or path != change.path]
        reads = [IndexChange(change.storage_id, ChangeKind.READ, path, True) for path in paths]
        return reads + [replace(read, path=TreePath(read.path).parent, deep=False) for read in reads]
    return [IndexChange(change.storage_id, ChangeKind.READ, change.path, change.deep)]
