"""Resident memory of processes, from /proc."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.proc import list_descendants, read_if_there

SAMPLE_SECONDS = 0.02


def get_resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def get_proportional(pid: int) -> int:
    """Bytes of a process that are in memory, its share of what it has in common with others."""
    rolled = read_if_there(Path(f"/proc/{pid}/smaps_rollup")).decode()
    return sum(int(line.split()[1]) * 1024 for line in rolled.splitlines() if line.startswith("Pss:"))


def get_family_proportional(pid: int) -> int:
    """Of a process and all below it: what some of them share counts once."""
    return sum(map(get_proportional, (pid, *list_descendants(pid))))


class Growth:
    """A context in which the memory of a process is watched; `bytes` is its peak above what it began with."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._peak = get_resident(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def bytes(self) -> int:
        return self._peak - self._before

    def __enter__(self) -> Growth:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._peak = max(self._peak, get_resident(self._pid))
