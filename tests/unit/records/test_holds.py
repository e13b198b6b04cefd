"""Holds on the real engine: one holder, whatever was asked twice, and taken over only when nobody renewed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.records.files import holds
from mangrove.records.files.holds import Beat
from mangrove.records.store import counters
from mangrove.records.store.base import RecordConflict

pytestmark = pytest.mark.usefixtures("records")


def test_one_of_many_takes_a_name_and_nobody_else_gives_it_up() -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda number: holds.take("x", str(number)), range(16)))
    assert sum(taken) == 1
    holder = str(taken.index(True))
    assert holds.find("x") == Beat(holder, 0)
    holds.release(["x"], "another")
    assert holds.find("x") == Beat(holder, 0)
    holds.release(["x"], holder)
    holds.release(["x"], holder)
    assert holds.find("x") is None


def test_a_call_that_is_repeated_since_its_answer_was_lost_counts_once() -> None:
    assert holds.take("x", "one") and holds.take("x", "one")
    assert holds.find("x") == Beat("one", 0)


def test_a_hold_is_taken_over_only_as_it_was_seen() -> None:
    assert holds.take("x", "one")
    seen = holds.find("x")
    holds.renew(["x"], "one")
    assert not holds.take("x", "two", seen)
    assert holds.take("x", "two", holds.find("x"))
    with pytest.raises(RecordConflict):
        holds.renew(["x"], "one")
    holds.release(["x"], "one")
    assert holds.find("x") == Beat("two", 0)


def test_a_hold_that_is_renewed_is_not_swept() -> None:
    assert holds.take("x", "one")
    counters.sweep()
    assert holds.find("x") == Beat("one", 0)


def test_many_names_are_taken_all_or_none_and_renewed_and_given_up_together() -> None:
    names = [str(number) for number in range(holds.MOST)]
    assert holds.take_all(names, "one") and holds.take_all(names, "one")
    assert not holds.take_all([*names[1:], "free"], "two")
    assert holds.find("free") is None
    holds.renew(names, "one")
    assert {holds.find(name) for name in names} == {Beat("one", 1)}
    assert holds.take("7", "two", Beat("one", 1))
    with pytest.raises(RecordConflict):
        holds.renew(names, "one")
    holds.release(names, "one")
    assert {name: holds.find(name) for name in names} == dict.fromkeys(names) | {"7": Beat("two", 0)}
