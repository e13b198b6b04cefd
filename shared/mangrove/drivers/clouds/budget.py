"""How much of files that a service takes in one piece is in memory at once."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mangrove.core.problems import Unreachable

HELD = 128 << 20  # bytes, of all storages of this process
WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.02  # between two looks of the one whose turn is next


class UploadBudget:
    """Bytes of bodies that are held until they are whole; who asks first is served first, in whichever event loop."""

    def __init__(self, most: int = HELD) -> None:
        self._lock = threading.Lock()
        self._free = most
        self._line: deque[object] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """`size` bytes, at most all there are, while the context lasts; Unreachable when they are not free in time."""
        await self._take(size)
        try:
            yield
        finally:
            with self._lock:
                self._free += size

    async def _take(self, size: int) -> None:
        place = object()
        self._line.append(place)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:  # an event would belong to one event loop
                    if self._try(place, size):
                        return
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise Unreachable("too many uploads are held in memory, try again later") from None
        finally:
            self._line.remove(place)

    def _try(self, place: object, size: int) -> bool:
        with self._lock:
            if self._line[0] is not place or self._free < size:
                return False
            self._free -= size
            return True
