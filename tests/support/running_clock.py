"""A clock for how long work took this process, whatever else the computer does."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Self

TICK_SECONDS = 0.01


class RunningClock:
    """Count the seconds in which this process could run: it stands still with the process, or with the computer."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._is_over.is_set():
            time.sleep(TICK_SECONDS)
            self.seconds += TICK_SECONDS

    async def measure_stalls(self, stop: asyncio.Event) -> float:
        """Return the longest time in seconds that the event loop did not run until `stop` is set."""
        longest, last = 0.0, self.seconds
        while not stop.is_set():
            await asyncio.sleep(TICK_SECONDS)
            now = self.seconds
            longest, last = max(longest, now - last - TICK_SECONDS), now
        return longest

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
