"""What it takes before the first request: time and memory of a start, imports of a function in the cloud."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from bench.memory import family
from bench.place import Place, launched
from bench.table import work
from tests.service import Service

ROOT = Path(__file__).parent.parent
ROUNDS = 3
SETTLE_SECONDS = 0.5  # storages start in the background


@contextmanager
def _started(place: Place) -> Iterator[tuple[Service, float]]:
    """A service on data of its own, made by an earlier start, and the seconds until it answered."""
    data = place.folder / "used before"
    if not data.exists():
        launched(data).stop()
    began = time.perf_counter()
    service = launched(data)
    try:
        yield service, time.perf_counter() - began
    finally:
        service.stop()


@work("serve to first answer, existing data", "s", most=3)
def start(place: Place) -> float:
    taken = []
    for _ in range(ROUNDS):
        with _started(place) as (_, seconds):
            taken.append(seconds)
    return statistics.median(taken)


@work("resident after the start, with the engine", "MB", most=150, peer="66")
def idle(place: Place) -> float:
    with _started(place) as (service, _):
        time.sleep(SETTLE_SECONDS)
        return family(service.process.pid) / 1e6


@cache
def _fresh(code: str) -> float:
    """Seconds of a new interpreter that runs `code`, compiled before; the least of some."""
    taken = []
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def _import(module: str, place: Place) -> float:
    return _fresh(f"import {module}") - _fresh("pass")


for _file in sorted((ROOT / "functions").glob("**/*.py")):
    _module = ".".join(_file.relative_to(ROOT).with_suffix("").parts)
    work(f"import of {_module}", "s")(partial(_import, _module))
