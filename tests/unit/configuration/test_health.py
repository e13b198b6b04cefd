"""The health of the service: each check in its own time, and no look more often than needed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from unittest.mock import patch

import pytest

from mangrove.configuration import health
from mangrove.configuration.health import Check, Health
from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.runtime import Runtime
from mangrove.records.store.base import TableMeta


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a check that answers as long as it takes on a loaded computer."""
    monkeypatch.setattr(platform(), "first_check_seconds", 60.0)
    monkeypatch.setattr(health, "MAX_CHECK_SECONDS", 60.0)


def find_faults() -> list[str]:
    return asyncio.run(health.find_faults())


def add(reason: str, fails: Callable[[], bool]) -> None:
    runtime.get(Health).add(Check(reason, fails))


def test_a_service_whose_records_answer_is_well(records: None) -> None:
    assert find_faults() == []


def test_records_that_are_not_there_are_said(engine: str) -> None:
    short = patch.multiple(TableMeta, connect_timeout_seconds=0.1, max_retry_attempts=0)
    address = patch.dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB="http://127.0.0.1:9")
    with short, address, runtime.use(Runtime()):
        assert find_faults() == ["the records do not answer"]


def test_a_check_that_hangs_or_breaks_is_a_fault_and_holds_up_no_other(
    records: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MIN_CHECK_INTERVAL_SECONDS", 0.0)
    free = threading.Event()
    add("it breaks", lambda: bool(1 / 0))
    add("it fails", lambda: True)
    add("it is well", lambda: False)
    assert find_faults() == ["it breaks", "it fails"]
    monkeypatch.setattr(platform(), "first_check_seconds", 0.2)  # of the checks that are added from here on
    add("it hangs", lambda: not free.wait(600))
    try:
        for _ in range(3):
            assert find_faults() == ["it breaks", "it fails", "it hangs"]
    finally:
        free.set()


def test_many_who_ask_cause_one_look(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MIN_CHECK_INTERVAL_SECONDS", 60.0)
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    add("counted", look)

    async def ask() -> None:
        await asyncio.gather(*(health.find_faults() for _ in range(50)))

    asyncio.run(ask())
    asyncio.run(ask())
    assert looks == [1]


def test_what_is_well_again_is_said_to_be(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MIN_CHECK_INTERVAL_SECONDS", 0.0)
    answers = iter([True, False])
    add("for a moment", lambda: next(answers))
    assert find_faults() == ["for a moment"]
    assert find_faults() == []
