"""Work of one task that several workers of the cloud share: a Distributed Map runs the state Part for each piece.

A worker of a part does not hold the task. Its report is a list of one row in staging, which the worker of the task
reads. If two workers get the same part, both do its work, as after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mangrove.core.platform import platform
from mangrove.core.problems import RecordNotFound
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.leases import HeldTask
from mangrove.tasks.core.model import CursorT, Schema, SpecT
from mangrove.tasks.core.staging import ManifestLost, StagedList
from mangrove.tasks.core.steps import Cancelled, Run

MAX_FRUITLESS_ROUNDS = 3  # after which a task fails
PART_SECONDS = 300.0  # of a part, if the function has no time limit

PartWork = Callable[[str, int, int, float], Awaitable[bool]]
"""The work of a part: takes a task's id, the round, the number of the part and the seconds.

Returns True if there is more.
"""


def is_shared() -> bool:
    """True if there are several workers."""
    return not platform().single_task_process


def describe(run: Run[SpecT, CursorT], flag: str, round: int, numbers: Sequence[int]) -> dict[str, Any]:
    """Return the machine's input about the parts: the `flag`, and the input of the state Part for each."""
    if run.task.done:
        numbers = ()
    return {flag: bool(numbers), "parts": [{"tid": run.task.id, "round": round, "part": number} for number in numbers]}


class PartRun(Run[SpecT, CursorT]):
    """A task as the worker of a part sees it, which does not hold it or write its record."""

    def __init__(self, task: Task, schema: Schema[SpecT, CursorT], seconds: float) -> None:
        super().__init__(HeldTask(task, ""), schema, seconds)

    async def look(self) -> None:
        """Read the task. Raise Cancelled if it should stop or was deleted."""
        try:
            self.task = await asyncio.to_thread(records.get, self.task.id)
        except RecordNotFound:
            raise Cancelled from None
        if self.task.done or self.task.cancel or self.task.removed:
            raise Cancelled

    async def save(self) -> None:
        """Raise Cancelled if the part is not needed any more."""
        await self.look()


async def work_on(work: PartWork, id: str, round: int, number: int, seconds: float) -> bool:
    """Work on a part. A part that is not needed any more does nothing; Settle drops unfinished files."""
    try:
        return await work(id, round, number, seconds)
    except (RecordNotFound, Cancelled):
        return False


def _open_report(task_id: str, name: str, count: int) -> StagedList[dict[str, Any]]:
    return StagedList(task_id, name, count, dict)


async def find_report(task_id: str, name: str) -> dict[str, Any] | None:
    """Return the report of a part, None if there is none."""
    try:
        (report,) = await _open_report(task_id, name, 1).read_rows(0)
    except ManifestLost:
        return None
    return report


async def store_report(task_id: str, name: str, report: dict[str, Any]) -> None:
    """Store the report of a part, replacing an older one."""
    rows = _open_report(task_id, name, 0)
    await rows.append(report)
    await rows.flush()
