"""Work that ends although its caller is cancelled, the queue of callers in turn, locks by key, threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc

import pytest

from mangrove.core.concurrency import ComputePool, KeyedLock, RoundRobinQueue, finish_despite_cancel, gather_all
from tests.support.waiting import settle


def test_a_result_and_a_failure_come_through() -> None:
    async def work(value: int) -> int:
        return 10 // value

    assert asyncio.run(finish_despite_cancel(work(5))) == 2
    with pytest.raises(ZeroDivisionError):
        asyncio.run(finish_despite_cancel(work(0)))


@pytest.mark.parametrize("cancels", [1, 3])
@pytest.mark.parametrize("fails", [False, True])
def test_a_cancelled_caller_first_waits_for_the_work_to_end(cancels: int, fails: bool) -> None:
    async def go() -> None:
        events: list[str] = []

        async def work() -> None:
            await asyncio.sleep(0.05)
            events.append("work")
            if fails:
                raise ValueError

        async def call() -> None:
            try:
                await finish_despite_cancel(work())
            finally:
                events.append("caller")

        caller = asyncio.create_task(call())
        for _ in range(cancels):
            await asyncio.sleep(0.005)
            caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert events == ["work", "caller"]

    asyncio.run(go())


def test_work_that_is_cancelled_itself_ends_the_wait() -> None:
    async def go() -> None:
        work = asyncio.ensure_future(asyncio.sleep(60))
        waiting = asyncio.create_task(finish_despite_cancel(work))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(go())


ANNA, BEN, CARL = 1, 2, 3


def fill(**counts: int) -> RoundRobinQueue[str]:
    """A queue in which so many items of each wait."""
    queue: RoundRobinQueue[str] = RoundRobinQueue()
    for owner, count in zip((ANNA, BEN, CARL), counts.values(), strict=False):
        for number in range(count):
            queue.add(owner, f"{owner}.{number}")
    return queue


def take(queue: RoundRobinQueue[str], *, end: bool = True) -> str:
    item = queue.find_next()
    assert item is not None
    owner = int(item[0])
    queue.take(owner, item)
    if end:
        queue.end(owner)
    return item


def test_queue_serves_callers_in_turn_and_the_oldest_item_first() -> None:
    queue = fill(anna=4, ben=1, carl=2)
    assert list(queue) == ["1.0", "2.0", "3.0", "1.1", "3.1", "1.2", "1.3"]
    assert [take(queue) for _ in range(7)] == ["1.0", "2.0", "3.0", "1.1", "3.1", "1.2", "1.3"]
    assert queue.find_next() is None


def test_queue_prefers_the_caller_with_the_fewest_active_items() -> None:
    queue = fill(anna=9)
    assert [take(queue, end=False) for _ in range(3)] == ["1.0", "1.1", "1.2"]
    for number in range(9):
        queue.add(BEN, f"2.{number}")
    assert [take(queue, end=False) for _ in range(5)] == ["2.0", "2.1", "2.2", "1.3", "2.3"]
    assert queue.active == 8


def test_queue_leaves_out_items_that_are_not_allowed() -> None:
    queue = fill(anna=2, ben=2)
    assert queue.find_next(lambda item: item.startswith("2")) == "2.0"
    assert queue.find_next(lambda item: False) is None


def test_queue_yields_only_to_a_caller_that_is_worse_off() -> None:
    queue = fill(anna=9)
    taken = [take(queue, end=False) for _ in range(5)]
    assert not queue.should_yield(ANNA)
    for number in range(9):
        queue.add(BEN, f"2.{number}")
    steps = 0
    while queue.should_yield(ANNA):
        queue.end(ANNA)
        queue.add(ANNA, taken.pop(), first=True)
        assert take(queue, end=False).startswith("2.")
        steps += 1
    assert (steps, queue.should_yield(BEN)) == (2, False)
    next_items = [take(queue, end=False) for _ in range(2)]
    assert next_items == ["2.2", "1.3"], "an item that made room goes on before those that have not begun"


def test_queue_with_a_single_worker_goes_round() -> None:
    queue = fill(anna=1, ben=1, carl=1)
    turns, item = [], take(queue, end=False)
    for _ in range(6):
        owner = int(item[0])
        turns.append(owner)
        assert queue.should_yield(owner)
        queue.end(owner)
        queue.add(owner, item, first=True)
        item = take(queue, end=False)
    assert turns == [ANNA, BEN, CARL] * 2


def test_queue_item_that_is_discarded_does_not_wait() -> None:
    queue = fill(anna=2)
    assert [queue.discard(ANNA, "1.0"), queue.discard(ANNA, "1.0"), queue.discard(BEN, "2.0")] == [True, False, False]
    assert [queue.is_waiting(ANNA, "1.0"), queue.is_waiting(ANNA, "1.1")] == [False, True]
    assert take(queue) == "1.1"
    assert list(queue) == []


def test_queue_item_costs_little_memory() -> None:
    ids = [f"{number:021}" for number in range(10_000)]
    tracemalloc.start()
    queue: RoundRobinQueue[str] = RoundRobinQueue()
    for id in ids:
        queue.add(ANNA, id)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(queue) == len(ids)
    assert used < 300 * len(ids)


def test_keyed_lock_holds_a_key_and_not_others() -> None:
    order: list[str] = []

    async def go() -> None:
        lock = KeyedLock()

        async def use(key: str, name: str) -> None:
            async with lock.hold(key):
                order.append(f"{name} begins")
                await may_end.wait()
                order.append(f"{name} ends")

        may_end = asyncio.Event()
        users = asyncio.gather(use("a", "first"), use("a", "second"), use("b", "other"))
        await settle()
        assert order == ["first begins", "other begins"]
        may_end.set()
        await users
        gc.collect()
        assert not lock.__dict__["_locks"], "a key that nothing holds is forgotten"

    asyncio.run(go())
    assert order.index("first ends") < order.index("second begins") < order.index("second ends")


def test_compute_pool_runs_calls_in_its_threads() -> None:
    async def go() -> None:
        pool = ComputePool("pool", 2)
        names = {await pool.run(lambda: threading.current_thread().name) for _ in range(4)}
        assert names <= {"pool_0", "pool_1"}
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        pool.close()

    asyncio.run(go())


def test_gather_all_raises_the_first_failure_after_the_others_ended() -> None:
    ended: list[int] = []

    async def work(number: int) -> int:
        await asyncio.sleep(number / 100)
        if number in (1, 2):
            raise LookupError(str(number))
        ended.append(number)
        return number

    with pytest.raises(LookupError, match="1"):
        asyncio.run(gather_all(map(work, range(5))))
    assert ended == [0, 3, 4]
    assert asyncio.run(gather_all(map(work, (3, 0)))) == [3, 0]
