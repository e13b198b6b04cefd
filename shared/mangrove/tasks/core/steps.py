"""The frame of every worker: hold the task, work for a step of time, save the result, and tell if there is more.

A step is idempotent: the next step may repeat the work since the last save.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from mangrove import configuration
from mangrove.core import metering
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.metering import ByteMeter
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound, RecordsThrottled, RecordsUnavailable, UnreadableTask
from mangrove.core.telemetry import log_ended_task, log_warning, use_request_id
from mangrove.records.store.base import RecordConflict, RecordRefused
from mangrove.records.store.encryption import DecryptionError
from mangrove.records.tasks import model as records
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import MAX_ITEM_CHARACTERS, Task
from mangrove.tasks.core import leases
from mangrove.tasks.core.leases import Busy, HeldTask, NoSlot, Superseded, get_held, hold_slot
from mangrove.tasks.core.model import CursorT, Schema, SpecT, State, format_now
from mangrove.tasks.core.registry import KINDS

CANCELED = "context canceled"
SAVE_INTERVAL_SECONDS = 2.0  # between two writes of progress
PROGRESS_CHECK_INTERVAL_SECONDS = 0.5  # between two checks if a step has progress to write, where writes are cheap
MAX_NAMED_FAILURES = 3  # failed items that the error of a task names
MAX_UNWRITTEN_SECONDS = 1.0  # of a step whose result may stay in memory until the next step ends
MAX_OVERRUN_SECONDS = 20.0  # after the end of a step, for work that has started

RETRIED_LATER = {kind.__name__ for kind in (Busy, NoSlot, RecordsUnavailable, RecordsThrottled)}
"""The problems that end an execution but not its task."""

Result = TypeVar("Result")


class Cancelled(Problem):
    """The task should stop."""

    text = CANCELED


class Run(Generic[SpecT, CursorT]):
    """A task while this worker holds it. Work changes `view` and `cursor`, then saves them."""

    def __init__(self, held: HeldTask, schema: Schema[SpecT, CursorT], seconds: float) -> None:
        self.task = held.task
        self.spec = schema.spec.load(self.task.spec)
        self.cursor = schema.cursor.load(self.task.cursor)
        self.view = replace(self.task.view, waiting=0.0)
        self.wait = 0  # seconds until the next step is useful
        self._held = held
        self._began = time.monotonic()
        self._end = self._began + seconds
        self._counted_bytes = self.view.done_bytes  # of complete work
        self._meters: set[ByteMeter] = set()  # of work in flight

    def has_time(self) -> bool:
        """True if the step has time left."""
        return time.monotonic() < self._end

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the end of the step."""
        return max(self._end - time.monotonic(), 0.0)

    def has_time_for(self, seconds: float) -> bool:
        """True if work of this length would end with the step, or shortly after it."""
        return self.has_time() and time.monotonic() + seconds < self._end + MAX_OVERRUN_SECONDS

    def show_progress(self, done: int) -> None:
        """Show `done` bytes of complete work as the progress, and those of the work in flight."""
        self._counted_bytes = done
        self.measure()
        if not self.view.total_bytes:
            self.view.progress = 0.0

    def show_items(self, done: int, total: int) -> None:
        """Show the number of items that are done."""
        self.view.done_items, self.view.total_items = done, total

    def begin_item(self, path: str) -> None:
        """Show an item as the one that is worked on."""
        self.view.current_item = path[-MAX_ITEM_CHARACTERS:]

    def end_item(self) -> None:
        """Show one more item as done."""
        self.view.done_items += 1

    @contextmanager
    def meter(self, size: int | None = None) -> Iterator[ByteMeter]:
        """Count the bytes of the work in this context as work in flight, at most `size`."""
        meter = ByteMeter(size)
        self._meters.add(meter)
        try:
            with metering.use(meter):
                yield meter
        finally:
            self._meters.discard(meter)

    def measure(self) -> None:
        """Bring the bytes in `view` up to date with the work in flight."""
        done, total = self._counted_bytes + sum(meter.bytes for meter in self._meters), self.view.total_bytes
        self.view.done_bytes = min(done, total) if total else done
        if total:
            self.view.progress = round(self.view.done_bytes / total * 100, 4)

    async def save(self) -> None:
        """Write `view` and `cursor`.

        Raise Cancelled if the task should stop, Superseded if another worker has taken it over.
        """
        await self.update(leases.LEASE_SECONDS, view=self.view, cursor=self.cursor.dump())
        if self.task.cancel:
            raise Cancelled

    async def save_and_release(self, **done: Any) -> None:
        """Write `view` and `cursor` and release the lease; `done` and `expires` are those of `records.save`.

        Raise RecordRefused if the cursor is too large. Then the record keeps its cursor, and the view has the message.
        """
        try:
            await self.update(0, view=self.view, cursor=self.cursor.dump(), **done)
        except RecordRefused as problem:
            self.discard_unwritten()
            self.view.error = problem.message
            await self.update(0, view=self.view)
            raise

    async def release(self) -> None:
        """Release the lease, and leave the record as it is."""
        if self.task.lease.token == self._held.token:
            await self.update(0)

    async def end_step(self) -> None:
        """Save and release, unless the next step runs in this process immediately and this one was short.

        Then keep the result in memory, and the next step writes it.
        """
        is_short = time.monotonic() - self._began < MAX_UNWRITTEN_SECONDS
        if platform().single_task_process and is_short and not self.wait:
            self._held.unwritten = replace(self.task, view=self.view, cursor=self.cursor.dump())
        else:
            await self.save_and_release()

    async def flush(self) -> None:
        """Write the unwritten result of an earlier step. Call it before work that cannot be repeated."""
        if self._held.unwritten is not None:
            await self.update(leases.LEASE_SECONDS, view=self.view, cursor=self.cursor.dump())

    def discard_unwritten(self) -> None:
        """Discard the unwritten result of an earlier step."""
        self._held.unwritten = None

    async def update(self, seconds: float, **changes: Any) -> None:
        """Write `changes` of the record and renew the lease for `seconds`; 0 releases it.

        A cancellation waits for the end of the write.
        """
        try:
            self.task = await finish_despite_cancel(
                asyncio.to_thread(records.save, self.task, self._held.token, seconds, **changes)
            )
        except RecordConflict:
            raise Superseded from None
        if "cursor" in changes:
            self.discard_unwritten()

    def is_held_by(self, task: Task) -> bool:
        """True if the lease in `task`, its present record, is that of this run."""
        return task.lease.token in (self.task.lease.token, self._held.token)

    def _find_check_interval(self) -> float:
        """Return the seconds between two checks if there is progress to write."""
        if platform().single_task_process:
            return min(PROGRESS_CHECK_INTERVAL_SECONDS, leases.HEARTBEAT_INTERVAL_SECONDS)
        return leases.HEARTBEAT_INTERVAL_SECONDS

    async def send_heartbeats(self, *, ignore_cancel: bool = False) -> None:
        """Renew the lease until this is cancelled, and write the progress as it changes.

        Raise Superseded, Cancelled unless `ignore_cancel`, or RecordsUnavailable if the records do not answer for so
        long that another worker may take the task over.
        """
        renewed, written = time.monotonic(), replace(self.view)
        while True:
            await asyncio.sleep(self._find_check_interval())
            if self._meters:
                self.measure()
            if self.view == written and time.monotonic() - renewed < leases.HEARTBEAT_INTERVAL_SECONDS:
                continue
            try:
                written = replace(self.view)
                await self.update(leases.LEASE_SECONDS, view=written)
            except RecordsUnavailable:
                if time.monotonic() - renewed > leases.LEASE_SECONDS:
                    raise
                continue
            renewed = time.monotonic()
            if self.task.cancel and not ignore_cancel:
                raise Cancelled


