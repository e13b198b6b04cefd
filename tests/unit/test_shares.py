"""Slots that callers share."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from mangrove.core.problems import TooMany
from mangrove.core.shares import Shares


def test_a_caller_gets_its_share_and_others_theirs() -> None:
    async def crowd() -> None:
        shares = Shares("things", most=3, per_caller=2, seconds=0.01)
        async with AsyncExitStack() as held:
            for _ in range(2):
                await held.enter_async_context(shares.hold("many"))
            with pytest.raises(TooMany, match=r"^too many things at once, try again later$") as refused:
                await held.enter_async_context(shares.hold("many"))
            assert refused.value.retry_after == 1, "whole seconds"
            await held.enter_async_context(shares.hold("one"))
            with pytest.raises(TooMany):
                await held.enter_async_context(shares.hold("late"))
        async with shares.hold("late"):
            pass

    asyncio.run(crowd())


def test_a_caller_with_a_long_line_does_not_push_others_back() -> None:
    order: list[str] = []

    async def use(shares: Shares, caller: str) -> None:
        async with shares.hold(caller):
            order.append(caller)
            await asyncio.sleep(0)

    async def crowd() -> None:
        shares = Shares("things", most=1, per_caller=1, seconds=10)
        async with asyncio.TaskGroup() as group:
            for caller in [*["many"] * 50, "one"]:
                group.create_task(use(shares, caller))

    asyncio.run(crowd())
    assert order.index("one") <= 2


def test_who_gives_up_waiting_leaves_no_slot_taken() -> None:
    async def crowd() -> None:
        shares = Shares("things", most=1, per_caller=1, seconds=10)
        async with shares.hold("first"):
            waiting = [asyncio.create_task(shares.hold(caller).__aenter__()) for caller in ("first", "second")]
            await asyncio.sleep(0)
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        for caller in ("first", "second"):
            async with shares.hold(caller):
                pass

    asyncio.run(crowd())
