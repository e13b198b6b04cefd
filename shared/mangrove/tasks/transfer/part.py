"""One worker of a shared transfer: it copies the rows of one chunk of the list."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task, TaskView
from mangrove.tasks.core import manifest, sharing
from mangrove.tasks.core.slots import TOUCH_SECONDS
from mangrove.tasks.transfer import worker as transfer
from mangrove.tasks.transfer.declaration import TRANSFER, TransferCursor, TransferSpec
from mangrove.tasks.transfer.parts import find_progress, store_progress
from mangrove.tasks.transfer.routes import TransferRoute, find_route

SHOW_SECONDS = 2.0  # between two writes of the progress to the record, by all workers of a task together


class TransferPartRun(sharing.PartRun[TransferSpec, TransferCursor]):
    """The run of a part, which has a cursor of its own."""

    def __init__(self, task: Task, seconds: float) -> None:
        super().__init__(task, TRANSFER, seconds)
        self._done = self._shown = 0  # bytes of the part, and how many of them the record's progress has

    def begin(self, cursor: TransferCursor) -> None:
        """Go on from where the part came to."""
        self.cursor = cursor
        self._done = self._shown = cursor.bytes_done

    def show_progress(self, done: int) -> None:
        """Have the next look show that `done` bytes of the part are there."""
        self._done = done

    async def save(self) -> None:
        """Write down how far the part came; Cancelled when it is wanted no more."""
        await store_progress(self.task.id, self.cursor)
        await self.look()

    async def look(self, *, is_end: bool = False) -> None:
        """Cancelled when the task is to stop. That somebody works for it, and how far all came, its record says now and
        then, and at the end of a step."""
        await super().look()
        age = time.time() - self.task.touched  # below 0 while a worker holds the task
        has_news = self._done > self._shown and (is_end or age > SHOW_SECONDS)
        is_due = age > TOUCH_SECONDS or (has_news and age >= 0)
        if is_due and await asyncio.to_thread(records.touch, self.task, self._add_progress(self.task.view)):
            self._shown = self._done  # else a worker beside this one was faster: with the next look

    def _add_progress(self, view: TaskView) -> TaskView:
        """What is to be shown when the news of this worker are added to what is."""
        news = max(self._done - self._shown, 0) / view.total_bytes if view.total_bytes else 0.0
        return replace(view, progress=min(round(view.progress + news * 100, 4), 100.0))


async def copy_part(id: str, round: int, number: int, seconds: float) -> bool:
    """Copy the rows of a chunk until the time is over. True if there is more. Nothing is done if they are copied, or
    are not needed any more."""
    run = TransferPartRun(await asyncio.to_thread(records.get, id), seconds)
    await run.look()
    whole = run.cursor
    is_handed = (
        whole.position < (number + 1) * manifest.CHUNK and number * manifest.CHUNK < whole.position + whole.handed
    )
    if not is_handed or whole.round != round:
        return False
    run.begin(await find_progress(id, whole, number) or _begin(whole, number))
    if run.cursor.position >= run.cursor.entry_count:
        return False
    return await _copy(run)


def _begin(whole: TransferCursor, number: int) -> TransferCursor:
    return TransferCursor(
        attempt=whole.attempt, planned=True, part=number, round=whole.round,
        position=max(number * manifest.CHUNK, whole.position),
        entry_count=min((number + 1) * manifest.CHUNK, whole.position + whole.handed),
    )  # fmt: skip


async def _copy(run: TransferPartRun) -> bool:
    route = await find_route(run)
    try:
        await _make_folders(run, route)
        more = await transfer.copy_on(await transfer.open_step(run, route))
    finally:
        await store_progress(run.task.id, run.cursor)
    await run.look(is_end=True)
    return more


async def _make_folders(run: TransferPartRun, route: TransferRoute) -> None:
    """Make the folders of the files: the worker whose row they are may come later. Where that may not or cannot be, the
    files tell why."""
    rows = await transfer.open_entries(run, run.cursor.round, run.cursor.entry_count).read_rows(run.cursor.position)
    for folder in sorted({row.path.rpartition("/")[0] for row in rows if not row.is_dir}):
        if route.find_refusal(folder) is None:
            try:
                await route.find_target(folder).makedirs()
            except Unreachable:
                raise
            except StorageProblem:
                pass
