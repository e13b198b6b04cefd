"""The memory of a service: after its start, and after all other rows."""

from __future__ import annotations

import time

from bench.rows import Row, Workspace, row
from bench.subjects import Subject

SETTLE_SECONDS = 2.0  # storages start in the background


@row("idle memory, per process", "MB", most=1.3)
def idle(workspace: Workspace, subject: Subject) -> float:
    subject.restart()
    time.sleep(SETTLE_SECONDS)
    return subject.get_memory_per_process() / 1e6


@row("memory after this bench, per process", "MB", most=1.2)
def after(workspace: Workspace, subject: Subject) -> float:
    return subject.get_memory_per_process() / 1e6


FIRST_ROWS: tuple[Row, ...] = (idle,)
LAST_ROWS: tuple[Row, ...] = (after,)
