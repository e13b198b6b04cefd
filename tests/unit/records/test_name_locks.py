"""Name locks on the real engine: one holder, also for repeated requests, and a takeover only without renewal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.records import name_locks
from mangrove.records.name_locks import Heartbeat
from mangrove.records.store import counters
from mangrove.records.store.base import RecordConflict, delete_expired

pytestmark = pytest.mark.usefixtures("records")


def test_one_of_many_takes_a_name_and_nobody_else_gives_it_up() -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda number: name_locks.acquire("x", str(number)), range(16)))
    assert sum(taken) == 1
    holder = str(taken.index(True))
    assert name_locks.find("x") == Heartbeat(holder, 0)
    name_locks.release(["x"], "another")
    assert name_locks.find("x") == Heartbeat(holder, 0)
    name_locks.release(["x"], holder)
    name_locks.release(["x"], holder)
    assert name_locks.find("x") is None


def test_a_call_that_is_repeated_since_its_answer_was_lost_counts_once() -> None:
    assert name_locks.acquire("x", "one") and name_locks.acquire("x", "one")
    assert name_locks.find("x") == Heartbeat("one", 0)


def test_a_hold_is_taken_over_only_as_it_was_seen() -> None:
    assert name_locks.acquire("x", "one")
    seen = name_locks.find("x")
    name_locks.send_heartbeat(["x"], "one")
    assert not name_locks.acquire("x", "two", seen)
    assert name_locks.acquire("x", "two", name_locks.find("x"))
    with pytest.raises(RecordConflict):
        name_locks.send_heartbeat(["x"], "one")
    name_locks.release(["x"], "one")
    assert name_locks.find("x") == Heartbeat("two", 0)


def test_a_hold_that_is_renewed_is_not_swept() -> None:
    assert name_locks.acquire("x", "one")
    delete_expired(counters.Counter)
    assert name_locks.find("x") == Heartbeat("one", 0)


def test_many_names_are_locked_renewed_and_released_together() -> None:
    names = [str(number) for number in range(name_locks.MAX_NAMES_PER_CALL)]
    assert name_locks.acquire_all(names, "one") and name_locks.acquire_all(names, "one")
    assert not name_locks.acquire_all([*names[1:], "free"], "two")
    assert name_locks.find("free") is None
    name_locks.send_heartbeat(names, "one")
    assert {name_locks.find(name) for name in names} == {Heartbeat("one", 1)}
    assert name_locks.acquire("7", "two", Heartbeat("one", 1))
    with pytest.raises(RecordConflict):
        name_locks.send_heartbeat(names, "one")
    name_locks.release(names, "one")
    assert {name: name_locks.find(name) for name in names} == dict.fromkeys(names) | {"7": Heartbeat("two", 0)}
