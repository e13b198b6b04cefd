"""The first page of a large folder after a start, and the following one."""

from __future__ import annotations

import statistics
import time

from bench.rows import Row, Workspace, row
from bench.subjects import Subject

LOCAL_ENTRIES, PAGE_SIZE = 100_000, 50
WARM_ROUNDS = 20


def _time_page(subject: Subject, path: str, total: int) -> float:
    """Return the seconds until the first page is read. Fail unless it is full."""
    began = time.perf_counter()
    data = subject.ask("/api/fs/list", path=path, page=1, per_page=PAGE_SIZE)
    seconds = time.perf_counter() - began
    assert len(data["content"]) == PAGE_SIZE and data["total"] >= total, data["total"]
    return seconds


@row("100,000 entries, cold page", "s", most=0.6)
def local_cold(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(LOCAL_ENTRIES))
    subject.restart()
    return _time_page(subject, path, LOCAL_ENTRIES)


@row("100,000 entries, warm page", "s", most=0.005)
def local_warm(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(LOCAL_ENTRIES))
    _time_page(subject, path, LOCAL_ENTRIES)
    return statistics.median(_time_page(subject, path, LOCAL_ENTRIES) for _ in range(WARM_ROUNDS))


@row("10,000 keys of S3, cold page", "s", most=0.8)
def keys_cold(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_bucket(workspace.buckets.endpoint, "keys")
    subject.restart()
    return _time_page(subject, path, PAGE_SIZE)


ROWS: tuple[Row, ...] = (local_cold, local_warm, keys_cold)
