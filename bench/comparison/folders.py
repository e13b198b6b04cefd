"""The first page of a large folder after a start, and the following one."""

from __future__ import annotations

import statistics
import time

from bench.comparison.rows import Place, row
from bench.comparison.subjects import Subject

LOCAL_ENTRIES, PAGE = 100_000, 50
WARM_ROUNDS = 20


def _time_page(subject: Subject, path: str, total: int) -> float:
    """Seconds; the page has to be full, and the folder as large as it is where that is known."""
    began = time.perf_counter()
    data = subject.ask("/api/fs/list", path=path, page=1, per_page=PAGE)
    seconds = time.perf_counter() - began
    assert len(data["content"]) == PAGE and data["total"] >= total, data["total"]
    return seconds


@row("100,000 entries, cold page", "s", most=0.6)
def local_cold(place: Place, subject: Subject) -> float:
    path = subject.mount_local(place.make_files(LOCAL_ENTRIES))
    subject.restart()
    return _time_page(subject, path, LOCAL_ENTRIES)


@row("100,000 entries, warm page", "s", most=0.005)
def local_warm(place: Place, subject: Subject) -> float:
    path = subject.mount_local(place.make_files(LOCAL_ENTRIES))
    _time_page(subject, path, LOCAL_ENTRIES)
    return statistics.median(_time_page(subject, path, LOCAL_ENTRIES) for _ in range(WARM_ROUNDS))


@row("10,000 keys of S3, cold page", "s", most=0.8)
def keys_cold(place: Place, subject: Subject) -> float:
    path = subject.mount_bucket(place.buckets.endpoint, "keys")
    subject.restart()
    return _time_page(subject, path, PAGE)
