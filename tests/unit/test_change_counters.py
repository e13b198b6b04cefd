"""Counters of changes: all processes that share the memory read what each of them counts."""

from __future__ import annotations

import os

from mangrove.core.shared_memory import ChangeCounters, Topic
from tests.support.sharing import share_memory


def share(processes: int) -> list[ChangeCounters]:
    return [memory.changes for memory in share_memory(processes)]


def test_counter_bumped_by_a_process_is_read_by_others() -> None:
    first, two, three = share(3)
    before = two.read(Topic.FOLDER, (1, "/a"))
    first.bump(Topic.FOLDER, (1, "/a"))
    three.bump(Topic.FOLDER, (1, "/a"))
    assert two.read(Topic.FOLDER, (1, "/a")) == first.read(Topic.FOLDER, (1, "/a")) == before + 2
    assert two.read(Topic.TREE, (1, "/a")) == two.read(Topic.CONFIGURATION) == 0
    assert two.read_others(Topic.FOLDER, (1, "/a")) == 2
    assert first.read_others(Topic.FOLDER, (1, "/a")) == 1


def test_counter_of_everything_counts_for_each_key() -> None:
    first, two = share(2)
    before = two.read(Topic.SESSIONS), two.read(Topic.FOLDER, (7, "/x"))
    first.bump_all()
    assert two.read(Topic.SESSIONS) == before[0] + 1
    assert two.read(Topic.FOLDER, (7, "/x")) == before[1] + 1
    assert two.read_others(Topic.SESSIONS) == 1
    assert first.read_others(Topic.SESSIONS) == 0


def test_counter_of_a_dead_process_was_not_told() -> None:
    first, two = share(2)
    first.bump_all()
    assert two.read_told(Topic.DRIVERS) == 0
    first.bump(Topic.DRIVERS)
    assert two.read_told(Topic.DRIVERS) == 1
    assert first.read_told(Topic.DRIVERS) == 0


def test_counter_in_a_forked_process_has_the_same_place() -> None:
    here, there = share(2)
    pid = os.fork()
    if not pid:
        there.bump(Topic.REFUSALS, ("name", "10.0.0.1"))
        os._exit(0)
    os.waitpid(pid, 0)
    assert here.read(Topic.REFUSALS, ("name", "10.0.0.1")) == 1
