"""What it takes before the first request."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.environment import Environment, launch_service
from bench.table import work
from tests.service import Service

ROUNDS = 3


@contextmanager
def _run_service(env: Environment) -> Iterator[tuple[Service, float]]:
    """A service on data of its own, made by an earlier start, and the seconds until it answered."""
    data = env.folder / "used before"
    if not data.exists():
        launch_service(data).stop()
    began = time.perf_counter()
    service = launch_service(data)
    try:
        yield service, time.perf_counter() - began
    finally:
        service.stop()


@work("serve to first answer, existing data", "s", most=3)
def start(env: Environment) -> float:
    taken = []
    for _ in range(ROUNDS):
        with _run_service(env) as (_, seconds):
            taken.append(seconds)
    return statistics.median(taken)
