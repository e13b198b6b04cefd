"""Health checks of a standalone service: its disk, and the work in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from mangrove.configuration.health import Check, Health
from mangrove.core import descriptors, runtime
from mangrove.core.platform import platform
from mangrove.core.shared_memory import Activity, activity_times

NOTE_SECONDS = 1.0
SHORTAGE_SECONDS = 3.0  # for which a shortage of descriptors is told
SILENT_SECONDS = 10.0  # after which nobody does the work any more
WORK = {Activity.TASKS: "tasks are not run", Activity.SCHEDULE: "the schedule is not run"}
"""What is said of work that nobody does."""


def add_disk_check() -> None:
    """Look at the disk of the data directory."""
    runtime.get(Health).add(Check("no space left for the data directory", platform().is_data_disk_full))


def add_work_checks() -> None:
    """Look at the work that one process of the service does for all."""
    for activity, reason in WORK.items():
        runtime.get(Health).add(Check(reason, partial(_is_idle, activity)))


def add_descriptor_check() -> None:
    """Look at the file descriptors of all processes."""
    runtime.get(Health).add(Check("file descriptors run short", _are_descriptors_short))


def _are_descriptors_short() -> bool:
    return activity_times().count_active(Activity.DESCRIPTORS_SHORT, SHORTAGE_SECONDS) > 0


async def watch_descriptors() -> None:
    """Tell all processes while this one has few descriptors left."""
    while True:
        if descriptors.are_short():
            activity_times().record(Activity.DESCRIPTORS_SHORT)
        await asyncio.sleep(NOTE_SECONDS)


def _is_idle(activity: Activity) -> bool:
    return not activity_times().count_active(activity, SILENT_SECONDS)


async def note_work(background: Mapping[Activity, asyncio.Task[Any]]) -> None:
    """Say to all processes, as long as it is so, that this one does the work."""
    while True:
        for activity, work in background.items():
            if not work.done():
                activity_times().record(activity)
        await asyncio.sleep(NOTE_SECONDS)
