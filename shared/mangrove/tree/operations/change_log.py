"""The writer of intents and finished changes to the log of changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_event
from mangrove.records import index_changes
from mangrove.records.index_changes import MAX_NAMES_PER_CHANGE, ChangeKind, IndexChange
from mangrove.tree.mount_table import FolderScope

INTENT_RENEWAL_SECONDS = 20.0
INTENT_IDLE_SECONDS = 20.0  # an unused intent is kept for further changes in its folder, if the process lives on
INTENT_EXPIRY_SECONDS = 60.0  # an intent that was not renewed for so long belongs to a dead process
TICK_SECONDS = 1.0  # between two checks of the intents and of changes that could not be written
END_SECONDS = 1.0  # for which a finished change may wait to be logged
MAX_QUEUED_CHANGES = 20_000  # above this number tasks wait


@dataclass(slots=True, eq=False)
class _Intent:
    number: str = ""  # of its row
    written_at: float = float("-inf")  # of the monotonic clock
    users: int = 0  # running changes
    used_at: float = 0.0  # the end of the last one, by the monotonic clock


class ChangeLog:
    """The intents of this process, and the changes that are not logged yet."""

    def __init__(self) -> None:
        self._intents: dict[FolderScope, _Intent] = {}
        self._queue: list[IndexChange] = []
        self._deletions: list[str] = []
        self._last_number = ""
        self._lock = asyncio.Lock()
        self._ticker: asyncio.Task[None] | None = None

    @property
    def keeps_intents(self) -> bool:
        """True if the process lives on after a request, so that the next change can use the intent of the last one."""
        return platform().reports_changes

    def cover(self, scopes: Iterable[FolderScope]) -> set[FolderScope]:
        """Replace folders by a parent that has an intent including everything below it."""
        return {self._find_cover(scope) or scope for scope in scopes}

    def _find_cover(self, scope: FolderScope) -> FolderScope | None:
        covers = (FolderScope(scope.storage_id, str(folder), True) for folder in TreePath(scope.path).ancestors())
        return next((cover for cover in covers if cover in self._intents), None)

    async def begin(self, scopes: Collection[FolderScope]) -> None:
        """Write the missing intents. Raise a Problem of the records if that fails."""
        for scope in scopes:
            self._intents.setdefault(scope, _Intent()).users += 1
        limit = time.monotonic() - 2 * INTENT_RENEWAL_SECONDS
        try:
            if any(self._intents[scope].written_at <= limit for scope in scopes):
                await self._write_intents(scopes, limit)
        except BaseException:
            self._leave(scopes)
            raise
        self._start_ticker()

    async def _write_intents(self, scopes: Collection[FolderScope], limit: float) -> None:
        """Write new rows for the intents that were written before `limit`, and delete the old rows."""
        async with self._lock:
            old = [scope for scope in scopes if scope in self._intents and self._intents[scope].written_at <= limit]
            if not old:
                return  # another change has written them meanwhile
            now = time.monotonic()
            rows = self._number([IndexChange(id, ChangeKind.INTENT, path, deep) for id, path, deep in old])
            numbers = [self._intents[scope].number for scope in old]
            await asyncio.to_thread(index_changes.write, rows, list(filter(None, numbers)))
            for scope, row in zip(old, rows, strict=True):
                if (intent := self._intents.get(scope)) is None:
                    self._deletions.append(row.number)
                else:
                    intent.number, intent.written_at = row.number, now

    def _number(self, rows: Sequence[IndexChange]) -> list[IndexChange]:
        numbered = index_changes.number_changes(rows, self._last_number)
        self._last_number = numbered[-1].number if numbered else self._last_number
        return numbered

    def _leave(self, scopes: Iterable[FolderScope]) -> None:
        """Record the end of a change. An unused intent is deleted with the next write."""
        now = time.monotonic()
        for scope in scopes:
            intent = self._intents.get(scope)
            if intent is not None:
                intent.users -= 1
                intent.used_at = now
                self._drop_idle(scope, intent, now)

    def _drop_idle(self, scope: FolderScope, intent: _Intent, now: float) -> None:
        idle_seconds = INTENT_IDLE_SECONDS if self.keeps_intents else 0.0
        if intent.users <= 0 and now - intent.used_at >= idle_seconds:
            del self._intents[scope]
            if intent.number:
                self._deletions.append(intent.number)

    async def end(self, scopes: Collection[FolderScope], changes: Sequence[IndexChange], *, waits: bool = True) -> None:
        """Write finished changes; never fails. Without `waits` it waits only while too many are unwritten."""
        self._queue += changes
        self._leave(scopes)
        if self._queue or self._deletions:
            writing = asyncio.ensure_future(self._flush())
            if waits or len(self._queue) > MAX_QUEUED_CHANGES:
                await asyncio.wait([writing], timeout=END_SECONDS)

    async def add(self, changes: Sequence[IndexChange]) -> None:
        """Write changes that were made elsewhere. Raise a Problem of the records if that fails."""
        async with self._lock:
            await asyncio.to_thread(index_changes.write, self._number(_join(changes)))

    async def _flush(self) -> None:
        """Write all waiting changes together when it is this call's turn."""
        async with self._lock:
            queue, self._queue = self._queue, []
            deletions, self._deletions = self._deletions, []
            if not queue and not deletions:
                return
            began_at = time.monotonic()
            try:
                await asyncio.to_thread(index_changes.write, self._number(_join(queue)), deletions)
            except Problem as problem:
                log_event("changes could not be logged for the search index; retrying", reason=problem.message)
                self._queue, self._deletions = queue + self._queue, deletions + self._deletions
                self._start_ticker()
                return
            if time.monotonic() - began_at > index_changes.MAX_WRITE_DELAY_SECONDS / 2:  # a search may have missed them
                self._queue = [read for change in queue for read in _make_reads(change)] + self._queue
                self._start_ticker()

    def _start_ticker(self) -> None:
        if self._ticker is None or self._ticker.done() or self._ticker.get_loop() is not asyncio.get_running_loop():
            self._ticker = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        """Renew the intents in use, drop the others, and write the changes that could not be written."""
        while self._intents or self._queue or self._deletions:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for scope, intent in list(self._intents.items()):
                self._drop_idle(scope, intent, now)
            try:
                await self._write_intents([*self._intents], now - INTENT_RENEWAL_SECONDS)
            except Problem:
                pass  # the next tick tries again
            await self._flush()


