"""The frame of every worker: take the lease, work a slice of time, keep what came of it, tell whether there is more.

A step is idempotent: what it did since it last saved may be done again by the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, TypeVar

from mangrove.checkpoints import reached
from mangrove.problems import Problem
from mangrove.records import tasks as records
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks.kinds import State
from mangrove.tasks.queue import CANCELED
from mangrove.telemetry import log_exception

LEASE_SECONDS = 30.0
BEAT_SECONDS = 2.0  # how often a long piece of work looks for its cancel mark and renews its lease
SLICE_SECONDS = 3.0  # of one step on one machine
MARGIN_SECONDS = 60.0  # of the function's time that a step in the cloud leaves for its end

Result = TypeVar("Result")


class Cancelled(Problem):
    """Somebody asked the task to stop."""

    text = CANCELED


class Busy(Problem):
    """Another worker holds the task; worth a retry."""

    text = "another worker is at this task"


class Superseded(Problem):
    """The lease went to another worker, or the task is gone."""

    text = "another worker took this task over"


class Run:
    """A task while this worker holds it. `shown` and `cursor` are to be changed, then saved."""

    def __init__(self, task: Task, token: str, seconds: float) -> None:
        self.task = task
        self.view = dict(task.view)
        self.cursor = dict(task.cursor)
        self.wait = 0  # seconds until the next slice is of use
        self._token = token
        self._end = time.monotonic() + seconds

    @property
    def spec(self) -> dict[str, Any]:
        return self.task.spec

    def has_time(self) -> bool:
        """Whether the slice is not over yet."""
        return time.monotonic() < self._end

    def progress(self, done: int) -> None:
        """Say that `done` bytes are there."""
        total = self.view["total_bytes"]
        self.view["progress"] = round(min(done / total, 1.0) * 100, 4) if total else 0.0

    async def save(self, **changes: Any) -> None:
        """Write `shown` and `cursor`; Cancelled when that was asked for, Superseded when the task is not ours."""
        await self.keep(LEASE_SECONDS, view=self.view, cursor=self.cursor, **changes)
        if self.task.cancel:
            raise Cancelled

    async def keep(self, seconds: float, **changes: Any) -> None:
        """Write `changes` and hold the lease `seconds` more; when cancelled, first waits for the write to end."""
        writing = asyncio.ensure_future(asyncio.to_thread(records.keep, self.task, self._token, seconds, **changes))
        try:
            self.task = await asyncio.shield(writing)
        except Conflict:
            raise Superseded from None
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise

    async def beat(self) -> None:
        """Renew the lease for ever; ends with Cancelled or Superseded."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self.keep(LEASE_SECONDS, view=self.view)
            if self.task.cancel:
                raise Cancelled


async def held(id: str, seconds: float) -> Run:
    """The task, held by us; Busy while somebody else holds it, Superseded when it is gone."""
    token = token_hex(12)
    try:
        return Run(await asyncio.to_thread(records.take, id, token, LEASE_SECONDS), token, seconds)
    except Conflict:
        pass
    try:
        await asyncio.to_thread(records.get, id)
    except RecordMissing:
        raise Superseded from None
    raise Busy


Work = Callable[[Run], Awaitable[bool]]
Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


async def step(id: str, seconds: float, work: Work) -> dict[str, Any]:
    """One slice of `work`; whether there is `more`, and the `seconds` until then.

    A Problem is kept in the record before it goes on.
    """
    run = await held(id, seconds)
    reached("step.held")
    if run.task.done:
        await run.keep(0)
        return {"tid": id, "more": False, "seconds": 0}
    if run.task.cancel:
        await run.keep(0)
        raise Cancelled
    run.view["error"] = ""  # of a slice that was tried again
    if run.view["state"] != State.RUNNING:
        run.view |= {"state": State.RUNNING, "start_time": now(), "end_time": None}
    try:
        more = await _beating(run, work)
        reached("step.worked")
        await run.keep(0, view=run.view, cursor=run.cursor)
    except (Superseded, Busy):
        raise
    except Cancelled:
        await run.keep(0, view=run.view, cursor=run.cursor)
        raise
    except Problem as problem:
        run.view["error"] = problem.message
        await run.keep(0, view=run.view, cursor=run.cursor)
        raise
    return {"tid": id, "more": more, "seconds": run.wait}


async def _beating(run: Run, work: Work) -> bool:
    working = asyncio.ensure_future(work(run))
    beating = asyncio.ensure_future(run.beat())
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
        await asyncio.wait([beating])  # a beat that is being written must not renew what is let go afterwards


def now() -> str:
    """The present, as task records show times."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


_loop: asyncio.AbstractEventLoop | None = None
_own: asyncio.AbstractEventLoop | None = None


def live_in(loop: asyncio.AbstractEventLoop) -> None:
    """Run the workers of this process in `loop`, which runs already: drivers belong to one loop."""
    global _loop
    _loop = loop


def here(work: Coroutine[Any, Any, Result]) -> Result:
    """Run asynchronous work from a worker's thread."""
    global _own
    if _loop is not None:
        return asyncio.run_coroutine_threadsafe(work, _loop).result()
    if _own is None:
        _own = asyncio.new_event_loop()
    return _own.run_until_complete(work)


def worker(work: Work, slice: float = SLICE_SECONDS) -> Handler:
    """The handler of a worker function: `{"tid"}` in, `{"tid", "more", "seconds"}` out.

    `slice`: how many seconds it works on one machine before it lets others go first.
    """

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        seconds = slice
        if context is not None:
            seconds = max(context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS, 1.0)
        try:
            return here(step(event["tid"], seconds, work))
        except Problem:
            raise
        except Exception:
            log_exception("a worker failed", tid=event["tid"])
            raise

    return handler


Clean = Callable[[Run, State], Awaitable[None]]


def settler(clean: Clean) -> Handler:
    """The handler of a machine's last state: whatever happened, the record says how it ended.

    `clean(run, state)` takes away what is not needed any more, and hands on what was brought, before the task is done.
    """

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        here(_settle(event["tid"], event.get("failure") or {}, clean))
        return {"tid": event["tid"], "more": False}

    return handler


async def _settle(id: str, failure: dict[str, Any], clean: Clean) -> None:
    name = str(failure.get("Error", ""))
    if name in (Busy.__name__, Superseded.__name__):
        return  # it is another worker's
    try:
        run = await held(id, LEASE_SECONDS)
    except Superseded:
        return
    if run.task.done:
        await run.keep(0)
        return
    state = State.SUCCEEDED
    if name == Cancelled.__name__ or run.task.cancel:
        state, run.view["error"] = State.CANCELED, CANCELED
    elif name or run.view["error"]:
        state, run.view["error"] = State.FAILED, run.view["error"] or "the worker failed, see the log"
    reached("settle.begun")
    try:
        await clean(run, state)
    except Problem as problem:
        if state is State.SUCCEEDED:
            state = State.FAILED
        run.view["error"] = run.view["error"] or problem.message
    reached("settle.cleaned")
    if run.task.gone:
        await asyncio.to_thread(records.delete, id)
        return
    run.view |= {"state": state, "end_time": now()}
    if state is State.SUCCEEDED:
        run.view["progress"] = 100.0
    try:
        await run.keep(0, view=run.view, cursor=run.cursor, done=True)
        reached("settle.done")
    except Superseded:
        await asyncio.to_thread(records.delete_gone, id)  # taken off the board while it was settled
