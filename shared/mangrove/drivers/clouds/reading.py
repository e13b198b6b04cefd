"""A file of a cloud in ranges of growing size: a slow reader holds no connection, and every range is of one version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from mangrove.drivers.base import BLOCK

LARGEST = 8 << 20  # bytes of one request; two of them are in memory

Fetch = Callable[[int, int], Awaitable[bytes]]  # offset and length
Check = Callable[[], Awaitable[None]]


async def open_ranges(fetch: Fetch, check: Check, offset: int, end: int) -> AsyncIterator[bytes]:
    """The blocks from `offset` to `end`, which is beyond it; the first range is fetched here. `check` is called when
    there was more than one: it raises when the file is not the same as at the beginning."""
    size = min(BLOCK, end - offset)
    return _read_on(fetch, check, await fetch(offset, size), offset + size, end)


async def _read_on(fetch: Fetch, check: Check, chunk: bytes, offset: int, end: int) -> AsyncIterator[bytes]:
    size, is_one_range = BLOCK, offset >= end
    following: asyncio.Future[bytes] | None = None
    try:
        while chunk:
            size = min(2 * size, LARGEST, end - offset)
            following = asyncio.ensure_future(fetch(offset, size)) if size else None
            for start in range(0, len(chunk), BLOCK):
                yield chunk[start : start + BLOCK]
            chunk = b"" if following is None else await following
            offset += size
        if not is_one_range:
            await check()
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def pass_check() -> None:
    """Where the server looks at the version of every range."""
