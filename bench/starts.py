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

from bench.environment import Environment, launch_service
from bench.memory import get_family_resident
from bench.table import work
from tests.service import Service

ROOT = Path(__file__).parent.parent
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


@cache
def _time_code(code: str) -> float:
    """Seconds of a new interpreter that runs `code`, compiled before; the least of some."""
    taken = []
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def _time_import(module: str, env: Environment) -> float:
    return _time_code(f"import {module}") - _time_code("pass")


for _file in sorted((ROOT / "functions").glob("**/*.py")):
    _module = ".".join(_file.relative_to(ROOT).with_suffix("").parts)
    work(f"import of {_module}", "s")(partial(_time_import, _module))
