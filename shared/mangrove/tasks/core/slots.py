"""The slots of tasks of a kind, as the settings `…_task_threads_num` say, if no single process runs them.

A step holds a slot. Where none is free its machine tries again: after seconds at first, then after minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mangrove import configuration
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.records.tasks import model as records
from mangrove.records.tasks import slots
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.leases import find_task
from mangrove.tasks.core.registry import KINDS

SLOT_SECONDS = 60.0  # after which the slot of a worker that died is free
RENEW_SECONDS = 20.0
MOST = 500  # slots of one kind: its record is written by all who hold one
TOUCH_SECONDS = 600.0  # of waiting after which the record says that somebody still does, so that the sweep leaves it


class NoSlot(Problem):
    """As many tasks of the kind as the settings allow are at work; worth a retry."""

    text = "as many tasks as are allowed are at work"


@asynccontextmanager
async def hold_slot(id: str) -> AsyncIterator[None]:
    """Hold a slot for the task; NoSlot when none is free. What only has to end needs none."""
    if platform().single_task_process:
        yield
        return
    task = await find_task(id)
    setting = KINDS[task.kind].workers
    if task.done or task.cancel or not isinstance(setting, str):
        yield
        return
    most = min((await configuration.get()).settings.task_workers(setting), MOST)
    if not await asyncio.to_thread(slots.acquire, task.kind, task.id, most, SLOT_SECONDS):
        if time.time() - task.touched > TOUCH_SECONDS:
            await asyncio.to_thread(records.touch, task)
        raise NoSlot
    renewing = asyncio.create_task(_renew(task, most))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
        with suppress(Problem):  # it ends by itself
            await asyncio.to_thread(slots.release, task.kind, task.id)


async def _renew(task: Task, most: int) -> None:
    """Hold the slot on, also where it got lost: what is at work ends its step."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        with suppress(Problem):
            await asyncio.to_thread(slots.acquire, task.kind, task.id, most, SLOT_SECONDS)
