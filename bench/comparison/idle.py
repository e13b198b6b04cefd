"""Memory of a service that has just started."""

from __future__ import annotations

import time

from bench.comparison.rows import Place, row
from bench.comparison.subjects import Subject

SETTLE_SECONDS = 2.0  # storages start in the background


@row("idle memory, per process", "MB", most=1.3)
def idle(place: Place, subject: Subject) -> float:
    subject.restart()
    time.sleep(SETTLE_SECONDS)
    return subject.weigh() / 1e6
