"""Sign-ins at the same time: bounded, one address after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from mangrove.core import limits
from mangrove.core.problems import TooMany
from mangrove.identity.passwords import run_in_turn


class Work:
    """Calls that last until they are let go; notes in which order they began."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.go = threading.Event()
        self.most = self._now = 0
        self._lock = threading.Lock()

    def call(self, name: str) -> str:
        with self._lock:
            self.began.append(name)
            self._now += 1
            self.most = max(self.most, self._now)
        assert self.go.wait(120)
        with self._lock:
            self._now -= 1
        return name


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls begin in the order in which they get their turn."""
    monkeypatch.setattr(limits, "SIGN_IN_CONCURRENCY", 1)


class Queue:
    """A queue all of whose threads are busy."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.busy = [self.ask("0.0.0.0", f"busy {number}") for number in range(limits.SIGN_IN_CONCURRENCY)]

    def ask(self, source: str, name: str) -> asyncio.Task[str]:
        return asyncio.ensure_future(run_in_turn(source, partial(self.work.call, name)))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_only_so_many_run_at_once_and_all_get_their_turn(work: Work) -> None:
    async def story() -> None:
        queue = Queue(work)
        others = [queue.ask(f"10.0.0.{number % 3}", str(number)) for number in range(12)]
        await queue.settle()
        work.go.set()
        assert await asyncio.gather(*others) == [str(number) for number in range(12)]

    run(story())
    assert work.most <= limits.SIGN_IN_CONCURRENCY


def test_single_call_does_not_wait_for_busy_address(work: Work, one_thread: None) -> None:
    async def story() -> None:
        queue = Queue(work)
        flood = [queue.ask("6.6.6.6", "flood") for _ in range(50)]
        await queue.settle()
        victim = queue.ask("1.2.3.4", "victim")
        await queue.settle()
        work.go.set()
        await asyncio.gather(victim, *flood)

    run(story())
    assert work.began[:3] == ["busy 0", "flood", "victim"]


def test_a_full_queue_refuses_who_has_the_most_in_it(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING_SIGN_INS", 4)

    async def story() -> None:
        queue = Queue(work)
        flood = [queue.ask("6.6.6.6", "flood") for _ in range(5)]
        await queue.settle()
        victim = queue.ask("1.2.3.4", "victim")
        await queue.settle()
        for refused in (flood[4], flood[3]):
            with pytest.raises(TooMany, match=r"^too many sign-ins at the same time, try again later$"):
                await refused
        work.go.set()
        assert await asyncio.gather(victim, *flood[:3]) == ["victim", "flood", "flood", "flood"]

    run(story())


def test_the_addresses_of_one_ipv6_network_share_their_turn(work: Work, one_thread: None) -> None:
    async def story() -> None:
        queue = Queue(work)
        flood = [queue.ask(f"2001:db8::{number}", "flood") for number in range(1, 20)]
        await queue.settle()
        victim = queue.ask("2001:db8:1::1", "victim")
        await queue.settle()
        work.go.set()
        await asyncio.gather(victim, *flood)

    run(story())
    assert work.began[:3] == ["busy 0", "flood", "victim"]


def test_who_leaves_while_waiting_takes_no_thread(work: Work) -> None:
    async def story() -> None:
        queue = Queue(work)
        leaving, staying = queue.ask("1.1.1.1", "leaving"), queue.ask("2.2.2.2", "staying")
        await queue.settle()
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        work.go.set()
        assert await staying == "staying"
        await asyncio.gather(*queue.busy)
        assert await queue.ask("3.3.3.3", "later") == "later"

    run(story())
    assert "leaving" not in work.began
