"""The limiter of concurrency: in all, by caller, over the processes of a machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from mangrove.core import runtime
from mangrove.core.limits import ConcurrencyLimiter, Limits, limits
from mangrove.core.problems import TooMany
from mangrove.core.runtime import Runtime
from mangrove.core.shared_memory import Counts, Region, SharedMemory
from tests.support.sharing import share_memory, share_runtimes

REFUSAL = "too many things at once, try again later"
make = partial(ConcurrencyLimiter, REFUSAL)


def share(processes: int, limit: int, per_caller: int, seconds: float = 10) -> list[ConcurrencyLimiter]:
    """One limiter for each process."""
    limiters = []
    for process in share_runtimes(processes):
        with runtime.use(process):
            limiters.append(make(limit, per_caller, wait_seconds=seconds, counts=Counts(Region.LIMITS)))
    return limiters


class Usage:
    """The units in use, and the most there were; the order in which callers got them."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self.order: list[str] = []

    @asynccontextmanager
    async def use(self, limiter: ConcurrencyLimiter, caller: str, amount: int = 1) -> AsyncIterator[None]:
        async with limiter.hold(caller, amount):
            self.order.append(caller)
            self.now += amount
            self.peak = max(self.peak, self.now)
            yield
            self.now -= amount


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await story()

    asyncio.run(go())


def test_limiter_full_for_a_caller_has_room_for_others() -> None:
    async def story() -> None:
        limiter = make(3, 2, wait_seconds=0.01)
        async with AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(limiter.hold("many"))
            with pytest.raises(TooMany, match=f"^{REFUSAL}$") as refused:
                await stack.enter_async_context(limiter.hold("many"))
            assert refused.value.retry_after == 1, "whole seconds"
            await stack.enter_async_context(limiter.hold("single"))
            with pytest.raises(TooMany):
                await stack.enter_async_context(limiter.hold("late"))
        async with limiter.hold("late"):
            pass

    run(story)


def test_limiter_with_a_long_line_serves_callers_in_turn() -> None:
    usage = Usage()

    async def use(limiter: ConcurrencyLimiter, caller: str) -> None:
        async with usage.use(limiter, caller):
            await asyncio.sleep(0)

    async def story() -> None:
        limiter = make(1, 1, wait_seconds=30)
        async with asyncio.TaskGroup() as group:
            for caller in [*["many"] * 50, "single"]:
                group.create_task(use(limiter, caller))

    run(story)
    assert usage.order.index("single") <= 2


def test_limiter_left_while_waiting_keeps_no_unit() -> None:
    async def story() -> None:
        limiter = make(1, 1, wait_seconds=30)
        async with limiter.hold("first"):
            waiting = [asyncio.create_task(limiter.acquire(caller)) for caller in ("first", "second")]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        for caller in ("first", "second"):
            async with limiter.hold(caller):
                pass

    run(story)


def test_limiter_cancelled_as_it_admits_gives_the_unit_back() -> None:
    async def story() -> None:
        limiter = make(1, 1, wait_seconds=30)
        await limiter.acquire("first")
        waiting = asyncio.create_task(limiter.acquire("second"))
        await asyncio.sleep(0)
        limiter.release("first")  # which admits the second one, whose task has not run yet
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert limiter.try_acquire("third")

    run(story)


def test_limiter_of_bytes_serves_a_large_amount_before_later_ones() -> None:
    usage = Usage()

    async def use(limiter: ConcurrencyLimiter, amount: int) -> None:
        async with usage.use(limiter, str(amount), amount):
            await asyncio.sleep(0.01)

    async def story() -> None:
        limiter = make(10, 10)
        async with asyncio.timeout(30):
            await asyncio.gather(*(use(limiter, amount) for amount in (6, 5, 10, 1, 2, 3)))
            async with limiter.hold("too large", 11):
                pass

    run(story)
    assert usage.order[:3] == ["6", "5", "10"]
    assert usage.peak == 10


