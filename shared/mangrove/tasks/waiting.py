"""Slots for tasks that wait, in the cloud: those that wait longest go first.

A step without a free slot notes in its record since when it waits. When a step ends, the stream of the records calls
`hand_over`: it reserves each free slot for a waiting task and starts it. The retry in the state machine is for the case
that this call is lost.
"""

from __future__ import annotations

import asyncio
import time

from mangrove import configuration
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.core.telemetry import log_warning
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks import slots
from mangrove.tasks.core.leases import MAX_SLOTS, SLOT_SECONDS
from mangrove.tasks.core.registry import KINDS


async def hand_over(kind: str) -> list[str]:
    """Start the waiting tasks of a kind for which there are free slots. Return their ids."""
    setting = KINDS[kind].workers
    if not isinstance(setting, str):
        return []
    slot_count = min((await configuration.get()).settings.task_workers(setting), MAX_SLOTS)
    return await asyncio.to_thread(_hand_over, kind, slot_count)


def _hand_over(kind: str, slot_count: int) -> list[str]:
    holders = slots.list_holders(kind)
    free_count = slot_count - len(holders)
    if free_count <= 0:
        return []
    started = []
    for id in task_lists.list_waiting(kind, holders)[:free_count]:
        if not slots.acquire(kind, id, slot_count, SLOT_SECONDS):
            break  # another call has reserved it
        if _start(kind, id):
            started.append(id)
    return started


def _start(kind: str, id: str) -> bool:
    """Start a task that has a slot. Return False, and release the slot, if that fails."""
    try:
        task = records.get(id)
        if not task.done:
            platform().dispatcher.start(task, f"-{int(time.time())}")
            return True
    except RecordNotFound:
        pass
    except Problem as problem:
        log_warning("a waiting task could not be started", tid=id, reason=problem.message)
    slots.release(kind, id)
    return False
