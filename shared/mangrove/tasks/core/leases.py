"""Leases and slots: a task has one worker, and a kind of tasks a limited number of workers.

Every task has a lease. Clocks are not compared to decide whether it has ended. In the standalone service the lock on
the data directory excludes other processes: a task is held if a worker of this process holds it, and a lease in its
record belongs to a dead process.

In the cloud a worker that finds a lease watches it. A live holder renews its lease every HEARTBEAT_INTERVAL_SECONDS;
then the watcher raises Busy. A lease that does not change for LEASE_SECONDS of the watcher's own monotonic clock has
ended. The watcher takes it by a conditional write that fails if the lease has changed.

A step in the cloud also holds a slot of its kind, as the settings `…_task_threads_num` say. If no slot is free, its
machine tries again, first after seconds, then after minutes. A slot ends by the clock, since it only limits the load.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from secrets import token_hex

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import model as records
from mangrove.records.tasks import slots
from mangrove.records.tasks.model import Lease, Task
from mangrove.tasks.core.registry import KINDS

LEASE_SECONDS = 30.0
HEARTBEAT_INTERVAL_SECONDS = 2.0  # between two renewals of a lease, which also read whether the task is cancelled
MAX_READ_AHEAD_AGE_SECONDS = 5.0  # age of a record that was read ahead; a heartbeat notices later changes
SLOT_SECONDS = 60.0  # after which the slot of a dead worker is free
SLOT_RENEWAL_INTERVAL_SECONDS = 20.0
MAX_SLOTS = 500  # of a kind: every holder writes the same record
TOUCH_INTERVAL_SECONDS = 600.0  # between two writes that keep the sweep from starting a waiting task


class Busy(Problem):
    """Another worker holds the task. The caller should retry."""

    text = "another worker has this task"


class Superseded(Problem):
    """Another worker has taken the lease, or the task was deleted."""

    text = "another worker took this task over"


class NoSlot(Problem):
    """The maximum number of tasks of the kind is running. The caller should retry."""

    text = "the maximum number of tasks is running"


@dataclass(slots=True)
class HeldTask:
    """A task that a worker of this process holds."""

    task: Task
    token: str
    """The token of its lease."""
    unwritten: Task | None = None
    """The task with the unwritten result of the last step; None if the record is up to date."""
    is_busy: bool = True
    """False between two steps."""


class HeldTasks:
    """The tasks that workers of this process hold, and records of tasks that are about to start."""

    def __init__(self) -> None:
        self._held: dict[str, HeldTask | None] = {}  # None while the record is read
        self._read_ahead: dict[str, tuple[Task, float]] = {}

    async def acquire(self, id: str) -> HeldTask:
        """Hold a task of which no other process holds the lease. Raise Busy if a worker of this process has it."""
        if id in self._held:
            held = self._held[id]
            if held is None or held.is_busy:
                raise Busy
            held.is_busy = True
            return held
        self._held[id] = None
        try:
            held = self._held[id] = HeldTask(self.take_read_ahead(id) or await find_task(id), token_hex(12))
        except BaseException:
            self.release(id)
            raise
        return held

    def end_step(self, held: HeldTask) -> None:
        """Release a task, or keep it for the next step if it has unwritten changes."""
        if held.unwritten is None:
            self.release(held.task.id)
        else:
            held.task, held.is_busy = held.unwritten, False

    def release(self, id: str) -> None:
        """Release a task."""
        self._held.pop(id, None)

    def has(self, id: str) -> bool:
        """True if a worker may hold the task: one of this process, or of the process that runs all tasks."""
        return platform().dispatcher.is_remote or id in self._held

    def add_read_ahead(self, tasks: Sequence[Task]) -> None:
        """Add records that were read ahead, and drop those that are too old."""
        now = time.monotonic()
        self._read_ahead = {
            id: (task, read) for id, (task, read) in self._read_ahead.items() if now - read < MAX_READ_AHEAD_AGE_SECONDS
        } | {task.id: (task, now) for task in tasks if task.id not in self._held}

    def take_read_ahead(self, id: str) -> Task | None:
        """Remove and return a record that was read ahead, None if there is none or it is too old."""
        task, read = self._read_ahead.pop(id, (None, 0.0))
        return task if time.monotonic() - read < MAX_READ_AHEAD_AGE_SECONDS else None

    def find_read_ahead(self, id: str) -> Task | None:
        """Return a record that was read ahead without removing it."""
        task, _ = self._read_ahead.get(id, (None, 0.0))
        return task


def get_held() -> HeldTasks:
    """Return the tasks that this process holds."""
    return runtime.get(HeldTasks)


async def acquire(id: str) -> HeldTask:
    """Hold a task. Raise Busy if another worker holds it, Superseded if it was deleted."""
    if platform().single_task_process:
        return await get_held().acquire(id)  # its lease is written with the first progress
    token, expired = token_hex(12), None
    while True:
        try:
            task = await asyncio.to_thread(records.acquire_lease, id, token, LEASE_SECONDS, expired)
            return HeldTask(task, token)
        except RecordConflict:
            if expired is not None:
                raise Busy from None  # another watcher was faster, or the holder is alive
        expired = await _watch(id)


async def _watch(id: str) -> Lease:
    """Return the lease of a task once it has not changed for LEASE_SECONDS. Raise Busy as soon as it changes."""
    lease = (await find_task(id)).lease
    end = time.monotonic() + LEASE_SECONDS
    while lease.until > 0 and time.monotonic() < end:
        await asyncio.sleep(min(HEARTBEAT_INTERVAL_SECONDS, LEASE_SECONDS))
        if (await find_task(id)).lease != lease:
            raise Busy
    return lease


async def find_task(id: str) -> Task:
    """Return the present record of the task. Raise Superseded if it was deleted."""
    try:
        return await asyncio.to_thread(records.get, id)
    except RecordNotFound:
        raise Superseded from None


@asynccontextmanager
async def hold_slot(id: str) -> AsyncIterator[None]:
    """Hold a slot of the task's kind. Raise NoSlot if none is free. A task that only has to end needs none."""
    if platform().single_task_process:
        yield
        return
    task = await find_task(id)
    setting = KINDS[task.kind].workers
    if task.done or task.cancel or not isinstance(setting, str):
        yield
        return
    slot_count = min((await configuration.get()).settings.task_workers(setting), MAX_SLOTS)
    if not await asyncio.to_thread(slots.acquire, task.kind, task.id, slot_count, SLOT_SECONDS):
        await _note_waiting(task)
        raise NoSlot
    renewing, is_own = asyncio.create_task(_renew_slot(task, slot_count)), True
    try:
        yield
    except Busy:
        is_own = False  # it is the slot of the execution that holds the task
        raise
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
        if is_own:
            with suppress(Problem):  # it expires
                await asyncio.to_thread(slots.release, task.kind, task.id)


async def _note_waiting(task: Task) -> None:
    """Note in the record that the task waits for a slot, and from time to time that it still does."""
    now = time.time()
    if not task.view.waiting or now - task.touched > TOUCH_INTERVAL_SECONDS:
        view = replace(task.view, waiting=task.view.waiting or now)
        await asyncio.to_thread(records.touch, task, view)


async def _renew_slot(task: Task, slot_count: int) -> None:
    """Renew a slot until cancelled. A step that loses its slot continues to its end."""
    while True:
        await asyncio.sleep(SLOT_RENEWAL_INTERVAL_SECONDS)
        with suppress(Problem):
            await asyncio.to_thread(slots.acquire, task.kind, task.id, slot_count, SLOT_SECONDS)
