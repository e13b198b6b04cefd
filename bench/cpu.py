"""CPU time of processes, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

from tests.proc import list_descendants, read_if_there

_TICKS = os.sysconf("SC_CLK_TCK")


def _get_seconds(pid: int) -> float:
    """Of a process, and of those it has started whose end it has seen."""
    fields = read_if_there(Path(f"/proc/{pid}/stat")).decode().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def get_family_seconds(pid: int) -> float:
    """Of a process and all below it."""
    return sum(_get_seconds(one) for one in (pid, *list_descendants(pid)))