def test_limiter_in_several_event_loops_is_one() -> None:
    usage, limiter = Usage(), make(1, 1)

    async def use() -> None:
        async with usage.use(limiter, "x"):
            await asyncio.sleep(0.02)

    async def story() -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(asyncio.to_thread(asyncio.run, use()) for _ in range(4)), use())

    run(story)
    assert (usage.peak, len(usage.order)) == (1, 5)


def test_limiter_shared_by_processes_counts_all_of_them() -> None:
    usage = Usage()

    async def use(limiter: ConcurrencyLimiter, caller: str) -> None:
        async with usage.use(limiter, caller):
            await asyncio.sleep(0.005)

    async def story() -> None:
        limiters = share(3, 4, 2)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for number in range(60):
                group.create_task(use(limiters[number % 3], f"user {number % 5}"))

    run(story)
    assert (usage.peak, len(usage.order)) == (4, 60)


def test_limiter_shared_by_processes_bounds_a_caller_in_all() -> None:
    async def story() -> None:
        first, two = share(2, 4, 1, 0.05)
        async with first.hold("caller"):
            with pytest.raises(TooMany):
                async with two.hold("caller"):
                    raise AssertionError
            async with two.hold("other"):
                pass
        async with two.hold("caller"):
            pass

    run(story)


def test_limiter_shared_by_processes_lets_each_have_its_turn() -> None:
    """A process in which many wait does not hand a unit on to its own ones again and again."""
    usage = Usage()

    async def use(limiter: ConcurrencyLimiter, caller: str) -> None:
        async with usage.use(limiter, caller):
            await asyncio.sleep(0.002)

    async def story() -> None:
        first, two = share(2, 1, 1)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for _ in range(40):
                group.create_task(use(first, "same"))
            await asyncio.sleep(0)
            group.create_task(use(two, "same"))
            group.create_task(use(two, "another"))

    run(story)
    assert usage.order.index("another") < 35


def test_limiter_shared_with_a_process_that_died_has_its_units_again() -> None:
    """Kill the process while it holds all units. Callers are numbers, whose hashes differ in every run."""
    here, there = share_memory(2)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        with runtime.use(Runtime()):
            runtime.put(SharedMemory, there)
            for _ in range(2):
                limits().thumbnails.try_acquire(1, 4)
            limits().thumbnails.try_acquire(2, 4)
            os.write(writer, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(reader, 1)
    with runtime.use(Runtime()):
        runtime.put(SharedMemory, here)
        thumbnails = limits().thumbnails
        assert not thumbnails.try_acquire(1), "the other process has all of this user's"
        assert thumbnails.try_acquire(3, 4)
        assert thumbnails.try_acquire(4, 4)
        assert not thumbnails.try_acquire(5), "and all of them"
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        there.forget_process()
        assert thumbnails.try_acquire(1, 4)
        assert thumbnails.try_acquire(5, 4)


def test_limits_of_the_service_are_shared_apart_from_sign_ins() -> None:
    first_runtime, two = share_runtimes(2)
    with runtime.use(first_runtime):
        first = runtime.get(Limits)
    with runtime.use(two):
        second = runtime.get(Limits)
    shared = {name: value for name, value in vars(first).items() if isinstance(value, ConcurrencyLimiter)}
    assert len(shared) == 10
    for name, limiter in shared.items():
        assert limiter.try_acquire("caller", limiter.per_caller)
        assert getattr(second, name).try_acquire("caller") is (name in ("sign_ins", "remote_sign_ins")), name


def test_limiter_that_is_free_is_taken_without_a_wait() -> None:
    """The price of a unit: some microseconds, with other processes too."""
    for limiter in (make(8, 4), *share(2, 8, 4)):
        times = []
        for _ in range(5):
            begin = time.thread_time()
            for _ in range(1000):
                assert limiter.try_acquire("caller")
                limiter.release("caller")
            times.append(time.thread_time() - begin)
        assert min(times) < 0.05
