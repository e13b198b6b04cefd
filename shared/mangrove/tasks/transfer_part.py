"""One worker of a shared transfer: it copies the rows of one chunk of the list."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from mangrove.problems import StorageProblem, Unreachable
from mangrove.records import tasks as records
from mangrove.records.base import RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks import manifest, specs, transfer
from mangrove.tasks.routes import TransferRoute, find_route
from mangrove.tasks.slots import TOUCH_SECONDS
from mangrove.tasks.specs import TransferCursor, TransferSpec
from mangrove.tasks.steps import Cancelled, Run, get_seconds
from mangrove.tasks.transfer_parts import find_progress, store_progress
from mangrove.tasks.unreadable import read_part
from mangrove.tasks.worker_loop import run_in_loop
from mangrove.telemetry import name_invocation

SECONDS = 300.0  # of a slice where no function says how long it may take


class PartRun(Run[TransferSpec, TransferCursor]):
    """A task as the worker of a part sees it: the task is not held, and the cursor is the part's own."""

    def __init__(self, task: Task, seconds: float) -> None:
        super().__init__(task, specs.TRANSFER, "", seconds)

    async def save(self) -> None:
        """Write down how far the part came; Cancelled when it is wanted no more."""
        await store_progress(self.task.id, self.cursor)
        await self.look()

    async def look(self) -> None:
        """Cancelled when the task is to stop. That somebody works for it, its record says now and then."""
        try:
            self.task = await asyncio.to_thread(records.get, self.task.id)
        except RecordMissing:
            raise Cancelled from None
        if self.task.done or self.task.cancel or self.task.removed:
            raise Cancelled
        if time.time() - self.task.touched > TOUCH_SECONDS:
            await asyncio.to_thread(records.touch, self.task)


@name_invocation
def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The state Part: `{"tid", "round", "part"}` in and out, with whether there is `more`."""
    id, round, number = read_part(event)
    more = run_in_loop(copy_part(id, round, number, get_seconds(context, SECONDS)))
    return {"tid": id, "round": round, "part": number, "more": more}


async def copy_part(id: str, round: int, number: int, seconds: float) -> bool:
    """Copy the rows of a chunk until the time is over; whether there is more. Nothing is done when they are copied, or
    are wanted no more."""
    try:
        run = PartRun(await asyncio.to_thread(records.get, id), seconds)
        await run.look()
    except (RecordMissing, Cancelled):
        return False
    whole = run.cursor
    is_handed = (
        whole.position < (number + 1) * manifest.CHUNK and number * manifest.CHUNK < whole.position + whole.handed
    )
    if not is_handed or whole.round != round:
        return False
    run.cursor = await find_progress(id, whole, number) or _begin(whole, number)
    if run.cursor.position >= run.cursor.entry_count:
        return False
    try:
        return await _copy(run)
    except Cancelled:
        return False  # what is begun, Settle drops


def _begin(whole: TransferCursor, number: int) -> TransferCursor:
    return TransferCursor(
        attempt=whole.attempt, planned=True, part=number, round=whole.round,
        position=max(number * manifest.CHUNK, whole.position),
        entry_count=min((number + 1) * manifest.CHUNK, whole.position + whole.handed),
    )  # fmt: skip


async def _copy(run: PartRun) -> bool:
    route = await find_route(run)
    try:
        await _make_folders(run, route)
        more = await transfer.copy_on(await transfer.open_slice(run, route))
    finally:
        await store_progress(run.task.id, run.cursor)
    await run.look()
    return more


async def _make_folders(run: PartRun, route: TransferRoute) -> None:
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
