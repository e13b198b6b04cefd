"""Bodies that are held in memory share what there is."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.problems import Unreachable
from mangrove.drivers.clouds import budget
from mangrove.drivers.clouds.budget import UploadBudget


def test_who_asks_first_is_served_first_and_no_more_is_held_than_there_is() -> None:
    async def used() -> None:
        shared, held, order = UploadBudget(10), [0], []

        async def hold(size: int) -> None:
            async with shared.hold(size):
                order.append(size)
                held[0] += size
                assert held[0] <= 10
                await asyncio.sleep(0.01)
                held[0] -= size

        sizes = [6, 5, 10, 1, 2, 3]
        await asyncio.gather(*map(hold, sizes))
        assert order == sizes

    asyncio.run(used())


def test_who_waits_too_long_or_is_cancelled_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def used() -> None:
        shared = UploadBudget(10)
        async with shared.hold(10):
            waiting = asyncio.create_task(shared.hold(1).__aenter__())
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.wait([waiting])
            monkeypatch.setattr(budget, "WAIT_SECONDS", 0.05)
            with pytest.raises(Unreachable, match="in memory"):
                async with shared.hold(1):
                    raise AssertionError
        async with shared.hold(10):
            pass

    asyncio.run(used())


def test_the_event_loops_of_a_process_share_it() -> None:
    shared = UploadBudget(1)

    async def hold() -> None:
        async with shared.hold(1):
            await asyncio.sleep(0.02)

    async def used() -> None:
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, hold()) for _ in range(4)), hold())

    asyncio.run(used())
