"""The machine that indexes a storage: Plan chooses the folders to read, Walk reads them, Settle updates the index.

The present index is used until Settle replaces it. The result of a step is stored as a file of names and a file of
folders before the cursor counts it. The folders to read are a list in staging.

In the cloud, the walk of a large storage is shared among workers. Each reads some of the remaining folders, and
everything below them, until its time is over. Its result is stored as a whole when it ends, so that a worker that dies
or runs twice does no harm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.codec import DecodeError, structure, unstructure
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.records import index_changes
from mangrove.records.index_changes import MAX_WRITE_DELAY_SECONDS, ChangeKind
from mangrove.records.tasks import model as records
from mangrove.search.segments import IndexManifest
from mangrove.tasks.core import sharing
from mangrove.tasks.core.sharing import PART_SECONDS, PartRun
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, Cancelled
from mangrove.tasks.index.declaration import INDEX, IndexCursor, IndexPart, IndexSpec
from mangrove.tasks.index.lists import (
    ALL_LEVELS,
    Folder,
    IndexRun,
    RequestedRead,
    get_store,
    is_to_be_divided,
    open_base,
    open_failed,
    open_folders,
    open_reads,
    should_have_index,
    write_all,
)
from mangrove.tasks.index.walk import read_step
from mangrove.tree import mounts
from mangrove.tree.operations.change_log import INTENT_EXPIRY_SECONDS

STEP_SECONDS = 30.0  # in the standalone service; long, since each step makes two files that Settle joins
MAX_READS = 10_000  # folders that changes require; for more, the whole storage is read
# minimum age of a change that a run merges: no earlier one can arrive after it
MERGED_SECONDS = 2 * MAX_WRITE_DELAY_SECONDS
MAX_PARTS = 8  # read concurrently, each by a function of its own
PART_LOST = "a part of the storage was not read"


async def plan(run: IndexRun) -> bool:
    """List the folders to start with: the root or, in an update, the changed or requested ones."""
    if run.cursor.attempt == run.task.attempt and run.cursor.generation:
        return False
    last = run.cursor
    cursor = run.cursor = IndexCursor(
        attempt=run.task.attempt, generation=token_hex(6), began=time.time(), indexed=last.indexed,
        finished=last.finished,
    )  # fmt: skip
    cursor.is_wanted = await should_have_index(run.spec.storage_id)
    if run.spec.is_drop or not cursor.is_wanted:
        return False
    manifest = await get_store().read_manifest(run.spec.storage_id)
    cursor.is_whole = not (run.spec.is_update and manifest is not None and not manifest.partial)
    cursor.merged = index_changes.make_number(cursor.began - MERGED_SECONDS)
    reads = await asyncio.to_thread(_find_reads, run.spec.storage_id, cursor)
    cursor.read_count = await write_all(open_reads(run, 0), reads)
    is_too_much = len(reads) > MAX_READS
    roots = [Folder("/", ALL_LEVELS)] if cursor.is_whole or is_too_much else _choose_roots(run.spec, reads)
    cursor.root_count = cursor.folder_count = await write_all(open_folders(run, 0), roots)
    cursor.walked = not roots  # only changes are merged
    pass_checkpoint("index.planned")
    return False


def _find_reads(storage_id: int, cursor: IndexCursor) -> list[RequestedRead]:
    """Return the changes that require folders to be read, and the intents of processes that died."""
    expired = index_changes.make_number(cursor.began - INTENT_EXPIRY_SECONDS)
    return [
        RequestedRead(change.number, change.path, change.deep)
        for change in index_changes.read_of(storage_id)
        if change.kind is ChangeKind.READ or (change.kind is ChangeKind.INTENT and change.number <= expired)
    ]


def _choose_roots(spec: IndexSpec, reads: Sequence[RequestedRead]) -> list[Folder]:
    """Return each requested folder once, without those that are read together with a folder above them."""
    levels_by_path: dict[str, int] = {}
    requests = [(path, spec.levels) for path in spec.paths]
    requests += [(read.path, ALL_LEVELS if read.deep else 0) for read in reads]
    for path, levels in requests:
        old = levels_by_path.get(path, 0)
        levels_by_path[path] = ALL_LEVELS if ALL_LEVELS in (old, levels) else max(old, levels)
    deep = {path for path, levels in levels_by_path.items() if levels == ALL_LEVELS}
    return [
        Folder(path, levels)
        for path, levels in levels_by_path.items()
        if deep.isdisjoint(TreePath(path).ancestors()[1:])
    ]  # fmt: skip


async def walk(run: IndexRun) -> bool:
    """Read the next folders. True if there are more."""
    cursor = run.cursor
    if cursor.walked or not cursor.folder_count:
        return False
    mount = (await mounts.ready()).by_id.get(run.spec.storage_id)
    if mount is None or not await should_have_index(run.spec.storage_id):
        return False
    driver = await mount.get_driver()
    if not driver.config.is_indexed:
        return False
    base = None if cursor.is_whole else await open_base(run)
    if not await _take_over(run):
        return True
    await read_step(run, mount, driver, base)
    if cursor.position >= cursor.folder_count:
        return _end_walk(run)
    await _publish(run)
    if is_to_be_divided(run, cursor.folder_count - cursor.position):
        divide(run)
    return True


async def _publish(run: IndexRun) -> None:
    """Make the names so far searchable, if there is no index yet."""
    cursor, store = run.cursor, get_store()
    if not cursor.is_whole or any(cursor.shifts):
        return
    manifest = await store.read_manifest(run.spec.storage_id)
    if manifest is None or manifest.partial:
        partial = IndexManifest(
            names=cursor.files, folders=cursor.folder_files, count=cursor.count, folder_count=cursor.position,
            began=cursor.began, finished="", partial=True,
        )  # fmt: skip
        await store.commit(run.spec.storage_id, partial)


def _end_walk(run: IndexRun) -> bool:
    cursor = run.cursor
    cursor.walked = True
    if cursor.failed_count:
        folders = "folder is" if cursor.failed_count == 1 else "folders are"
        run.view.error = f"{cursor.failed_count} {folders} not read: {'; '.join(cursor.errors)}"
    return False


def divide(run: IndexRun) -> None:
    """Divide all remaining folders among workers."""
    cursor = run.cursor
    size = -(-(cursor.folder_count - cursor.position) // MAX_PARTS)
    starts = range(cursor.position, cursor.folder_count, size)
    cursor.parts = [
        IndexPart(number=number, position=start, count=min(size, cursor.folder_count - start))
        for number, start in enumerate(starts)
    ]
    cursor.round += 1
    cursor.tries = 0


def describe_parts(run: IndexRun) -> dict[str, Any]:
    """Return the machine's input about the parts: `divided`, and the input of the state Part for each."""
    return sharing.describe(run, "divided", run.cursor.round, [part.number for part in run.cursor.parts])


