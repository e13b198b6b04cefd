"""What it takes before the first request: time and memory of a start."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.environment import Environment, launch_service
from bench.memory import get_family_resident
from bench.table import work
from tests.service import Service

ROUNDS = 3
SETTLE_SECONDS = 0.5  # storages start in the background


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


@work("resident after the start, with the engine", "MB", most=150, peer="66")
def idle(env: Environment) -> float:
    with _run_service(env) as (service, _):
        time.sleep(SETTLE_SECONDS)
        return get_family_resident(service.process.pid) / 1e6
