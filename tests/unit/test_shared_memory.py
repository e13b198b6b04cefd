"""Numbers of several processes: each writes its own, all read all, and a process that died leaves none behind."""

from __future__ import annotations

import time

import pytest

from mangrove.core import runtime, shared_memory
from mangrove.core.shared_memory import Activity, Counts, Region, activity_times
from tests.support.sharing import share_memory, share_runtimes


def make_counts(processes: int) -> list[Counts]:
    counts = []
    for process_runtime in share_runtimes(processes):
        with runtime.use(process_runtime):
            counts.append(Counts(Region.CONNECTIONS))
    return counts


def test_regions_do_not_overlap() -> None:
    first, two = share_memory(2)
    for number, region in enumerate(Region, 1):
        numbers = first.get_numbers(region)
        assert len(numbers) == 2 * region.value
        first.add(numbers, 0, number)
        two.add(two.get_numbers(region), region.value - 1, 10 * number)
    for number, region in enumerate(Region, 1):
        numbers = two.get_numbers(region)
        assert list(two.read(numbers, 0)) == [number, 0]
        assert list(two.read(numbers, region.value - 1)) == [0, 10 * number]
        assert sum(numbers) == 11 * number


def test_what_a_process_has_the_others_count() -> None:
    first, two, three = make_counts(3)
    first.add("10.0.0.1", 2)
    two.add("10.0.0.1", 1)
    first.add(None, 2)
    assert [counts.read_others("10.0.0.1") for counts in (first, two, three)] == [1, 2, 3]
    first.add("10.0.0.1", -2)
    assert three.read_others("10.0.0.1") == 1
    assert [counts.read_others(None) for counts in (first, two, three)] == [0, 2, 2]


def test_what_a_process_leaves_behind_is_cleared() -> None:
    first, two = share_memory(2)
    for memory in (first, two):
        for region in Region:
            memory.add(memory.get_numbers(region), 1, 5)
    first.clear(Region.CONNECTIONS)
    assert list(two.read(two.get_numbers(Region.CONNECTIONS), 1)) == [0, 5]
    assert list(two.read(two.get_numbers(Region.TIMES), 1)) == [5, 5]


def test_processes_are_active_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr(time, "monotonic_ns", lambda: int(now * 1e9))
    times = []
    for process_runtime in share_runtimes(2):
        with runtime.use(process_runtime):
            times.append(activity_times())
    first, second = times
    assert second.count_active(Activity.CLIENT_UPLOADS) == 0
    first.record(Activity.CLIENT_UPLOADS)
    assert second.count_active(Activity.CLIENT_UPLOADS) == 1
    now += 0.6
    second.record(Activity.CLIENT_UPLOADS)
    assert first.count_active(Activity.CLIENT_UPLOADS) == 2
    now += 0.6
    assert first.count_active(Activity.CLIENT_UPLOADS) == 1
    assert first.count_active(Activity.CLIENT_UPLOADS, 5) == 2
    assert first.count_active(Activity.CLIENT_DOWNLOADS) == 0
    assert shared_memory.RECENT_SECONDS < 1.2
