"""Slots for tasks: as many as there are, given up or ended, on the real engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from mangrove.records.tasks import slots

pytestmark = pytest.mark.usefixtures("records")


def take(kind: str, *holders: str, most: int, seconds: float = 60.0) -> list[bool]:
    return [slots.acquire(kind, holder, most, seconds) for holder in holders]


def test_there_are_as_many_slots_as_are_asked_for_at_that_time() -> None:
    kind = uuid4().hex
    assert take(kind, "a", "b", "c", most=2) == [True, True, False]
    assert take(kind, "b", "a", most=1) == [True, True]  # a holder continues
    assert take(kind, "c", "d", most=3) == [True, False]
    slots.release(kind, "b")
    slots.release(kind, "nobody")
    assert take(kind, "d", most=3) == [True]
    assert take(uuid4().hex, "a", most=0) == [False]
    assert take(uuid4().hex, "a", most=1) == [True]


def test_the_slot_of_who_died_ends() -> None:
    kind = uuid4().hex
    assert take(kind, "a", most=1, seconds=-1.0) == [True]
    assert take(kind, "b", "a", most=1) == [True, False]


def test_of_many_at_once_no_more_get_a_slot_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = uuid4().hex
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda number: slots.acquire(kind, str(number), 3, 60.0), range(8)))
    assert sum(got) == 3
