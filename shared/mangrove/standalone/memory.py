"""What the C library's allocator keeps of memory that was given back, and how it is made to let go (glibc only)."""

from __future__ import annotations

import asyncio
import ctypes

ARENAS = 2  # of the allocator: with one for every few threads, blocks of one MiB that come and go leave each one torn
M_ARENA_MAX = -8
TRIM_SECONDS = 30.0


def limit_arenas() -> None:
    """Let all threads share ARENAS; to be called before there are any."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)


async def trim_regularly() -> None:
    """Give free pages back to the system every TRIM_SECONDS, in a thread: it takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)
