"""Work of one task that several workers of the cloud share: a Distributed Map runs the state Part for each piece.

A worker holds nothing of the task. Its report is a list of one row in staging, which the worker of the task takes over.
Two workers of one part do its work twice, as after a death.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.manifest import Manifest, ManifestLost
from mangrove.tasks.core.specs import CursorT, Schema, SpecT
from mangrove.tasks.core.steps import Cancelled, Handler, Run, get_seconds
from mangrove.tasks.core.unreadable import read_task_id
from mangrove.tasks.core.worker_loop import run_in_loop

MAX_FRUITLESS_ROUNDS = 3  # after which a task fails
PART_SECONDS = 300.0  # of a part where the function does not say how long it may take

PartWork = Callable[[str, int, int, float], Awaitable[bool]]
"""Of a task's id, the round, the number of the part and the seconds. True if there is more."""


def is_shared() -> bool:
    """True if there are several workers."""
    return not platform().single_task_process


def describe(run: Run[SpecT, CursorT], flag: str, round: int, numbers: Sequence[int]) -> dict[str, Any]:
    """Return what the machine is told of the parts: the `flag`, and the input of the state Part for each."""
    if run.task.done:
        numbers = ()
    return {flag: bool(numbers), "parts": [{"tid": run.task.id, "round": round, "part": number} for number in numbers]}


class PartRun(Run[SpecT, CursorT]):
    """A task as the worker of a part sees it: the task is not held, and its record is not written."""

    def __init__(self, task: Task, schema: Schema[SpecT, CursorT], seconds: float) -> None:
        super().__init__(task, schema, "", seconds)

    async def look(self) -> None:
        """Read the task. Raise Cancelled if it is to stop or is gone."""
        try:
            self.task = await asyncio.to_thread(records.get, self.task.id)
        except RecordNotFound:
            raise Cancelled from None
        if self.task.done or self.task.cancel or self.task.removed:
            raise Cancelled

    async def save(self) -> None:
        """Raise Cancelled if the part is not needed any more."""
        await self.look()


def make_part_handler(work: PartWork) -> Handler:
    """Return the handler of the state Part: `{"tid", "round", "part"}` in and out, and whether there is `more`."""

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        id, round, number = read_task_id(event), event.get("round"), event.get("part")
        if not isinstance(round, int) or not isinstance(number, int):
            raise Problem("the input names no part")
        more = run_in_loop(work_on(work, id, round, number, get_seconds(context, PART_SECONDS)))
        return {"tid": id, "round": round, "part": number, "more": more}

    return handler


async def work_on(work: PartWork, id: str, round: int, number: int, seconds: float) -> bool:
    """Work on a part. It has no more to do if it is not needed any more; what is begun, Settle drops."""
    try:
        return await work(id, round, number, seconds)
    except (RecordNotFound, Cancelled):
        return False


def _open_report(task_id: str, name: str, count: int) -> Manifest[dict[str, Any]]:
    return Manifest(task_id, name, count, dict)


async def find_report(task_id: str, name: str) -> dict[str, Any] | None:
    """Return the report of a part, None if there is none."""
    try:
        (report,) = await _open_report(task_id, name, 1).read_rows(0)
    except ManifestLost:
        return None
    return report


async def store_report(task_id: str, name: str, report: dict[str, Any]) -> None:
    """Store the report of a part in the place of an older one."""
    rows = _open_report(task_id, name, 0)
    await rows.append(report)
    await rows.flush()


async def append_rows(source: Manifest[Any], start: int, target: Manifest[Any]) -> None:
    """Append the rows of a list, from `start` on, to another one."""
    while rows := await source.read_rows(start):
        start += len(rows)
        for row in rows:
            await target.append(row)
