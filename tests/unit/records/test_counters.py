"""Counters on the real engine: numbers that many callers raise together, and that end."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove import runtime
from mangrove.records import counters, sessions
from mangrove.records.counters import ConfigurationWrites

pytestmark = pytest.mark.usefixtures("records")


def test_ids_are_never_given_twice() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: counters.next_id("x"), range(100)))
    assert sorted(ids) == list(range(1, 101))


def test_failures_count_up_and_end() -> None:
    assert counters.count_failures("k") == 0
    assert [counters.add_failure("k", 60) for _ in range(3)] == [1, 2, 3]
    assert counters.count_failures("k") == 3
    counters.clear_failures("k")
    assert counters.count_failures("k") == 0
    counters.add_failure("past", -1)
    assert counters.count_failures("past") == 0
    assert counters.add_failure("past", 60) == 1


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
    counters.sweep()
    sessions.sweep()
    assert {counter.key for counter in counters.Counter.scan()} == {"failure#lasting", "id#kind"}
    assert [record.jti for record in sessions.SessionRecord.scan()] == ["lasting"]
    assert counters.count_failures("lasting") == 1
    assert sessions.is_revoked("lasting")


def test_failures_counted_at_once_all_count() -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: counters.add_failure("k", 60), range(24)))
    assert sorted(counts) == list(range(1, 25))


def test_the_version_of_the_configuration_rises_and_this_process_counts_its_own_writes() -> None:
    writes = runtime.get(ConfigurationWrites)
    assert (counters.get_configuration_version(), writes.count) == (0, 0)
    assert [counters.bump_configuration() for _ in range(2)] == [1, 2]
    assert (counters.get_configuration_version(), writes.count) == (2, 2)
    counters.Counter("configuration").update(actions=[counters.Counter.value.add(1)])  # another process
    assert (counters.get_configuration_version(), writes.count) == (3, 2)
