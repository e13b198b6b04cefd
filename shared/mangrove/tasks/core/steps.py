"""The frame of every worker: acquire the lease, work a step of time, save what came of it, say whether there is more.

A step is idempotent: what it did since it last saved may be done again by the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound, RecordsThrottled, RecordsUnavailable, UnreadableTask
from mangrove.core.telemetry import TASKS_ENDED, emit, log_exception, name_invocation
from mangrove.records.store.base import RecordConflict, RecordRefused
from mangrove.records.store.encryption import DecryptionError
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import leases
from mangrove.tasks.core.kinds import State
from mangrove.tasks.core.leases import Busy, Superseded, get_held
from mangrove.tasks.core.queue import CANCELED
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.core.slots import NoSlot, hold_slot
from mangrove.tasks.core.specs import CursorT, Schema, SpecT
from mangrove.tasks.core.unreadable import give_up, read_task_id
from mangrove.tasks.core.worker_loop import run_in_loop

SAVE_INTERVAL_SECONDS = 2.0  # between two writes of progress
MAX_NAMED_FAILURES = 3  # failed items that the error of a task names
KEEP_SECONDS = 1.0  # that a step may have worked without writing what it did
STEP_SECONDS = 3.0  # of one step on one machine
MARGIN_SECONDS = 60.0  # of the function's time that a step in the cloud leaves for its end
GRACE_SECONDS = 20.0  # of those that what was begun may take

LATER = {kind.__name__ for kind in (Busy, NoSlot, RecordsUnavailable, RecordsThrottled)}
"""What ends an execution and not its task."""

Result = TypeVar("Result")


class Cancelled(Problem):
    """The task is to stop."""

    text = CANCELED


class Run(Generic[SpecT, CursorT]):
    """A task while this worker holds it. `view` and `cursor` are to be changed, then saved."""

    def __init__(self, task: Task, schema: Schema[SpecT, CursorT], token: str, seconds: float) -> None:
        self.task = task
        self.token = token
        self.spec = schema.spec.load(task.spec)
        self.cursor = schema.cursor.load(task.cursor)
        self.view = replace(task.view)
        self.wait = 0  # seconds until the next step is of use
        self._unwritten: Task | None = task if get_held().is_unwritten(task.id) else None
        self._began = time.monotonic()
        self._end = self._began + seconds

    def has_time(self) -> bool:
        """Return True if the step is not over yet."""
        return time.monotonic() < self._end

    @property
    def seconds_left(self) -> float:
        """Until the step is over."""
        return max(self._end - time.monotonic(), 0.0)

    def has_time_for(self, seconds: float) -> bool:
        """Return True if work of this length would end with the step, or not long after it."""
        return self.has_time() and time.monotonic() + seconds < self._end + GRACE_SECONDS

    def show_progress(self, done: int) -> None:
        """Show that `done` bytes are there."""
        total = self.view.total_bytes
        self.view.progress = round(min(done / total, 1.0) * 100, 4) if total else 0.0

    async def save(self) -> None:
        """Write `view` and `cursor`; Cancelled when that was asked for, Superseded when the task is not ours."""
        await self.update(leases.LEASE_SECONDS, view=self.view, cursor=self.cursor.dump())
        if self.task.cancel:
            raise Cancelled

    async def save_and_release(self, **done: Any) -> None:
        """Write `view` and `cursor` and give up the lease; `done` and `expires` as `records.save` has them.
        RecordRefused, which the view says then, when the cursor is too large: the record keeps the one that it has."""
        try:
            await self.update(0, view=self.view, cursor=self.cursor.dump(), **done)
        except RecordRefused as problem:
            self._unwritten, self.view.error = None, problem.message
            await self.update(0, view=self.view)
            raise
        get_held().release(self.task.id)

    async def release(self) -> None:
        """Give up the task as it is in the record."""
        if self.task.lease.token == self.token:
            await self.update(0)
        get_held().release(self.task.id)

    async def leave(self) -> None:
        """End a step: save and release, or, where the next one follows at once in this process, keep what was done in
        no time for it to be written by that one."""
        is_short = time.monotonic() - self._began < KEEP_SECONDS
        if not platform().single_task_process or self.wait or not is_short:
            await self.save_and_release()
            return
        get_held().keep(replace(self.task, view=self.view, cursor=self.cursor.dump()), self.token)

    async def update(self, seconds: float, **changes: Any) -> None:
        """Write `changes` of the record and hold the lease `seconds` more; 0 releases it. A write that was begun ends
        before a cancellation goes on."""
        try:
            self.task = await finish_despite_cancel(
                asyncio.to_thread(records.save, self.task, self.token, seconds, **changes)
            )
        except RecordConflict:
            raise Superseded from None
        if "cursor" in changes:
            self._unwritten = None

    async def write_kept(self) -> None:
        """Write what an earlier step left to be written, before something is done that cannot be done again."""
        if self._unwritten is not None:
            await self.update(leases.LEASE_SECONDS, view=self.view, cursor=self.cursor.dump())

    def abandon(self) -> None:
        """End a step that failed. What an earlier one left to be written is kept: the next attempt goes on from it."""
        if self._unwritten is None:
            get_held().release(self.task.id)
        else:
            get_held().keep(self._unwritten, self.token)

    async def send_heartbeats(self, *, to_the_end: bool = False) -> None:
        """Renew the lease for ever; ends with Superseded, with Cancelled unless the work goes `to_the_end` whatever is
        asked for, and with RecordsUnavailable when the records do not answer for so long that another worker may think
        that this one is dead."""
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(leases.HEARTBEAT_SECONDS)
            try:
                await self.update(leases.LEASE_SECONDS, view=self.view)
            except RecordsUnavailable:
                if time.monotonic() - renewed > leases.LEASE_SECONDS:
                    raise
                continue
            renewed = time.monotonic()
            if self.task.cancel and not to_the_end:
                raise Cancelled


async def acquire(id: str, schema: Schema[SpecT, CursorT], seconds: float) -> Run[SpecT, CursorT]:
    """The task, held by this worker until it is left or released; see `leases.acquire`."""
    task, token = await leases.acquire(id)
    try:
        return Run(task, schema, token, seconds)
    except Problem:
        get_held().release(id)
        raise


Work = Callable[[Run[SpecT, CursorT]], Awaitable[bool]]
Clean = Callable[[Run[SpecT, CursorT], State], Awaitable[None]]
Describe = Callable[[Run[SpecT, CursorT]], dict[str, Any]]
Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


async def run_step(
    id: str,
    seconds: float,
    schema: Schema[SpecT, CursorT],
    work: Work[SpecT, CursorT],
    describe: Describe[SpecT, CursorT] | None = None,
) -> dict[str, Any]:
    """One step of `work`: whether there is `more`, and the `seconds` until then; and what `describe` says of it.

    The message of a Problem is saved before it goes on.
    """
    async with hold_slot(id):
        run = await acquire(id, schema, seconds)
        try:
            answer = await _run_step(run, work)
            return answer if describe is None else answer | describe(run)
        except Superseded:
            get_held().release(id)
            raise
        except BaseException:
            run.abandon()
            raise


async def _run_step(run: Run[SpecT, CursorT], work: Work[SpecT, CursorT]) -> dict[str, Any]:
    pass_checkpoint("step.acquired")
    if run.task.done:
        await run.release()
        return {"tid": run.task.id, "more": False, "seconds": 0}
    if run.task.cancel:
        await run.release()
        raise Cancelled
    run.view.error = ""  # of a step that was tried again
    if run.view.state != State.RUNNING:
        run.view.state, run.view.start_time, run.view.end_time = State.RUNNING, format_now(), None
    try:
        more = await _keep_alive(work(run), run.send_heartbeats())
        pass_checkpoint("step.worked")
        await run.leave()
    except (Superseded, Busy):
        raise
    except Problem as problem:
        if not isinstance(problem, Cancelled):
            run.view.error = problem.message
        await run.save_and_release()
        raise
    return {"tid": run.task.id, "more": more, "seconds": run.wait}


async def _keep_alive(work: Awaitable[Result], heartbeats: Awaitable[None]) -> Result:
    """The result of `work`; the heartbeats go on meanwhile, and end it where they end."""
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
        await asyncio.wait([beating])  # a heartbeat that is being written must not renew what is released afterwards


def format_now() -> str:
    """The present, as task records show times."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def get_seconds(context: Any, step_seconds: float) -> float:
    """Return how long a step may work: until the time of a function with this `context` is nearly over, or
    `step_seconds` where there is none."""
    if context is None:
        return step_seconds
    return float(max(context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS, 1.0))


