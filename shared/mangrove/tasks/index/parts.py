"""The walk of a large storage in the cloud, shared among workers: what is to be read is divided, and what they read
taken over.

Each worker reads some of the folders that wait, and what is below them, until its time is over. Its result is stored as
a whole when it ends, so that a worker that died, or ran twice, does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mangrove.core.codec import DecodeError, structure, unstructure
from mangrove.core.problems import StorageProblem
from mangrove.tasks.core import sharing
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES
from mangrove.tasks.index.declaration import IndexPart
from mangrove.tasks.index.lists import IndexRun, open_failed, open_folders

MOST_PARTS = 8  # that are read at once, each by a function of its own
LEAST_WAITING = 1000  # folders that are worth it
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
    return sharing.is_shared() and not run.cursor.lists and run.cursor.is_whole and waiting >= LEAST_WAITING


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
    return sharing.describe(run, "divided", run.cursor.round, [part.number for part in run.cursor.parts])


def _make_name(round: int, number: int) -> str:
    return f"result-{round}-{number}"


async def find_result(task_id: str, round: int, number: int) -> PartResult | None:
    """Return the result of a part, None if there is none."""
    report = await sharing.find_report(task_id, _make_name(round, number))
    try:
        return structure(PartResult, report) if report is not None else None
    except DecodeError:
        return None


async def store_result(task_id: str, round: int, number: int, result: PartResult) -> None:
    """Store the result of a part."""
    await sharing.store_report(task_id, _make_name(round, number), unstructure(result))


async def take_over(run: IndexRun) -> bool:
    """Take over what the workers have read of the parts; False: some of it got lost, and is to be read again."""
    cursor = run.cursor
    if not cursor.parts:
        return True
    results = [await find_result(run.task.id, cursor.round, part.number) for part in cursor.parts]
    found = [result for result in results if result is not None and not result.problem]
    if len(found) < len(results):
        cursor.tries += 1
        if cursor.tries >= sharing.MAX_FRUITLESS_ROUNDS:
            raise StorageProblem(next((one.problem for one in results if one is not None and one.problem), LOST))
        return False
    folders, failed = open_folders(run, cursor.folder_count), open_failed(run, cursor.failed_count)
    id = cursor.position + cursor.shift
    for result in found:
        cursor.shifts += [id] * len(result.files)
        cursor.files += result.files
        cursor.folder_files += result.folder_files
        cursor.count += result.count
        cursor.errors = (cursor.errors + result.errors)[:MAX_NAMED_FAILURES]
        id += result.position
        await sharing.append_rows(open_folders(run, result.folder_count, result.lists), result.position, folders)
        await sharing.append_rows(open_failed(run, result.failed_count, result.lists), 0, failed)
    await folders.flush()
    await failed.flush()
    cursor.position = cursor.folder_count
    cursor.shift = id - cursor.position
    cursor.folder_count, cursor.failed_count, cursor.seen = folders.count, failed.count, cursor.count
    cursor.parts = []
    await run.save()
    return True
