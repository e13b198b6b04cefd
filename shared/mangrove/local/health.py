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


def add_checks(data: Path, background: Mapping[str, asyncio.Task[Any]]) -> None:
    """Look at the disk of the data directory, and at work that must not end, each by what is said when it did."""

    def is_full() -> bool:
        disk = os.statvfs(data)
        return disk.f_bavail * disk.f_frsize < ROOM_BYTES

    health = runtime.get(Health)
    health.add(Check("no space left for the data directory", is_full))
    for reason, work in background.items():
        health.add(Check(reason, work.done))
