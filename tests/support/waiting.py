"""Waiting for what comes true in another thread or process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def wait_until(test: Callable[[], bool], seconds: float = 120) -> None:
    """Return as soon as the test holds; a failure when that takes longer."""
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end
        time.sleep(0.05)


async def settle() -> None:
    """Let everything run in this event loop that waits for no thread and no time."""
    for _ in range(100):
        await asyncio.sleep(0)
