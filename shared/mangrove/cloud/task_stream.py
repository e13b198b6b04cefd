"""The stream of the task records: new tasks are started, free slots are handed over, and ended tasks are announced.

A batch may arrive twice. Starting a task twice is one execution, and a slot is reserved once.

A step without a free slot notes in its record since when it waits. When a step ends, `hand_over` reserves each free
slot for a waiting task and starts it: those that wait longest go first. The retry in the state machine is for the case
that this call is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from mangrove import configuration
from mangrove.cloud import event_bus
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.core.telemetry import log_warning
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks import slots
from mangrove.records.tasks.model import TaskView, load_view
from mangrove.records.tasks.ordering import TaskStatus, find_status
from mangrove.tasks.core.leases import MAX_SLOTS, SLOT_SECONDS
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS

TASK_ENDED = "TaskEnded"

Image = Mapping[str, Mapping[str, Any]]
"""A record as the stream has it: `{type: value}` by attribute."""


async def follow(event: Mapping[str, Any]) -> None:
    """Follow a batch of the stream. Raise Problem if it has to be delivered again."""
    changes = [
        (record["eventName"], record["dynamodb"]["NewImage"], record["dynamodb"].get("OldImage"))
        for record in event["Records"]
    ]
    for name, image, _ in changes:
        if name == "INSERT":
            await asyncio.to_thread(_start, image["id"]["S"])
    for kind in sorted({image["kind"]["S"] for name, image, _ in changes if name == "MODIFY"} & set(KINDS)):
        await hand_over(kind)
    ended = [image for _, image, before in changes if _is_done(image) and not (before and _is_done(before))]
    details = [
        _describe(image["kind"]["S"], load_view(image["view"]["S"]))
        for image in ended
        if KINDS[image["kind"]["S"]].is_listed
    ]
    await asyncio.to_thread(event_bus.announce, TASK_ENDED, details)


def _start(id: str) -> None:
    """Start a new task, unless that was done: its request may have died before."""
    try:
        task = records.get(id)
    except RecordNotFound:
        return
    if not task.done and not task.attempt and not task.lease.token:
        platform().dispatcher.start(task)


def _is_done(image: Image) -> bool:
    return find_status(image["owner_key"]["S"]) is TaskStatus.DONE


def _describe(kind: str, view: TaskView) -> dict[str, Any]:
    state = State(view.state).name.lower()
    fields = {name: getattr(view, name) for name in ("id", "name", "creator", "error", "start_time", "end_time")}
    return {"kind": kind, "state": state, "bytes": view.total_bytes, **fields}


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
        if _start_waiting(kind, id):
            started.append(id)
    return started


def _start_waiting(kind: str, id: str) -> bool:
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
