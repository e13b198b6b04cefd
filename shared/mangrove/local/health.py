"""What one machine adds to the health of the service: its disk, and the work in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mangrove import runtime
from mangrove.local.data_directory import ROOM_BYTES
from mangrove.site.health import Check, Health


def add_disk_check(data: Path) -> None:
    """Look at the disk of the data directory."""

    def is_full() -> bool:
        disk = os.statvfs(data)
        return disk.f_bavail * disk.f_frsize < ROOM_BYTES

    runtime.get(Health).add(Check("no space left for the data directory", is_full))


def add_work_checks(background: Mapping[str, asyncio.Task[Any]]) -> None:
    """Look at work that must not end, each by what is said when it did."""
    for reason, work in background.items():
        runtime.get(Health).add(Check(reason, work.done))
