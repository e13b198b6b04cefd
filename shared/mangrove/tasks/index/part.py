"""One worker of a shared walk: it reads some of the folders that wait, and what is below them."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any

from mangrove.core.problems import RecordNotFound, StorageProblem
from mangrove.core.structure import unstructure
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import unreadable
from mangrove.tasks.core.steps import Cancelled, Run, get_seconds
from mangrove.tasks.core.worker_loop import run_in_loop
from mangrove.tasks.index import worker as index
from mangrove.tasks.index.declaration import INDEX, IndexCursor, IndexPart, IndexSpec
from mangrove.tasks.index.lists import open_folders
from mangrove.tasks.index.parts import PartResult, find_result, open_result
from mangrove.tree import mounts

SECONDS = 300.0  # that a part is read: then the folders that wait are divided anew


class PartRun(Run[IndexSpec, IndexCursor]):
    """A task as the worker of a part sees it: the task is not held, and nothing of it is written."""

    def __init__(self, task: Task, seconds: float) -> None:
        super().__init__(task, INDEX, "", seconds)

    async def save(self) -> None:
        """Cancelled when that was asked for, or when the part is taken over or given up."""
        try:
            self.task = await asyncio.to_thread(records.get, self.task.id)
        except RecordNotFound:
            raise Cancelled from None
        if self.task.done or self.task.cancel or self.task.removed:
            raise Cancelled


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The state Part: `{"tid", "round", "part"}` in and out."""
    seconds = min(get_seconds(context, SECONDS), SECONDS)
    id, round, number = unreadable.read_part(event)
    run_in_loop(read_part(id, round, number, seconds))
    return {"tid": id, "round": round, "part": number}


async def read_part(task_id: str, round: int, number: int, seconds: float) -> None:
    """Read a part until it or the time is at an end, and write down the result; StorageProblem, which is written down,
    too. Nothing is done when there is a result, or when it is wanted no more."""
    try:
        run = PartRun(await asyncio.to_thread(records.get, task_id), seconds)
        await run.save()
    except (RecordNotFound, Cancelled):
        return
    part = next((one for one in run.cursor.parts if one.number == number), None)
    old = await find_result(task_id, round, number)
    if part is None or run.cursor.round != round or (old is not None and not old.problem):
        return
    lists = f"part-{round}-{number}-{token_hex(3)}-"
    try:
        result = await _read(run, part, lists)
    except Cancelled:
        return
    except StorageProblem as problem:
        await _store(task_id, round, number, PartResult(lists=lists, problem=problem.message))
        raise
    await _store(task_id, round, number, result)


async def _read(run: PartRun, part: IndexPart, lists: str) -> PartResult:
    waiting = open_folders(run, run.cursor.folder_count)
    cursor = run.cursor = IndexCursor(
        generation=f"{run.cursor.generation}-{run.cursor.round}-{part.number}", lists=lists
    )
    own, position, end = open_folders(run, 0), part.position, part.position + part.count
    while position < end:
        rows = (await waiting.read_rows(position))[: end - position]
        position += len(rows)
        for row in rows:
            await own.append(row)
    await own.flush()
    cursor.folder_count = own.count
    mount = (await mounts.ready()).by_id.get(run.spec.storage_id)
    if mount is None:
        raise Cancelled
    await index.read_step(run, mount, await mount.get_driver(), None)
    return PartResult(
        lists=lists, files=cursor.files, folder_files=cursor.folder_files, position=cursor.position,
        folder_count=cursor.folder_count, failed_count=cursor.failed_count, errors=cursor.errors, count=cursor.count,
    )  # fmt: skip


async def _store(task_id: str, round: int, number: int, result: PartResult) -> None:
    rows = open_result(task_id, round, number, 0)
    await rows.append(unstructure(result))
    await rows.flush()
