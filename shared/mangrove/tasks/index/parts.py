"""The walk of a large storage in the cloud, shared among workers: what is to be read is divided, and what they read
taken over.

Each worker reads some of the folders that wait, and what is below them, until its time is over. It holds nothing of the
task: its result is written down as a whole when it ends, so that a worker that died, or ran twice, does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem
from mangrove.core.structure import Misfit, structure
from mangrove.tasks.core.manifest import Manifest as Rows
from mangrove.tasks.core.manifest import ManifestLost
from mangrove.tasks.index.declaration import IndexPart
from mangrove.tasks.index.lists import IndexRun, open_failed, open_folders

MOST_PARTS = 8  # that are read at once, each by a function of its own
LEAST_WAITING = 1000  # folders that are worth it
TRIES = 3  # of a part that got lost
KEPT_ERRORS = 3  # folders named in the task's error
LOST = "a part of the storage was not read"


@dataclass(kw_only=True)
class PartResult:
    """What became of a part. Its first `position` folders were read, the others of its `folder_count` are left to be
    read; `lists`: what the names of its lists begin with. `problem`: why none of it counts."""

    lists: str
    files: list[str] = field(default_factory=list)
    folder_files: list[str] = field(default_factory=list)
    position: int = 0
    folder_count: int = 0
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    count: int = 0
    problem: str = ""


def is_to_be_divided(run: IndexRun, waiting: int) -> bool:
    """Whether so many folders that wait are for several workers; those of an update are read by one."""
    return is_shared() and not run.cursor.lists and run.cursor.is_whole and waiting >= LEAST_WAITING


def is_shared() -> bool:
    """Whether there are several workers: one machine has one process."""
    return not platform().single_task_process


def divide(run: IndexRun) -> None:
    """Divide all folders that wait."""
    cursor = run.cursor
    size = -(-(cursor.folder_count - cursor.position) // MOST_PARTS)
    starts = range(cursor.position, cursor.folder_count, size)
    cursor.parts = [
        IndexPart(number=number, position=start, count=min(size, cursor.folder_count - start))
        for number, start in enumerate(starts)
    ]
    cursor.round += 1
    cursor.tries = 0


def describe_parts(run: IndexRun) -> dict[str, Any]:
    """What the machine is to know of the parts: `divided`, and the input of the state Part for each."""
    parts = [] if run.task.done else run.cursor.parts
    return {
        "divided": bool(parts),
        "parts": [{"tid": run.task.id, "round": run.cursor.round, "part": part.number} for part in parts],
    }


def open_result(task_id: str, round: int, number: int, count: int) -> Rows[dict[str, Any]]:
    """The list whose only row is the result of a part."""
    return Rows(task_id, f"result-{round}-{number}", count, dict)


async def find_result(task_id: str, round: int, number: int) -> PartResult | None:
    """The result of a part, None while there is none."""
    try:
        (found,) = await open_result(task_id, round, number, 1).read_rows(0)
        return structure(PartResult, found)
    except (ManifestLost, Misfit):
        return None


async def take_over(run: IndexRun) -> bool:
    """Take over what the workers have read of the parts; False: some of it got lost, and is to be read again."""
    cursor = run.cursor
    if not cursor.parts:
        return True
    results = [await find_result(run.task.id, cursor.round, part.number) for part in cursor.parts]
    found = [result for result in results if result is not None and not result.problem]
    if len(found) < len(results):
        cursor.tries += 1
        if cursor.tries >= TRIES:
            raise StorageProblem(next((one.problem for one in results if one is not None and one.problem), LOST))
        return False
    folders, failed = open_folders(run, cursor.folder_count), open_failed(run, cursor.failed_count)
    id = cursor.position + cursor.shift
    for result in found:
        cursor.shifts += [id] * len(result.files)
        cursor.files += result.files
        cursor.folder_files += result.folder_files
        cursor.count += result.count
        cursor.errors = (cursor.errors + result.errors)[:KEPT_ERRORS]
        id += result.position
        await _append(open_folders(run, result.folder_count, result.lists), result.position, folders)
        await _append(open_failed(run, result.failed_count, result.lists), 0, failed)
    await folders.flush()
    await failed.flush()
    cursor.position = cursor.folder_count
    cursor.shift = id - cursor.position
    cursor.folder_count, cursor.failed_count, cursor.seen = folders.count, failed.count, cursor.count
    cursor.parts = []
    await run.save()
    return True


async def _append(source: Rows[Any], start: int, target: Rows[Any]) -> None:
    while rows := await source.read_rows(start):
        start += len(rows)
        for row in rows:
            await target.append(row)