@dataclass(kw_only=True)
class PartResult:
    """The result of a part."""

    lists: str
    """The beginning of the names of its lists."""
    files: list[str] = field(default_factory=list)
    folder_files: list[str] = field(default_factory=list)
    position: int = 0
    """Folders of its list that were read; the others remain to be read."""
    folder_count: int = 0
    """Folders of its list."""
    failed_count: int = 0
    errors: list[str] = field(default_factory=list)
    count: int = 0
    problem: str = ""
    """The message of the failure that makes the result invalid."""


def _make_result_name(round: int, number: int) -> str:
    return f"result-{round}-{number}"


async def find_result(task_id: str, round: int, number: int) -> PartResult | None:
    """Return the result of a part, None if there is none."""
    report = await sharing.find_report(task_id, _make_result_name(round, number))
    try:
        return structure(PartResult, report) if report is not None else None
    except DecodeError:
        return None


async def store_result(task_id: str, round: int, number: int, result: PartResult) -> None:
    """Store the result of a part, replacing an older one."""
    await sharing.store_report(task_id, _make_result_name(round, number), unstructure(result))


async def _take_over(run: IndexRun) -> bool:
    """Count the results of the workers. Return False if one is missing: then its part is read again."""
    cursor = run.cursor
    if not cursor.parts:
        return True
    results = [await find_result(run.task.id, cursor.round, part.number) for part in cursor.parts]
    complete = [result for result in results if result is not None and not result.problem]
    if len(complete) < len(results):
        cursor.tries += 1
        if cursor.tries >= sharing.MAX_FRUITLESS_ROUNDS:
            problems = (result.problem for result in results if result is not None and result.problem)
            raise StorageProblem(next(problems, PART_LOST))
        return False
    folders, failed = open_folders(run, cursor.folder_count), open_failed(run, cursor.failed_count)
    id = cursor.position + cursor.shift
    for result in complete:
        cursor.shifts += [id] * len(result.files)
        cursor.files += result.files
        cursor.folder_files += result.folder_files
        cursor.count += result.count
        cursor.errors = (cursor.errors + result.errors)[:MAX_NAMED_FAILURES]
        id += result.position
        await folders.extend(open_folders(run, result.folder_count, result.lists), result.position)
        await failed.extend(open_failed(run, result.failed_count, result.lists))
    await folders.flush()
    await failed.flush()
    cursor.position = cursor.folder_count
    cursor.shift = id - cursor.position
    cursor.folder_count, cursor.failed_count, cursor.seen = folders.count, failed.count, cursor.count
    cursor.parts = []
    await run.save()
    return True


async def read_part(task_id: str, round: int, number: int, seconds: float) -> bool:
    """Read a part until it or the time ends, and store the result, or the StorageProblem that ended it.

    Do nothing if there is a result, or if it is not needed any more.
    """
    seconds = min(seconds, PART_SECONDS)  # then the remaining folders are divided again
    run: PartRun[IndexSpec, IndexCursor] = PartRun(await asyncio.to_thread(records.get, task_id), INDEX, seconds)
    await run.look()
    part = next((part for part in run.cursor.parts if part.number == number), None)
    old = await find_result(task_id, round, number)
    if part is None or run.cursor.round != round or (old is not None and not old.problem):
        return False
    lists = f"part-{round}-{number}-{token_hex(3)}-"
    try:
        result = await _read_part(run, part, lists)
    except StorageProblem as problem:
        await store_result(task_id, round, number, PartResult(lists=lists, problem=problem.message))
        raise
    await store_result(task_id, round, number, result)
    return False


async def _read_part(run: PartRun[IndexSpec, IndexCursor], part: IndexPart, lists: str) -> PartResult:
    whole = open_folders(run, run.cursor.folder_count)
    cursor = run.cursor = IndexCursor(
        generation=f"{run.cursor.generation}-{run.cursor.round}-{part.number}", lists=lists
    )
    folders, position, end = open_folders(run, 0), part.position, part.position + part.count
    while position < end:
        rows = (await whole.read_rows(position))[: end - position]
        position += len(rows)
        for row in rows:
            await folders.append(row)
    await folders.flush()
    cursor.folder_count = folders.count
    mount = (await mounts.ready()).by_id.get(run.spec.storage_id)
    if mount is None:
        raise Cancelled
    await read_step(run, mount, await mount.get_driver(), None)
    return PartResult(
        lists=lists, files=cursor.files, folder_files=cursor.folder_files, position=cursor.position,
        folder_count=cursor.folder_count, failed_count=cursor.failed_count, errors=cursor.errors, count=cursor.count,
    )  # fmt: skip
