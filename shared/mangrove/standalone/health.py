"""Health checks of a standalone service: its disk, its descriptors and its background work."""

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
SHORTAGE_SECONDS = 3.0  # for which a shortage of descriptors is reported
SILENT_SECONDS = 10.0  # without a sign of life, after which the work counts as stopped
WORK = {Activity.TASKS: "tasks are not run", Activity.SCHEDULE: "the schedule is not run"}
"""The reason that is reported for work that no process does."""


def add_disk_check() -> None:
    """Check the disk of the data directory."""
    runtime.get(Health).add(Check("no space left for the data directory", platform().is_data_disk_full))


def add_work_checks() -> None:
    """Check the work that one process of the service does for all."""
    for activity, reason in WORK.items():
        runtime.get(Health).add(Check(reason, partial(_is_idle, activity)))


def add_descriptor_check() -> None:
    """Check the file descriptors of all processes."""
    runtime.get(Health).add(Check("few file descriptors are left", _are_descriptors_short))


def _are_descriptors_short() -> bool:
    return activity_times().count_active(Activity.DESCRIPTORS_SHORT, SHORTAGE_SECONDS) > 0


async def watch_descriptors() -> None:
    """Report to all processes while this one has few descriptors left."""
    while True:
        if descriptors.are_short():
            activity_times().record(Activity.DESCRIPTORS_SHORT)
        await asyncio.sleep(NOTE_SECONDS)


def _is_idle(activity: Activity) -> bool:
    return not activity_times().count_active(activity, SILENT_SECONDS)


async def note_work(background: Mapping[Activity, asyncio.Task[Any]]) -> None:
    """Report to all processes, while it is true, that this process does the work."""
    while True:
        for activity, work in background.items():
            if not work.done():
                activity_times().record(activity)
        await asyncio.sleep(NOTE_SECONDS)
