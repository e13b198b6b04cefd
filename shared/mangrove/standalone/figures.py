"""The figures of this machine: connections, sessions, the data disk, and the memory of the processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mangrove.core.limits import limits
from mangrove.core.metrics import LOG_LINES, PROCESS_IDS, REQUESTS
from mangrove.core.platform import MachineFigures, ProcessMemory
from mangrove.core.shared_memory import Counts, Region, metrics, session_times

PROC = Path("/proc")
INDEX_NAME = "mangrove-index"  # of the process of the search index
MAX_PROCESSES = 64  # whose memory is read


def note_process() -> None:
    """Record the id of this process for `read_figures`."""
    metrics().set(PROCESS_IDS, os.getpid())


def name_index_process() -> None:
    """Give this process the name of the process of the search index, where the kernel has names of processes."""
    with suppress(OSError):
        (PROC / "self" / "comm").write_text(INDEX_NAME)


def read_figures(data: Path) -> MachineFigures:
    """Return the figures. Reading the memory of a large process takes some milliseconds: call it in a thread."""
    disk = shutil.disk_usage(data)
    requests = list(metrics().iterate(REQUESTS))
    lines = {labels[0]: count for labels, count in metrics().iterate(LOG_LINES)}
    return MachineFigures(
        connections=Counts(Region.CONNECTIONS).read_all(None),
        event_streams=limits().event_streams.count_active(),
        sessions=session_times().count_active(),
        total_bytes=disk.total,
        free_bytes=disk.free,
        processes=[ProcessMemory(name, size) for name, pid in _list_processes() if (size := _read_pss(pid))],
        requests=sum(count for _, count in requests),
        failed_requests=sum(count for (_, status), count in requests if status.startswith("5")),
        warnings=lines["warning"],
        errors=lines["error"],
    )


def _list_processes() -> Iterator[tuple[str, int]]:
    """Yield the names and ids of the processes that answer, of their parent, and of the records engine."""
    servers = [pid for pid in metrics().read_columns(PROCESS_IDS) if pid]
    for number, pid in enumerate(servers):
        yield f"server-{number}", pid
    parent = os.getppid() if len(servers) > 1 else os.getpid()
    if parent not in servers:
        yield "parent", parent
    others = [pid for pid in _list_children(parent) if pid not in servers][: MAX_PROCESSES - len(servers)]
    for pid in others:
        yield _read_name(pid), pid


def _list_children(parent: int) -> list[int]:
    try:
        tasks = (PROC / str(parent) / "task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:  # it has ended, or the kernel does not tell
        return []


def _read_name(pid: int) -> str:
    try:
        name = (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "other"
    return "engine" if name.startswith("dynoxide") else "index" if name == INDEX_NAME else "other"


def _read_pss(pid: int) -> int:
    """Return the bytes of memory of a process; 0 if it has ended, or may not be read."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
