"""The frame of every worker: acquire the lease, work a slice of time, save what came of it, say whether there is more.

A step is idempotent: what it did since it last saved may be done again by the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Generic, TypeVar

from mangrove import runtime
from mangrove.checkpoints import pass_checkpoint
from mangrove.concurrency import finish_despite_cancel
from mangrove.problems import Problem
from mangrove.records import tasks as records
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks.kinds import State
from mangrove.tasks.queue import CANCELED
from mangrove.tasks.specs import CursorT, Schema, SpecT
from mangrove.telemetry import log_exception

LEASE_SECONDS = 30.0
HEARTBEAT_SECONDS = 2.0  # how often a long piece of work looks for its cancel mark and renews its lease
SLICE_SECONDS = 3.0  # of one step on one machine
MARGIN_SECONDS = 60.0  # of the function's time that a step in the cloud leaves for its end

Result = TypeVar("Result")


class Cancelled(Problem):
    """The task is to stop."""

    text = CANCELED


class Busy(Problem):
    """Another worker holds the task; worth a retry."""

    text = "another worker is at this task"


class Superseded(Problem):
    """The lease went to another worker, or there is no task any more."""

    text = "another worker took this task over"


class Run(Generic[SpecT, CursorT]):
    """A task while this worker holds it. `view` and `cursor` are to be changed, then saved."""

    def __init__(self, task: Task, schema: Schema[SpecT, CursorT], token: str, seconds: float) -> None:
        self.task = task
        self.token = token
        self.spec = schema.spec.load(task.spec)
        self.cursor = schema.cursor.load(task.cursor)
        self.view = replace(task.view)
        self.wait = 0  # seconds until the next slice is of use
        self._end = time.monotonic() + seconds

    def has_time(self) -> bool:
        """Whether the slice is not over yet."""
        return time.monotonic() < self._end

    def show_progress(self, done: int) -> None:
        """Show that `done` bytes are there."""
        total = self.view.total_bytes
        self.view.progress = round(min(done / total, 1.0) * 100, 4) if total else 0.0

    async def save(self) -> None:
        """Write `view` and `cursor`; Cancelled when that was asked for, Superseded when the task is not ours."""
        await self.update(LEASE_SECONDS, view=self.view, cursor=self.cursor.dump())
        if self.task.cancel:
            raise Cancelled

    async def save_and_release(self, *, done: bool | None = None) -> None:
        """Write `view` and `cursor` and give up the lease; `done` changes the task's status."""
        await self.update(0, view=self.view, cursor=self.cursor.dump(), done=done)

    async def update(self, seconds: float, **changes: Any) -> None:
        """Write `changes` of the record and hold the lease `seconds` more; 0 releases it. A write that was begun ends
        before a cancellation goes on."""
        try:
            self.task = await finish_despite_cancel(
                asyncio.to_thread(records.save, self.task, self.token, seconds, **changes)
            )
        except Conflict:
            raise Superseded from None

    async def send_heartbeats(self) -> None:
        """Renew the lease for ever; ends with Cancelled or Superseded."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self.update(LEASE_SECONDS, view=self.view)
            if self.task.cancel:
                raise Cancelled


async def acquire(id: str, schema: Schema[SpecT, CursorT], seconds: float) -> Run[SpecT, CursorT]:
    """The task, held by this worker; Busy while another one holds it, Superseded when there is none."""
    token = token_hex(12)
    try:
        return Run(await asyncio.to_thread(records.acquire_lease, id, token, LEASE_SECONDS), schema, token, seconds)
    except Conflict:
        pass
    try:
        await asyncio.to_thread(records.get, id)
    except RecordMissing:
        raise Superseded from None
    raise Busy


Work = Callable[[Run[SpecT, CursorT]], Awaitable[bool]]
Clean = Callable[[Run[SpecT, CursorT], State], Awaitable[None]]
Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


async def run_slice(
    id: str, seconds: float, schema: Schema[SpecT, CursorT], work: Work[SpecT, CursorT]
) -> dict[str, Any]:
    """One slice of `work`: whether there is `more`, and the `seconds` until then.

    The message of a Problem is saved before it goes on.
    """
    run = await acquire(id, schema, seconds)
    pass_checkpoint("step.acquired")
    if run.task.done:
        await run.update(0)
        return {"tid": id, "more": False, "seconds": 0}
    if run.task.cancel:
        await run.update(0)
        raise Cancelled
    run.view.error = ""  # of a slice that was tried again
    if run.view.state != State.RUNNING:
        run.view.state, run.view.start_time, run.view.end_time = State.RUNNING, format_now(), None
    try:
        more = await _work_with_heartbeats(run, work)
        pass_checkpoint("step.worked")
        await run.save_and_release()
    except (Superseded, Busy):
        raise
    except Problem as problem:
        if not isinstance(problem, Cancelled):
            run.view.error = problem.message
        await run.save_and_release()
        raise
    return {"tid": id, "more": more, "seconds": run.wait}


async def _work_with_heartbeats(run: Run[SpecT, CursorT], work: Work[SpecT, CursorT]) -> bool:
    working = asyncio.ensure_future(work(run))
    beating = asyncio.ensure_future(run.send_heartbeats())
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


class WorkerLoop:
    """The event loop in which the workers of this process run: drivers belong to one loop."""

    def __init__(self) -> None:
        self._running: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run workers in `loop`, which runs already."""
        self._running = loop

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run asynchronous work from a worker's thread."""
        if self._running is not None:
            return asyncio.run_coroutine_threadsafe(work, self._running).result()
        if self._own is None:
            self._own = asyncio.new_event_loop()
        return self._own.run_until_complete(work)

    def close(self) -> None:
        """Close the loop that was made here."""
        if self._own is not None:
            self._own.close()


