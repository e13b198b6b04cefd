"""What there is little of, shared fairly between callers: nobody holds so much of it that others get none."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from mangrove.core.problems import TooMany


class Shares:
    """`most` slots, `per_caller` of them for one caller; who asks longest gets the next one.

    `what` is said to whom gets none within `seconds`. A caller that waits for a slot of its own is not in the line for
    those of all.
    """

    def __init__(self, what: str, most: int, per_caller: int, seconds: float) -> None:
        self._what = what
        self._per_caller = per_caller
        self._seconds = seconds
        self._free = asyncio.Semaphore(most)
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, caller: str) -> AsyncIterator[None]:
        """One slot while the context lasts; TooMany when none is free in time."""
        own = self._own.get(caller) or self._own.setdefault(caller, asyncio.Semaphore(self._per_caller))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._seconds):
                    await held.enter_async_context(own)
                    await held.enter_async_context(self._free)
            except TimeoutError:
                message = f"too many {self._what} at once, try again later"
                raise TooMany(message, retry_after=math.ceil(self._seconds)) from None
            yield