Work = Callable[[Run[SpecT, CursorT]], Awaitable[bool]]
Clean = Callable[[Run[SpecT, CursorT], State], Awaitable[None]]
Describe = Callable[[Run[SpecT, CursorT]], dict[str, Any]]


@asynccontextmanager
async def hold_task(id: str, schema: Schema[SpecT, CursorT], seconds: float) -> AsyncIterator[Run[SpecT, CursorT]]:
    """Hold a task for a step of `seconds`. Raise the problems of `leases.acquire`.

    After a failure the unwritten result of an earlier step stays in memory, and the next attempt continues from it.
    """
    held = await leases.acquire(id)
    try:
        with use_request_id(held.task.view.request_id):
            yield Run(held, schema, seconds)
    except Superseded:
        held.unwritten = None
        raise
    finally:
        get_held().end_step(held)


async def run_step(
    id: str,
    seconds: float,
    schema: Schema[SpecT, CursorT],
    work: Work[SpecT, CursorT],
    describe: Describe[SpecT, CursorT] | None = None,
) -> dict[str, Any]:
    """Do a step of `work`. Return whether there is `more`, the `seconds` until then, and the result of `describe`.

    The message of a Problem is saved before it is raised.
    """
    async with hold_slot(id), hold_task(id, schema, seconds) as run:
        answer = await _run_step(run, work)
        return answer if describe is None else answer | describe(run)


async def _run_step(run: Run[SpecT, CursorT], work: Work[SpecT, CursorT]) -> dict[str, Any]:
    pass_checkpoint("step.acquired")
    if run.task.done:
        await run.release()
        return {"tid": run.task.id, "more": False, "seconds": 0}
    if run.task.cancel:
        await run.release()
        raise Cancelled
    run.view.error = ""  # of a step that was retried
    if run.view.state != State.RUNNING:
        run.view.state, run.view.start_time, run.view.end_time = State.RUNNING, format_now(), None
    try:
        more = await _keep_alive(work(run), run.send_heartbeats())
        pass_checkpoint("step.worked")
        await run.end_step()
    except (Superseded, Busy):
        raise
    except Problem as problem:
        if not isinstance(problem, Cancelled):
            run.view.error = problem.message
        await run.save_and_release()
        raise
    return {"tid": run.task.id, "more": more, "seconds": run.wait}