def use_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run the workers of this process in `loop`, which runs already."""
    runtime.get(WorkerLoop).use(loop)


def run_in_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Run asynchronous work from a worker's thread."""
    return runtime.get(WorkerLoop).run(work)


def make_worker(schema: Schema[SpecT, CursorT], work: Work[SpecT, CursorT], slice: float = SLICE_SECONDS) -> Handler:
    """The handler of a worker function: `{"tid"}` in, `{"tid", "more", "seconds"}` out.

    `slice`: how many seconds it works on one machine before it lets other tasks run.
    """

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        seconds = slice
        if context is not None:
            seconds = max(context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS, 1.0)
        try:
            return run_in_loop(run_slice(event["tid"], seconds, schema, work))
        except Problem:
            raise
        except Exception:
            log_exception("a worker failed", tid=event["tid"])
            raise

    return handler


def make_settler(schema: Schema[SpecT, CursorT], clean: Clean[SpecT, CursorT]) -> Handler:
    """The handler of a machine's last state: whatever happened, the record says how it ended.

    `clean(run, state)` removes what is not needed any more before the task is done.
    """

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        run_in_loop(settle(event["tid"], event.get("failure") or {}, schema, clean))
        return {"tid": event["tid"], "more": False}

    return handler


async def settle(
    id: str, failure: dict[str, Any], schema: Schema[SpecT, CursorT], clean: Clean[SpecT, CursorT]
) -> None:
    """Clean up, and write how a task ended. `failure`: what a state machine caught, under `Error` its name."""
    name = str(failure.get("Error", ""))
    if name in (Busy.__name__, Superseded.__name__):
        return  # another worker settles it
    try:
        run = await acquire(id, schema, LEASE_SECONDS)
    except Superseded:
        return
    if run.task.done:
        await run.update(0)
        return
    state = State.SUCCEEDED
    if name == Cancelled.__name__ or run.task.cancel:
        state, run.view.error = State.CANCELED, CANCELED
    elif name or run.view.error:
        state, run.view.error = State.FAILED, run.view.error or "the worker failed, see the log"
    pass_checkpoint("settle.started")
    try:
        await clean(run, state)
    except Problem as problem:
        if state is State.SUCCEEDED:
            state = State.FAILED
        run.view.error = run.view.error or problem.message
    pass_checkpoint("settle.cleaned")
    if run.task.removed:
        await asyncio.to_thread(records.delete, id)
        return
    run.view.state, run.view.end_time = state, format_now()
    if state is State.SUCCEEDED:
        run.view.progress = 100.0
    try:
        await run.save_and_release(done=True)
        pass_checkpoint("settle.done")
    except Superseded:
        await asyncio.to_thread(records.delete_removed, id)  # removed while it was settled
