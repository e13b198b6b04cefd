"""Steps of work for a task whose cursor only counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from mangrove.core import runtime
from mangrove.identity.rights import Caller
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import leases, steps
from mangrove.tasks.core.leases import HeldTasks
from mangrove.tasks.core.model import Cursor, Schema, Spec, State
from mangrove.tasks.core.steps import Run
from tests.unit.tree import builders


@dataclass(kw_only=True)
class CountCursor(Cursor):
    """`at`: the progress of the work."""

    at: int = 0


SCHEMA = Schema(Spec, CountCursor)
CountRun: TypeAlias = Run[Spec, CountCursor]
OWNER = Caller(builders.user())


def read(task: Task) -> Task:
    """The task as its record is now."""
    return tasks.get(task.id)


def read_at(task: Task) -> int:
    """Return the progress of the work by its record."""
    return CountCursor.load(read(task).cursor).at


async def acquire(task: Task) -> CountRun:
    """Hold the task as a new worker."""
    return Run(await leases.acquire(task.id), SCHEMA, 5)


def run_step(task: Task, work: Callable[[CountRun], Awaitable[bool]]) -> bool:
    """Return True if there is more after one step."""
    answer = asyncio.run(steps.run_step(task.id, 5, SCHEMA, work))
    assert (answer["tid"], answer["seconds"]) == (task.id, 0)
    more: bool = answer["more"]
    return more


def settle(task: Task, error: str = "", states: list[State] | None = None) -> None:
    """Settle after a failure of that name, or none; `states` gets the states that were cleaned up."""

    async def clean(run: CountRun, state: State) -> None:
        if states is not None:
            states.append(state)

    failure = {"Error": error, "Cause": "{}"} if error else {}
    asyncio.run(steps.settle(task.id, failure, SCHEMA, clean))


async def do_nothing(run: CountRun) -> bool:
    """Work that ends immediately."""
    return False


def fail_with(problem: Exception) -> Callable[[CountRun], Awaitable[bool]]:
    """Work that fails."""

    async def work(run: CountRun) -> bool:
        raise problem

    return work


def restart_process() -> None:
    """Act as a restarted process: it holds no task, and none is kept for the next step."""
    runtime.put(HeldTasks, HeldTasks())
