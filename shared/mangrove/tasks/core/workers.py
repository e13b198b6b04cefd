"""The handlers of the states of the machines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from mangrove import configuration
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_exception, log_warning, name_invocation
from mangrove.tasks.core.leases import Superseded
from mangrove.tasks.core.model import CursorT, Schema, SpecT
from mangrove.tasks.core.registry import MACHINES, resolve
from mangrove.tasks.core.sharing import PART_SECONDS, PartWork, work_on
from mangrove.tasks.core.steps import Clean, Describe, Work, run_step, settle
from mangrove.tasks.core.worker_loop import run_in_loop

PART, SETTLE = "Part", "Settle"  # states with a handler of a different form
STEP_SECONDS = 3.0  # of a step in the standalone service; then other tasks have their turn
END_MARGIN_SECONDS = 60.0  # of a function's time, reserved for the end of a step
MAX_ID_LENGTH = 256
MAX_LOGGED_LENGTH = 200

Event = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StateHandler:
    """The handler of a state. Lambda calls it in a thread; in the loop of the workers `work` does the same."""

    work: Callable[[Event, Any], Coroutine[Any, Any, Answer]]

    def __call__(self, event: Event, context: Any) -> Answer:
        return name_invocation(self.handler)(event, context)

    def handler(self, event: Event, context: Any) -> Answer:
        """Do the work from a worker's thread."""
        return run_in_loop(self.work(event, context))


def make_handler(machine: str, state: str) -> StateHandler:
    """Return the handler of a state of a machine."""
    declaration = MACHINES[machine]
    step = next(step for step in declaration.steps if step.state == state)
    function: Any = resolve(machine, step.function)
    if state == PART:
        return make_part_handler(function)
    if state == SETTLE:
        return make_settler(declaration.schema, function)
    seconds = resolve(machine, step.seconds) if step.seconds else STEP_SECONDS
    describe = resolve(machine, step.describe) if step.describe else None
    return make_worker(declaration.schema, function, seconds, describe)


def make_worker(
    schema: Schema[SpecT, CursorT],
    work: Work[SpecT, CursorT],
    step_seconds: float = STEP_SECONDS,
    describe: Describe[SpecT, CursorT] | None = None,
) -> StateHandler:
    """Return the handler of a worker function: `{"tid"}` in, `{"tid", "more", "seconds"}` out, and the result of
    `describe`. `step_seconds`: of a step in the standalone service.
    """
    configuration.prefetch()

    async def handle(event: Event, context: Any) -> Answer:
        id = read_task_id(event)
        try:
            return await run_step(id, get_seconds(context, step_seconds), schema, work, describe)
        except Problem:
            raise
        except Exception:
            log_exception("worker failed", tid=id)
            raise

    return StateHandler(handle)


def make_part_handler(work: PartWork) -> StateHandler:
    """Return the handler of the state Part: `{"tid", "round", "part"}` in and out, and `more`."""

    async def handle(event: Event, context: Any) -> Answer:
        id, round, number = read_task_id(event), event.get("round"), event.get("part")
        if not isinstance(round, int) or not isinstance(number, int):
            raise Problem("the input names no part")
        more = await work_on(work, id, round, number, get_seconds(context, PART_SECONDS))
        return {"tid": id, "round": round, "part": number, "more": more}

    return StateHandler(handle)


def make_settler(schema: Schema[SpecT, CursorT], clean: Clean[SpecT, CursorT]) -> StateHandler:
    """Return the handler of a machine's last state, which writes how the task ended.

    `clean(run, state)` removes files that are not needed any more before the task is done. It calls `run.flush` first.
    """

    async def handle(event: Event, context: Any) -> Answer:
        try:
            id = read_task_id(event)
        except Superseded:
            return {"tid": "", "more": False}
        failure = event.get("failure")
        more = await settle(id, failure if isinstance(failure, dict) else {}, schema, clean)
        return {"tid": id, "more": more}

    return StateHandler(handle)


def get_seconds(context: Any, step_seconds: float) -> float:
    """Return the seconds that a step may work: until shortly before the end of a function with this `context`, or
    `step_seconds` without a function.
    """
    if context is None:
        return step_seconds
    return float(max(context.get_remaining_time_in_millis() / 1000 - END_MARGIN_SECONDS, 1.0))


def read_task_id(event: Any) -> str:
    """Return the id in the input of a worker. Raise Superseded, as for a deleted task, if there is none."""
    id = event.get("tid") if isinstance(event, dict) else None
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID_LENGTH:
        log_warning("a worker was started without a task", given=repr(event)[:MAX_LOGGED_LENGTH])
        raise Superseded
    return id
