"""One worker of a shared walk: it reads some of the folders that wait, and what is below them."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TypeAlias

from mangrove.core.problems import StorageProblem
from mangrove.records.tasks import model as records
from mangrove.tasks.core.sharing import PART_SECONDS, PartRun
from mangrove.tasks.core.steps import Cancelled
from mangrove.tasks.index import worker as index
from mangrove.tasks.index.declaration import INDEX, IndexCursor, IndexPart, IndexSpec
from mangrove.tasks.index.lists import open_folders
from mangrove.tasks.index.parts import PartResult, find_result, store_result
from mangrove.tree import mounts

IndexPartRun: TypeAlias = PartRun[IndexSpec, IndexCursor]


async def read_part(task_id: str, round: int, number: int, seconds: float) -> bool:
    """Read a part until it or the time is at an end, and store the result, or the StorageProblem that ended it. Nothing
    is done if there is a result, or it is not needed any more."""
    seconds = min(seconds, PART_SECONDS)  # then the folders that wait are divided anew
    run = PartRun(await asyncio.to_thread(records.get, task_id), INDEX, seconds)
    await run.look()
    part = next((one for one in run.cursor.parts if one.number == number), None)
    old = await find_result(task_id, round, number)
    if part is None or run.cursor.round != round or (old is not None and not old.problem):
        return False
    lists = f"part-{round}-{number}-{token_hex(3)}-"
    try:
        result = await _read(run, part, lists)
    except StorageProblem as problem:
        await store_result(task_id, round, number, PartResult(lists=lists, problem=problem.message))
        raise
    await store_result(task_id, round, number, result)
    return False


async def _read(run: IndexPartRun, part: IndexPart, lists: str) -> PartResult:
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
