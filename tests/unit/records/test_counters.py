"""Counters on the real engine: numbers that many callers raise together, and that end."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from mangrove.records import sessions
from mangrove.records.store import counters
from mangrove.records.store.base import delete_expired

pytestmark = pytest.mark.usefixtures("records")


def count(key: str, seconds: int) -> int:
    return counters.read([key], "none", seconds)[0][key]


def test_ids_are_never_given_twice() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: counters.next_id("x"), range(100)))
    assert sorted(ids) == list(range(1, 101))


def test_failures_count_up_and_end() -> None:
    assert count("k", 60) == 0
    assert [counters.add_failure("k", 60) for _ in range(3)] == [1, 2, 3]
    assert count("k", 60) == 3
    assert counters.clear_failures("k", 4, 60, "known", 60)
    assert count("k", 60) == 0
    counters.add_failure("past", -1)
    assert count("past", 60) == 0
    assert counters.add_failure("past", 60) == 1


def test_reset_of_count_and_mark_is_atomic() -> None:
    assert not counters.read([], "known", 60)[1]
    for _ in range(3):
        counters.add_failure("k", 60)
    assert not counters.clear_failures("k", 3, 60, "known", 60)
    assert (count("k", 60), counters.read([], "known", 60)[1]) == (3, False)
    assert counters.clear_failures("k", 4, 60, "known", 60)
    assert (count("k", 60), counters.read([], "known", 60)[1]) == (0, True)
    assert counters.clear_failures("k", 3, 60, "past", -1)
    assert not counters.read([], "past", 60)[1]


def test_settling_at_once_waits_for_the_others() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: counters.clear_failures("k", 3, 60, "known", 60), range(16)))


def test_a_lock_out_ends_with_its_period_also_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        counters.add_failure("k", 60)
    present = time.time()
    monkeypatch.setattr(counters, "time", SimpleNamespace(time=lambda: present - 3600))
    assert count("k", 60) == 0
    assert counters.add_failure("k", 60) == 1
    monkeypatch.setattr(counters, "time", SimpleNamespace(time=lambda: present - 3601))  # no more than clocks differ
    assert counters.add_failure("k", 60) == 2


def test_what_was_claimed_once_stays_claimed_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counters.claim_once("code", 60)
    present = time.time()
    monkeypatch.setattr(counters, "time", SimpleNamespace(time=lambda: present - 3600))
    assert not counters.claim_once("code", 60)


def test_once_is_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: counters.claim_once("code", 60), range(16))) == 1
    assert counters.claim_once("other", -1)
    assert counters.claim_once("other", 60)


def test_what_has_ended_is_swept_and_nothing_else() -> None:
    counters.add_failure("ended", -10)
    counters.add_failure("lasting", 60)
    counters.claim_once("ended", -10)
    counters.next_id("kind")
    sessions.revoke("ended", int(time.time()) - 10)
    sessions.revoke("lasting", int(time.time()) + 60)
    delete_expired(counters.Counter)
    delete_expired(sessions.SessionRecord)
    assert {counter.key for counter in counters.Counter.scan()} == {"failure#lasting", "id#kind"}
    assert [record.jti for record in sessions.SessionRecord.scan()] == ["lasting"]
    assert count("lasting", 60) == 1
    assert sessions.is_revoked("lasting")


def test_failures_counted_at_once_all_count() -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: counters.add_failure("k", 60), range(24)))
    assert sorted(counts) == list(range(1, 25))
