"""Which worker holds a task, decided without comparing clocks.

On one machine the lock on the data directory keeps other processes away: a task is held when a worker of this process
holds it, and whatever lease the record still tells of is that of a dead process. In the cloud a worker that finds a
lease watches it: a holder that lives renews it every HEARTBEAT_SECONDS, and then the worker is Busy and goes away; one
that shows no sign of life for LEASE_SECONDS, as the watcher's own monotonic clock tells them, has lost the task to a
write on condition that the lease still is the one that was watched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from secrets import token_hex

from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Lease, Task

LEASE_SECONDS = 30.0
HEARTBEAT_SECONDS = 2.0  # how often a long piece of work looks for its cancel mark and renews its lease
READ_AHEAD_SECONDS = 5.0  # that a record which was read ahead is good for: whatever changes it is noticed with a beat


class Busy(Problem):
    """Another worker holds the task; worth a retry."""

    text = "another worker is at this task"


class Superseded(Problem):
    """The lease went to another worker, or there is no task any more."""

    text = "another worker took this task over"


class HeldTasks:
    """The tasks that workers of this process hold, by id. A task that is kept between two steps of one execution is
    `waiting`: as its record would be, with the token of its lease, if that had been written. `read ahead` are tasks
    that nobody holds yet, as their records were a moment ago."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._read_ahead: dict[str, tuple[Task, float]] = {}
        self._waiting: dict[str, tuple[Task, str]] = {}
        self._unwritten: set[str] = set()

    def hold(self, id: str) -> tuple[Task, str] | None:
        """Hold a task; what was kept of it. Busy when a worker of this process has it."""
        kept = self._waiting.pop(id, None)
        if kept is None and id in self._held:
            raise Busy
        self._held.add(id)
        if kept is not None:
            self._unwritten.add(id)
        return kept

    def keep(self, task: Task, token: str) -> None:
        """Keep a task that is held for the next step."""
        self._unwritten.discard(task.id)
        self._waiting[task.id] = task, token

    def release(self, id: str) -> None:
        """Hold a task no more."""
        self._held.discard(id)
        self._unwritten.discard(id)
        self._waiting.pop(id, None)

    def add_read(self, tasks: Sequence[Task]) -> None:
        """Add what was read ahead; what is too old goes."""
        now = time.monotonic()
        self._read_ahead = {
            id: (task, read) for id, (task, read) in self._read_ahead.items() if now - read < READ_AHEAD_SECONDS
        } | {task.id: (task, now) for task in tasks if task.id not in self._held}

    def take_read(self, id: str) -> Task | None:
        """A task that was read ahead no more than READ_AHEAD_SECONDS ago; once."""
        task, read = self._read_ahead.pop(id, (None, 0.0))
        return task if time.monotonic() - read < READ_AHEAD_SECONDS else None

    def find_read(self, id: str) -> Task | None:
        """Return a task that was read ahead, and leave it there."""
        task, _ = self._read_ahead.get(id, (None, 0.0))
        return task

    def is_unwritten(self, id: str) -> bool:
        """Return True if a task that is held was kept by an earlier step."""
        return id in self._unwritten

    def has(self, id: str) -> bool:
        """True if a worker may hold a task: one of this process, or of another one that alone knows."""
        return platform().dispatcher.is_remote or id in self._held


def get_held() -> HeldTasks:
    """The tasks that this process holds."""
    return runtime.get(HeldTasks)


async def acquire(id: str) -> tuple[Task, str]:
    """The task, held from now on, and the token of its lease; Busy while another worker holds it, Superseded when
    there is none."""
    if not platform().single_task_process:
        return await _write_lease(id)
    kept = get_held().hold(id)
    if kept is not None:
        return kept
    try:
        return await _read(id)
    except BaseException:
        get_held().release(id)
        raise


async def _read(id: str) -> tuple[Task, str]:
    """A task that no other process can hold: its lease is written with the first progress."""
    return get_held().take_read(id) or await find_task(id), token_hex(12)


async def find_task(id: str) -> Task:
    """The task as its record is now; Superseded when there is none."""
    try:
        return await asyncio.to_thread(records.get, id)
    except RecordNotFound:
        raise Superseded from None


async def _write_lease(id: str) -> tuple[Task, str]:
    token, over = token_hex(12), None
    while True:
        try:
            return await asyncio.to_thread(records.acquire_lease, id, token, LEASE_SECONDS, over), token
        except RecordConflict:
            if over is not None:
                raise Busy from None  # another one who watched was quicker, or the holder lives
        over = await _watch(id)


async def _watch(id: str) -> Lease:
    """The lease of a task, when its holder has shown no sign of life for LEASE_SECONDS; Busy as soon as it does."""
    lease = (await find_task(id)).lease
    end = time.monotonic() + LEASE_SECONDS
    while lease.until > 0 and time.monotonic() < end:
        await asyncio.sleep(min(HEARTBEAT_SECONDS, LEASE_SECONDS))
        if (await find_task(id)).lease != lease:
            raise Busy
    return lease
