"""The stream of the task records: new tasks are started, free slots are handed over, and ended tasks are announced.

A batch may arrive twice. Starting a task twice is one execution, and a slot is reserved once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mangrove.cloud import event_bus
from mangrove.core.platform import platform
from mangrove.core.problems import RecordNotFound
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import TaskView, load_view
from mangrove.records.tasks.ordering import TaskStatus, find_status
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.waiting import hand_over

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
