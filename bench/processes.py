"""CPU and memory of a process and its descendants, from /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.support.proc import get_pss, list_descendants, read_if_there

SAMPLE_INTERVAL_SECONDS = 0.02
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def _get_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of the children it has waited for."""
    fields = read_if_there(Path(f"/proc/{pid}/stat")).decode().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND


def get_family_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all its descendants."""
    return sum(_get_cpu_seconds(member) for member in (pid, *list_descendants(pid)))


def get_family_pss(pid: int) -> int:
    """Return the bytes in memory of a process and all its descendants; shared pages count once."""
    return sum(map(get_pss, (pid, *list_descendants(pid))))


class MemoryGrowth:
    """A context that samples the memory of a family of processes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._peak = get_family_pss(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def bytes(self) -> int:
        """The peak above the first sample."""
        return self._peak - self._before

    def __enter__(self) -> MemoryGrowth:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_INTERVAL_SECONDS):
            self._peak = max(self._peak, get_family_pss(self._pid))