def make_worker(
    schema: Schema[SpecT, CursorT],
    work: Work[SpecT, CursorT],
    step_seconds: float = STEP_SECONDS,
    describe: Describe[SpecT, CursorT] | None = None,
) -> Handler:
    """The handler of a worker function: `{"tid"}` in, `{"tid", "more", "seconds"}` out, and what `describe` adds.

    `step_seconds`: how many seconds it works on one machine before it lets other tasks run.
    """
    configuration.prefetch()

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        id = read_task_id(event)
        try:
            return run_in_loop(run_step(id, get_seconds(context, step_seconds), schema, work, describe))
        except (Problem, CancelledError):  # the latter: the service ends
            raise
        except Exception:
            log_exception("a worker failed", tid=id)
            raise

    return name_invocation(handler)


def make_settler(schema: Schema[SpecT, CursorT], clean: Clean[SpecT, CursorT]) -> Handler:
    """The handler of a machine's last state: whatever happened, the record says how it ended.

    `clean(run, state)` removes what is not needed any more before the task is done; first of all it calls
    `run.write_kept`.
    """

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        try:
            id = read_task_id(event)
        except Superseded:
            return {"tid": "", "more": False}
        failure = event.get("failure")
        more = run_in_loop(settle(id, failure if isinstance(failure, dict) else {}, schema, clean))
        return {"tid": id, "more": more}

    return name_invocation(handler)


