"""The cost of a request for the service: peak memory, and the time that others wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.proc import read_stat
from tests.support.service import HttpClient, Service


@dataclass(slots=True)
class Load:
    """`memory`: maximum growth in bytes of the processes that answer, together; `wait`: the longest duration of
    another client's requests, in seconds of work of these processes: what else the computer does is not counted.
    """

    memory: int = 0
    wait: float = 0.0


@contextmanager
def measure_load(service: Service) -> Iterator[Load]:
    """Measure the work in the context."""
    load, pids, is_over = Load(), service.list_servers(), threading.Event()
    before = sum(_read_size(pid, "VmRSS") for pid in pids)
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak starts again
    pinging = threading.Thread(target=_ping, args=(service.address, pids, load, is_over))
    pinging.start()
    try:
        yield load
    finally:
        is_over.set()
        pinging.join()
    load.memory = sum(_read_size(pid, "VmHWM") for pid in pids) - before


def _read_size(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def _ping(address: str, pids: list[int], load: Load, is_over: threading.Event) -> None:
    with HttpClient(base_url=address, timeout=60) as client:
        while not is_over.is_set():
            began = _read_work_seconds(pids)
            assert client.get("/ping").text == "pong"
            load.wait = max(load.wait, _read_work_seconds(pids) - began)
            time.sleep(0.005)


def _read_work_seconds(pids: list[int]) -> float:
    """Return the CPU time of the processes."""
    ticks = sum(sum(map(int, read_stat(pid)[11:13])) for pid in pids)
    return ticks / os.sysconf("SC_CLK_TCK")