async def _keep_alive(work: Awaitable[Result], heartbeats: Awaitable[None]) -> Result:
    """Return the result of `work`. Heartbeats run meanwhile; a failure of them cancels the work."""
    working, beating = asyncio.ensure_future(work), asyncio.ensure_future(heartbeats)
    try:
        await asyncio.wait([working, beating], return_when=asyncio.FIRST_COMPLETED)
        if beating.done() and not working.done():
            working.cancel()
            await asyncio.wait([working])
            beating.result()
        return working.result()
    except asyncio.CancelledError:
        working.cancel()
        await asyncio.wait([working])
        raise
    finally:
        beating.cancel()
        await asyncio.wait([beating])  # a heartbeat in progress must not renew a lease that is released afterwards


async def settle(
    id: str, failure: dict[str, Any], schema: Schema[SpecT, CursorT], clean: Clean[SpecT, CursorT]
) -> bool:
    """Clean up, and write how a task ended.

    `failure`: the error that the state machine caught, with its name in `Error`. Return True if the task has to be
    started again later: its worker could not work, since another worker held the task, no slot was free, or the records
    did not answer.
    """
    name = str(failure.get("Error", ""))
    if name in RETRIED_LATER:
        return True
    if name == Superseded.__name__:  # the other worker settles it; if there is none, the next run does
        return platform().single_task_process and await asyncio.to_thread(_is_undone, id)
    async with AsyncExitStack() as stack:
        try:
            run = await stack.enter_async_context(hold_task(id, schema, leases.LEASE_SECONDS))
        except Superseded:
            return False
        except (UnreadableTask, DecryptionError) as problem:
            await asyncio.to_thread(_end_unreadable, id, problem)
            return False
        await _settle(run, name, clean)
        run.discard_unwritten()
    return False


def _is_undone(id: str) -> bool:
    try:
        return not records.get(id).done
    except RecordNotFound:
        return False


def _end_unreadable(id: str, problem: Problem) -> None:
    """End a task that cannot be read and will never be readable. The sweep removes its files in staging."""
    log_warning("unreadable task ended", tid=id, reason=problem.message)
    try:
        task = records.get_unreadable(id)
        if task.removed:
            records.delete(id)
        elif not task.done:
            failed = replace(task.view, state=State.FAILED, error=problem.message, end_time=format_now())
            with suppress(DecryptionError):  # of the answer to the write
                runs.mark_done(task, failed)
            log_ended_task(id, task.kind, State.FAILED.name.lower())
    except (RecordNotFound, RecordConflict):
        pass  # deleted, or retried meanwhile


async def _settle(run: Run[SpecT, CursorT], failure: str, clean: Clean[SpecT, CursorT]) -> None:
    if run.task.done:
        await run.release()
        return
    state = State.SUCCEEDED
    if failure == Cancelled.__name__ or run.task.cancel:
        state, run.view.error = State.CANCELED, CANCELED
    elif failure or run.view.error:
        state, run.view.error = State.FAILED, run.view.error or "the worker failed, see the log"
    pass_checkpoint("settle.started")
    try:
        await _keep_alive(clean(run, state), run.send_heartbeats(ignore_cancel=True))
    except (RecordsUnavailable, Superseded):
        raise
    except Problem as problem:
        if state is State.SUCCEEDED:
            state = State.FAILED
        run.view.error = run.view.error or problem.message
    pass_checkpoint("settle.cleaned")
    if run.task.removed:
        await asyncio.to_thread(records.delete, run.task.id)
        return
    run.view.state, run.view.end_time = state, format_now()
    if state is State.SUCCEEDED:
        run.view.progress = 100.0
    try:
        await run.save_and_release(done=True, expires=await _find_expiry(run.task))
        pass_checkpoint("settle.done")
        log_ended_task(run.task.id, run.task.kind, state.name.lower())
    except Superseded:
        await _finish_removed(run, clean)


async def _find_expiry(task: Task) -> datetime | None:
    """Return the time after which the record of a finished task may be deleted; None if it stays as long as its
    storage.
    """
    days = (await configuration.get()).settings.task_retention_days
    return datetime.now(UTC) + timedelta(days=days) if KINDS[task.kind].is_listed else None


async def _finish_removed(run: Run[SpecT, CursorT], clean: Clean[SpecT, CursorT]) -> None:
    """End a task that was removed while it was settled. Do nothing if another worker has taken it over."""
    try:
        task = await asyncio.to_thread(records.get, run.task.id)
    except RecordNotFound:
        return
    if task.removed and run.is_held_by(task):
        run.task = task
        await clean(run, State.CANCELED)
        await asyncio.to_thread(records.delete, task.id)