async def settle(
    id: str, failure: dict[str, Any], schema: Schema[SpecT, CursorT], clean: Clean[SpecT, CursorT]
) -> bool:
    """Clean up, and write how a task ended. `failure`: what a state machine caught, under `Error` its name.

    Whether the task is to be started once more, later: nothing is wrong with one that could not be worked on because
    another worker held it, none was free, or the records did not answer.
    """
    name = str(failure.get("Error", ""))
    if name in LATER:
        return True
    if name == Superseded.__name__:  # the other worker settles it; where there is none, it is for the next run
        return platform().single_task_process and await asyncio.to_thread(_is_undone, id)
    try:
        run = await acquire(id, schema, leases.LEASE_SECONDS)
    except Superseded:
        return False
    except (UnreadableTask, DecryptionError) as problem:
        return await asyncio.to_thread(give_up, id, problem, format_now())
    try:
        await _settle(run, name, clean)
    except BaseException:
        run.abandon()
        raise
    get_held().release(id)
    return False


def _is_undone(id: str) -> bool:
    try:
        return not records.get(id).done
    except RecordNotFound:
        return False


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
        await _keep_alive(clean(run, state), run.send_heartbeats(to_the_end=True))
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
        emit({TASKS_ENDED: 1}, state.name.lower())
    except Superseded:
        await _finish_removed(run, clean)


async def _find_expiry(task: Task) -> datetime | None:
    """When a task that is done now may go; None for one that stays as long as its storage."""
    days = (await configuration.get()).settings.task_retention_days
    return datetime.now(UTC) + timedelta(days=days) if KINDS[task.kind].is_listed else None


async def _finish_removed(run: Run[SpecT, CursorT], clean: Clean[SpecT, CursorT]) -> None:
    """End a task that was removed while it was settled; one that another worker has taken over is left alone."""
    ours = {run.task.lease.token, run.token}
    try:
        run.task = await asyncio.to_thread(records.get, run.task.id)
    except RecordNotFound:
        return
    if run.task.removed and run.task.lease.token in ours:
        await clean(run, State.CANCELED)
        await asyncio.to_thread(records.delete, run.task.id)
