"""The stream of the task records: new tasks are started, free slots are handed over, and ended tasks are announced.

A batch may arrive twice. Starting a task twice is one execution, and a slot is reserved once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from mangrove.core import aws
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import TaskView, load_view
from mangrove.records.tasks.ordering import TaskStatus, find_status
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.waiting import hand_over

MAX_EVENTS_PER_CALL = 10  # of PutEvents
SOURCE, TASK_ENDED = "mangrove", "TaskEnded"

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
    await asyncio.to_thread(_announce, [image for image in ended if KINDS[image["kind"]["S"]].is_listed])


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


def _announce(images: Iterable[Image]) -> None:
    """Put an event of each ended task on the bus of the deployment."""
    entries = [
        {
            "Source": SOURCE, "DetailType": TASK_ENDED, "EventBusName": os.environ["MANGROVE_EVENT_BUS"],
            "Detail": orjson.dumps(_describe(image["kind"]["S"], load_view(image["view"]["S"]))).decode(),
        }
        for image in images
    ]  # fmt: skip
    for start in range(0, len(entries), MAX_EVENTS_PER_CALL):
        _put(entries[start : start + MAX_EVENTS_PER_CALL])


def _describe(kind: str, view: TaskView) -> dict[str, Any]:
    state = State(view.state).name.lower()
    fields = {name: getattr(view, name) for name in ("id", "name", "creator", "error", "start_time", "end_time")}
    return {"kind": kind, "state": state, "bytes": view.total_bytes, **fields}


def _put(entries: Sequence[Mapping[str, Any]]) -> None:
    answer = aws.create_client("events").put_events(Entries=entries)
    if answer["FailedEntryCount"]:
        raise Problem(f"{answer['FailedEntryCount']} events of {len(entries)} were not taken")
