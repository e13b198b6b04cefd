"""A large transfer in the cloud, shared among workers. Each copies the rows of one file of the list, and reports its
progress.

The worker of the task reads the reports in the order of the list.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from mangrove.core.problems import StorageProblem, Unreachable, UnreadableTask
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task, TaskView
from mangrove.tasks.core import files, partials, sharing, staging
from mangrove.tasks.core.leases import TOUCH_INTERVAL_SECONDS
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES
from mangrove.tasks.transfer.batches import copy_entries
from mangrove.tasks.transfer.declaration import TRANSFER, TransferCursor, TransferSpec
from mangrove.tasks.transfer.step import (
    TransferRoute,
    TransferRun,
    find_route,
    make_part_name,
    open_entries,
    open_failed,
    open_step,
)

MIN_SHARED_ROWS = 20_000  # left to be copied; below it, more workers do not pay off
MAX_PARTS = 200  # in one round: the machine's input has 256 KiB
PROGRESS_INTERVAL_SECONDS = 2.0  # between two writes of the progress to the record, by all workers of a task together
PART_LOST = "a part of the entries was not copied"


def is_to_be_shared(run: TransferRun) -> bool:
    """True if several workers should copy the rest."""
    return sharing.is_shared() and run.cursor.entry_count - run.cursor.position > MIN_SHARED_ROWS


def hand_out(run: TransferRun) -> None:
    """Have workers copy the next entries."""
    cursor = run.cursor
    first = cursor.position // staging.ROWS_PER_FILE
    cursor.handed = min(cursor.entry_count, (first + MAX_PARTS) * staging.ROWS_PER_FILE) - cursor.position


def describe_parts(run: TransferRun) -> dict[str, Any]:
    """Return the machine's input: `shared`, and the input of the state Part for each part."""
    return sharing.describe(run, "shared", run.cursor.round, _list_parts(run.cursor))


def _list_parts(cursor: TransferCursor) -> list[int]:
    if not cursor.handed:
        return []
    return list(
        range(
            cursor.position // staging.ROWS_PER_FILE, (cursor.position + cursor.handed - 1) // staging.ROWS_PER_FILE + 1
        )
    )


async def _find_progress(task_id: str, cursor: TransferCursor, number: int) -> TransferCursor | None:
    """Return the progress of a part; None if it has not started, or its report is of another version."""
    report = await sharing.find_report(task_id, make_part_name("part", cursor, number))
    try:
        return TransferCursor.load(report) if report is not None else None
    except UnreadableTask:
        return None


async def _store_progress(task_id: str, cursor: TransferCursor) -> None:
    assert cursor.part is not None
    await sharing.store_report(task_id, make_part_name("part", cursor, cursor.part), cursor.dump())


async def take_over(run: TransferRun) -> None:
    """Count the copied entries, up to the first part that has not ended.

    Raise StorageProblem after several rounds without progress.
    """
    cursor = run.cursor
    failed, start = open_failed(run, cursor), cursor.position
    for number in _list_parts(cursor):
        part = await _find_progress(run.task.id, cursor, number)
        if part is None or part.position < part.entry_count:
            break
        await failed.extend(open_failed(run, part))
        cursor.bytes_done += part.bytes_done
        cursor.errors = (cursor.errors + part.errors)[:MAX_NAMED_FAILURES]
        cursor.has_receipts = cursor.has_receipts or part.has_receipts
        cursor.position = part.entry_count
    await failed.flush()
    cursor.failed_count = failed.count
    cursor.handed = 0
    cursor.tries = 0 if cursor.position > start else cursor.tries + 1
    run.show_progress(cursor.bytes_done)
    await run.save()
    if cursor.tries >= sharing.MAX_FRUITLESS_ROUNDS:
        raise StorageProblem(PART_LOST)


async def abandon_parts(run: TransferRun) -> None:
    """Drop unfinished files of workers that will not continue."""
    cursor = run.cursor
    for number in _list_parts(cursor):
        part = await _find_progress(run.task.id, cursor, number)
        if part is None:
            continue
        cursor.has_receipts = cursor.has_receipts or part.has_receipts
        if part.partial is not None:
            cursor.partial = part.partial
            await partials.abandon_partial(run)
    cursor.handed = 0


