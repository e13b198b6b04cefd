"""What is found out once, by one attempt for all who ask meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Once(Generic[Result]):
    """The result of `find`. An attempt that fails is made again by who asks next, also in another event loop."""

    def __init__(self, find: Callable[[], Awaitable[Result]]) -> None:
        self._find = find
        self._running: asyncio.Task[Result] | None = None
        self._found: list[Result] = []

    async def get(self) -> Result:
        if not self._found:
            running = self._running
            if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
                running = self._running = asyncio.ensure_future(self._attempt())
            await asyncio.shield(running)
        return self._found[0]

    async def _attempt(self) -> Result:
        result = await self._find()
        self._found = [result]
        return result
