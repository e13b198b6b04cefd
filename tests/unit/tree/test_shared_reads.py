"""Many callers, one read at a time: each is served by a read that began after its question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mangrove.core.problems import EntryNotFound, Unreachable
from mangrove.tree.listing.shared_reads import SharedReads
from tests.support.waiting import settle


class Source:
    """Counts its reads; each waits until it is let go and answers its number, or fails with an error."""

    def __init__(self) -> None:
        self.reads: list[asyncio.Future[None]] = []
        self.most_at_once = 0
        self.cancelled = 0

    async def read(self) -> int:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reads.append(future)
        number = len(self.reads)
        self.most_at_once = max(self.most_at_once, sum(not other.done() for other in self.reads))
        try:
            await future
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return number

    def finish(self, number: int, error: Exception | None = None) -> None:
        """Let the read of that number (from 1) end."""
        future = self.reads[number - 1]
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


class Callers:
    """Asks one `SharedReads` for one key."""

    def __init__(self) -> None:
        self.source = Source()
        self.shared: SharedReads[int] = SharedReads()

    def ask(self, accepts: Callable[[int], bool] = lambda _: False, key: str = "key") -> asyncio.Task[int]:
        return asyncio.create_task(self.shared.get(key, self.source.read, accepts))


def run(scenario: Callable[[Callers], Coroutine[Any, Any, None]]) -> None:
    async def start() -> None:
        async with asyncio.timeout(60):
            await scenario(Callers())

    asyncio.run(start())


def test_one_read_serves_all_that_asked_before_it_began() -> None:
    async def scenario(callers: Callers) -> None:
        first = callers.ask()
        await settle()
        later = []
        for _ in range(11):
            later.append(callers.ask())
            await settle()
        callers.source.finish(1)
        assert await first == 1
        await settle()
        last = callers.ask()
        await settle()
        callers.source.finish(2)
        assert await asyncio.gather(*later) == [2] * 11
        await settle()
        callers.source.finish(3)
        assert await last == 3
        assert len(callers.source.reads) == 3
        assert callers.source.most_at_once == 1

    run(scenario)


def test_caller_during_wake_up_does_not_start_second_read() -> None:
    async def scenario(callers: Callers) -> None:
        tasks = [callers.ask()]
        await settle()
        tasks += [callers.ask() for _ in range(3)]
        await settle()
        callers.source.finish(1)
        for _ in range(10):  # one more at every step of the loop
            tasks.append(callers.ask())
            await asyncio.sleep(0)
        while not all(task.done() for task in tasks):
            for number, read in enumerate(callers.source.reads, 1):
                if not read.done():
                    callers.source.finish(number)
            await asyncio.sleep(0)
        assert callers.source.most_at_once == 1
        assert len(callers.source.reads) == 3

    run(scenario)


def test_running_read_serves_accepting_callers_only() -> None:
    async def scenario(callers: Callers) -> None:
        first = callers.ask()
        await settle()
        accepting = callers.ask(lambda result: result == 1)
        await settle()
        callers.source.finish(1)
        assert (await first, await accepting) == (1, 1)
        await settle()
        assert len(callers.source.reads) == 1

    run(scenario)


def test_an_error_is_for_those_alone_whose_read_it_was() -> None:
    async def scenario(callers: Callers) -> None:
        first, second = callers.ask(), callers.ask()
        await settle()
        later = callers.ask(lambda _: True)
        await settle()
        callers.source.finish(1, EntryNotFound())
        for task in (first, second):
            with pytest.raises(EntryNotFound):
                await task
        await settle()
        callers.source.finish(2)
        assert await later == 2

    run(scenario)


def test_who_is_cancelled_leaves_the_others_alone() -> None:
    async def scenario(callers: Callers) -> None:
        first, second = callers.ask(), callers.ask()
        await settle()
        later = callers.ask()
        await settle()
        first.cancel()
        await settle()
        assert callers.source.cancelled == 0
        callers.source.finish(1)
        assert await second == 1
        await settle()
        callers.source.finish(2)
        assert await later == 2

    run(scenario)


def test_read_is_cancelled_with_last_caller_and_restarts() -> None:
    async def scenario(callers: Callers) -> None:
        first = callers.ask()
        await settle()
        first.cancel()
        await asyncio.sleep(0)
        again = callers.ask()
        await settle()
        assert callers.source.cancelled == 1
        callers.source.finish(2)
        assert await again == 2

    run(scenario)


def test_no_read_begins_for_callers_that_were_cancelled() -> None:
    async def scenario(callers: Callers) -> None:
        first = callers.ask()
        await settle()
        waiting = callers.ask()
        await settle()
        waiting.cancel()
        callers.source.finish(1)
        assert await first == 1
        await settle()
        assert len(callers.source.reads) == 1

    run(scenario)


def test_keys_are_read_side_by_side() -> None:
    async def scenario(callers: Callers) -> None:
        first, other = callers.ask(key="one"), callers.ask(key="other")
        await settle()
        assert callers.source.most_at_once == 2
        callers.source.finish(2, Unreachable())
        callers.source.finish(1)
        assert await first == 1
        with pytest.raises(Unreachable):
            await other

    run(scenario)


def test_other_work_waits_for_running_reads_for_a_limited_time() -> None:
    async def scenario(callers: Callers) -> None:
        await callers.shared.wait(60)  # nothing runs
        caller = callers.ask()
        await settle()
        await callers.shared.wait(0.001)
        assert not caller.done()
        waiting = asyncio.create_task(callers.shared.wait(60))
        await settle()
        assert not waiting.done()
        callers.source.finish(1)
        await waiting
        assert await caller == 1

    run(scenario)
