"""Counts of changes: what one process notes all that share the memory read, and nothing of another thing changes."""

from __future__ import annotations

import os

from mangrove.core.generations import Generations, Topic
from tests.sharing import share_memory


def share(processes: int) -> list[Generations]:
    return [Generations(memory) for memory in share_memory(processes)]


def test_what_one_process_notes_the_others_read() -> None:
    one, two, three = share(3)
    before = two.read(Topic.FOLDER, (1, "/a"))
    one.note(Topic.FOLDER, (1, "/a"))
    three.note(Topic.FOLDER, (1, "/a"))
    assert two.read(Topic.FOLDER, (1, "/a")) == one.read(Topic.FOLDER, (1, "/a")) == before + 2
    assert two.read(Topic.TREE, (1, "/a")) == two.read(Topic.CONFIGURATION) == 0
    assert two.read_others(Topic.FOLDER, (1, "/a")) == 2
    assert one.read_others(Topic.FOLDER, (1, "/a")) == 1


def test_a_change_of_everything_is_one_of_each() -> None:
    one, two = share(2)
    before = two.read(Topic.SESSIONS), two.read(Topic.FOLDER, (7, "/x"))
    one.note_all()
    assert two.read(Topic.SESSIONS) == before[0] + 1
    assert two.read(Topic.FOLDER, (7, "/x")) == before[1] + 1
    assert two.read_others(Topic.SESSIONS) == 1
    assert one.read_others(Topic.SESSIONS) == 0


def test_that_a_process_died_is_nothing_it_said() -> None:
    one, two = share(2)
    one.note_all()
    assert two.read_said(Topic.DRIVERS) == 0
    one.note(Topic.DRIVERS)
    assert two.read_said(Topic.DRIVERS) == 1
    assert one.read_said(Topic.DRIVERS) == 0


def test_a_forked_process_hashes_alike() -> None:
    here, there = share(2)
    pid = os.fork()
    if not pid:
        there.note(Topic.REFUSALS, ("name", "10.0.0.1"))
        os._exit(0)
    os.waitpid(pid, 0)
    assert here.read(Topic.REFUSALS, ("name", "10.0.0.1")) == 1
