"""What asyncio leaves to be written: work that a cancellation must not tear, and much work with few at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


async def finish_despite_cancel(work: Awaitable[Result]) -> Result:
    """The result of `work`, which a cancellation of the caller does not reach.

    When cancelled, first waits for the work to end, however it ends, then raises CancelledError: what the work uses
    may be released after that.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                pass  # cancelled once more: the work still has to end
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not report it
        raise


async def gather_bounded(works: Sequence[Callable[[], Awaitable[Result]]], at_once: int) -> list[Result]:
    """The answers of all, `at_once` at a time; the first failure, after the others have ended."""
    limit = asyncio.Semaphore(at_once)

    async def run(work: Callable[[], Awaitable[Result]]) -> Result:
        async with limit:
            return await work()

    running = [asyncio.ensure_future(run(work)) for work in works]
    await asyncio.gather(*running, return_exceptions=True)
    return [one.result() for one in running]
