"""Metrics in the memory that processes share."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from mangrove.core import metrics as shared
from mangrove.core.metrics import (
    OTHER_VALUE,
    REQUEST_SECONDS,
    REQUESTS,
    ROUTE_GROUPS,
    SECOND_BUCKETS,
    TASK_KINDS,
    Histogram,
)
from mangrove.core.shared_memory import SharedMemory, measure
from mangrove.tasks.core.registry import KINDS

ROOT = Path(__file__).resolve().parents[2]


def share(processes: int) -> list[SharedMemory]:
    memory = memoryview(bytearray(measure(processes)))
    return [SharedMemory(memory, processes, column) for column in range(processes)]


def test_counter_is_the_sum_of_all_processes_and_threads() -> None:
    memories = share(2)

    def count() -> None:
        for _ in range(1000):
            memories[0].metrics.count(REQUESTS, "files", "200")

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memories[1].metrics.count(REQUESTS, "files", "200", amount=5)
    memories[1].metrics.count(REQUESTS, "tasks", "404")
    totals = {labels: total for labels, total in memories[0].metrics.iterate(REQUESTS) if total}
    assert totals == {("files", "200"): 4005, ("tasks", "404"): 1}


def test_unknown_label_counts_as_other() -> None:
    (memory,) = share(1)
    memory.metrics.count(REQUESTS, "made up", "299")
    assert [labels for labels, total in memory.metrics.iterate(REQUESTS) if total] == [(OTHER_VALUE, OTHER_VALUE)]


def test_histogram_has_counts_of_buckets_and_the_sum() -> None:
    (memory,) = share(1)
    for seconds in (0.001, 0.005, 0.3, 100.0):
        memory.metrics.observe(REQUEST_SECONDS, seconds, "files")
    histograms = dict(memory.metrics.iterate_histograms(REQUEST_SECONDS))
    counts = [0] * (len(SECOND_BUCKETS) + 1)
    counts[0], counts[SECOND_BUCKETS.index(0.5)], counts[-1] = 2, 1, 1
    assert histograms["files",] == Histogram(counts, 100.306)
    assert not any(histograms["tasks",].counts)


def test_series_do_not_share_places() -> None:
    (memory,) = share(1)
    memory.metrics.count(shared.LOG_LINES, "error", amount=7)
    memory.metrics.set(shared.PROCESS_IDS, 9)
    for series in shared.SERIES:
        if series.buckets:
            assert not any(any(histogram.counts) for _, histogram in memory.metrics.iterate_histograms(series))
        elif series is not shared.PROCESS_IDS:
            assert sum(total for _, total in memory.metrics.iterate(series)) == (7 if series is shared.LOG_LINES else 0)
    assert memory.metrics.read_columns(shared.PROCESS_IDS) == [9]


def test_counters_outlive_their_process() -> None:
    memories = share(2)
    memories[1].metrics.count(REQUESTS, "files", "200")
    memories[1].forget_process()
    assert dict(memories[0].metrics.iterate(REQUESTS))["files", "200"] == 1


def test_labels_have_all_groups_and_kinds() -> None:
    groups = {path.name for path in (ROOT / "functions" / "api").iterdir() if (path / "app.py").exists()}
    assert set(ROUTE_GROUPS.values) == groups | {OTHER_VALUE}
    assert set(TASK_KINDS.values) == KINDS.keys() | {OTHER_VALUE}


def test_session_in_two_processes_counts_once() -> None:
    memories = share(2)
    for memory in memories:
        memory.sessions.record("a")
    memories[1].sessions.record("b")
    assert memories[0].sessions.count_active() == 2
    assert memories[0].sessions.count_active(seconds=0.0) == 0
