"""Work that ends although who waits for it is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.concurrency import finish_despite_cancel


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
