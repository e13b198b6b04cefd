"""A limit of speed that several streams share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from mangrove.core.shared_memory import Activity, activity_times

MIN_PIECE_BYTES, MAX_PIECE_BYTES = 1 << 10, 1 << 20  # that pass at once
PIECES_PER_SECOND = 8  # so that many streams take turns
RECHECK_INTERVAL_SECONDS = 1.0  # after which a stream that waits reads the rate again

Rate = Callable[[], int | None]  # bytes a second, None for no limit


class TokenBucket:
    """A rate of bytes for several streams, whose pieces pass in the order in which they were requested.

    An idle bucket saves nothing up for a burst but one piece. With an activity, the processes of the machine that are
    at it have equal parts of the rate. Safe to use from the event loops of several threads.
    """

    def __init__(
        self, rate: Rate, clock: Callable[[], float] = time.monotonic, activity: Activity | None = None
    ) -> None:
        self._limit = rate
        self._activity = activity
        self._times = activity_times()
        self._clock = clock
        self._debt = 0.0  # bytes that passed or wait, and whose time is still to come
        self._counted = clock()
        self._lock = threading.Lock()  # held for a calculation, never while something waits

    def rate(self) -> int | None:
        """Return this process's part of the rate, None for no limit."""
        limit = self._limit()
        if limit is None or self._activity is None:
            return limit
        return max(1, limit // max(1, self._times.count_active(self._activity)))

    def _reserve(self, size: int, rate: int) -> float:
        """Return the time at which `size` bytes may pass."""
        with self._lock:
            now = self._clock()
            before = max(0.0, self._debt - (now - self._counted) * rate)
            self._debt, self._counted = before + size, now
            return now + before / rate

    def _join(self) -> int | None:
        """Return the rate, of which a process that waits has its part."""
        if self._activity is not None:
            self._times.record(self._activity)
        return self.rate()

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._debt -= size

    async def take(self, size: int) -> None:
        """Wait until `size` bytes may pass."""
        while size > 0 and (rate := self._join()) is not None:
            piece = min(size, get_piece_size(rate))
            await self._take_piece(piece, rate)
            size -= piece

    async def _take_piece(self, size: int, rate: int) -> None:
        due = self._reserve(size, rate)
        try:
            while self._join() == rate:
                left = due - self._clock()
                if left <= 0:
                    return
                await asyncio.sleep(min(left, RECHECK_INTERVAL_SECONDS))
        except asyncio.CancelledError:
            self._give_back(size)  # a stream that has ended does not keep others waiting
            raise


def get_piece_size(rate: int) -> int:
    """Return the most bytes that pass at once at this rate."""
    return max(MIN_PIECE_BYTES, min(rate // PIECES_PER_SECOND, MAX_PIECE_BYTES))