class TransferPartRun(sharing.PartRun[TransferSpec, TransferCursor]):
    """The run of a part, which has a cursor of its own."""

    def __init__(self, task: Task, seconds: float) -> None:
        super().__init__(task, TRANSFER, seconds)
        self._done = self._shown = 0  # bytes of the part, and how many of them are in the record's progress
        self._shown_position = 0  # items of the list, up to which they are in the record's progress

    def begin(self, cursor: TransferCursor) -> None:
        """Continue from the progress of the part."""
        self.cursor = cursor
        self._done = self._shown = cursor.bytes_done
        self._shown_position = cursor.position

    def show_progress(self, done: int) -> None:
        """Report `done` bytes of the part with the next check."""
        self._done = done

    async def save(self) -> None:
        """Store the progress of the part. Raise Cancelled if it is not needed any more."""
        await _store_progress(self.task.id, self.cursor)
        await self.look()

    async def look(self, *, is_end: bool = False) -> None:
        """Read the task. Raise Cancelled if it should stop.

        At intervals, and at the end of a step, write the heartbeat and the progress of all parts.
        """
        await super().look()
        age = time.time() - self.task.touched  # below 0 while a worker holds the task
        has_news = self._done > self._shown and (is_end or age > PROGRESS_INTERVAL_SECONDS)
        is_due = age > TOUCH_INTERVAL_SECONDS or (has_news and age >= 0)
        if is_due and await asyncio.to_thread(records.touch, self.task, self._add_progress(self.task.view)):
            self._shown = self._done  # another worker was faster: report with the next check
            self._shown_position = self.cursor.position

    def _add_progress(self, view: TaskView) -> TaskView:
        """Return the view with the progress of this worker since its last write."""
        done = max(self._done - self._shown, 0)
        news = done / view.total_bytes if view.total_bytes else 0.0
        return replace(
            view,
            progress=min(round(view.progress + news * 100, 4), 100.0),
            done_bytes=view.done_bytes + done,
            done_items=view.done_items + max(self.cursor.position - self._shown_position, 0),
            current_item=self.view.current_item,
        )


async def copy_part(id: str, round: int, number: int, seconds: float) -> bool:
    """Copy the rows of a part until the time is over. Return True if there is more.

    Do nothing if they are copied, or not needed any more.
    """
    run = TransferPartRun(await asyncio.to_thread(records.get, id), seconds)
    await run.look()
    whole = run.cursor
    is_handed = (
        whole.position < (number + 1) * staging.ROWS_PER_FILE
        and number * staging.ROWS_PER_FILE < whole.position + whole.handed
    )
    if not is_handed or whole.round != round:
        return False
    run.begin(await _find_progress(id, whole, number) or _begin(whole, number))
    if run.cursor.position >= run.cursor.entry_count:
        return False
    return await _copy(run)


def _begin(whole: TransferCursor, number: int) -> TransferCursor:
    return TransferCursor(
        attempt=whole.attempt, planned=True, part=number, round=whole.round,
        position=max(number * staging.ROWS_PER_FILE, whole.position),
        entry_count=min((number + 1) * staging.ROWS_PER_FILE, whole.position + whole.handed),
    )  # fmt: skip


async def _copy(run: TransferPartRun) -> bool:
    route = await find_route(run)
    try:
        await _make_folders(run, route)
        more = await copy_entries(await open_step(run, route))
    finally:
        await _store_progress(run.task.id, run.cursor)
    await run.look(is_end=True)
    return more


async def _make_folders(run: TransferPartRun, route: TransferRoute) -> None:
    """Make the folders of the files, since the worker with the rows of the folders may come later.

    A folder that cannot be made is skipped: its files will fail with the reason.
    """
    rows = await open_entries(run, run.cursor.round, run.cursor.entry_count).read_rows(run.cursor.position)
    for folder in sorted({row.path.rpartition("/")[0] for row in rows if not row.is_dir}):
        if await route.find_refusal(folder) is None:
            try:
                await files.makedirs(route.find_target(folder))
            except Unreachable:
                raise
            except StorageProblem:
                pass