def _join(changes: Sequence[IndexChange]) -> list[IndexChange]:
    """Merge adjacent changes of names in one folder, as far as one row can hold them."""
    groups: list[list[IndexChange]] = []
    count, names = 0, set[str]()  # of the last group
    for change in changes:
        change_names = _get_names(change)
        count += len(change_names)
        if (
            groups
            and count <= MAX_NAMES_PER_CHANGE
            and _can_join(groups[-1][0], change)
            and names.isdisjoint(change_names)
        ):
            groups[-1].append(change)
        else:
            groups.append([change])
            count, names = len(change_names), set()
        names.update(change_names)
    return [_merge(group) for group in groups]


def _can_join(first: IndexChange, second: IndexChange) -> bool:
    is_same_folder = (first.storage_id, first.path) == (second.storage_id, second.path)
    return is_same_folder and first.kind is ChangeKind.NAMES and second.kind is ChangeKind.NAMES


def _get_names(change: IndexChange) -> list[str]:
    return [*change.removed, *(entry.name for entry in change.entries)]


def _merge(group: Sequence[IndexChange]) -> IndexChange:
    if len(group) == 1:
        return group[0]
    entries = tuple(entry for change in group for entry in change.entries)
    return replace(group[0], entries=entries, removed=tuple(name for change in group for name in change.removed))


def _make_reads(change: IndexChange) -> list[IndexChange]:
    """Return changes that request a read of the folders of a change."""
    if change.kind in (ChangeKind.MOVE, ChangeKind.COPY):
        paths = [path for path in (change.path, change.target) if change.kind is ChangeKind.MOVE or path != change.path]
        reads = [IndexChange(change.storage_id, ChangeKind.READ, path, True) for path in paths]
        return reads + [replace(read, path=TreePath(read.path).parent, deep=False) for read in reads]
    return [IndexChange(change.storage_id, ChangeKind.READ, change.path, change.deep)]
