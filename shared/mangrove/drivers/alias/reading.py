"""A file that is read in concurrent ranges and passed on as one body."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.drivers.base import BLOCK, Driver, Entry

PART = 10 << 20  # bytes of a range if its size is not configured
MIN_PART_BYTES = 64 << 10
HELD = 64 << 20  # maximum bytes of one body in memory

Range = tuple[int, int | None]  # offset and length; None: to the end


@dataclass(frozen=True, slots=True)
class RangePlan:
    """A plan: `concurrency` concurrent ranges of `part` bytes; both at least 1."""

    concurrency: int
    part: int


def make_plan(concurrency: int, part_kibibytes: int, is_enabled: bool) -> RangePlan | None:
    """Return the plan for the options, in which 0 means the default; None if one request reads everything."""
    if not is_enabled and concurrency <= 1 and part_kibibytes <= 0:
        return None
    concurrency = min(max(concurrency, 1), HELD // BLOCK)
    part = max(part_kibibytes << 10, MIN_PART_BYTES) if part_kibibytes > 0 else PART
    return RangePlan(concurrency, min(part, HELD // concurrency))


class _RangedRead:
    """The ranges of one read, in order. All but the one that is passed on are kept in memory when they arrive."""

    def __init__(self, driver: Driver, path: TreePath, version: Entry, plan: RangePlan, ranges: Iterator[Range]):
        self._driver = driver
        self._path = path
        self._version = version
        self._plan = plan
        self._ranges = ranges
        self._running: deque[asyncio.Task[list[bytes]]] = deque()

    async def open(self, byte_range: Range) -> Any:
        """Return the bytes of a range of the same version. Raise EntryChanged if the file was replaced."""
        return await self._driver.read(self._path, *byte_range, self._version)

    async def _fetch(self, byte_range: Range) -> list[bytes]:
        blocks: list[bytes] = []
        left = self._plan.part
        async with aclosing(await self.open(byte_range)) as body:
            async for block in body:
                blocks.append(block)
                left -= len(block)
                if left < 0:
                    break  # an additional byte, which the caller notices
        return blocks

    def _begin(self) -> None:
        """Start as many ranges as the plan allows, in addition to the one that is passed on."""
        for byte_range in islice(self._ranges, self._plan.concurrency - 1 - len(self._running)):
            self._running.append(asyncio.ensure_future(self._fetch(byte_range)))

    async def pass_on(self, first: Any) -> AsyncIterator[bytes]:
        """Yield the bytes of all ranges; the first is open."""
        body = first
        try:
            while body is not None:
                self._begin()
                async with aclosing(body):
                    async for block in body:
                        yield block
                while self._running:
                    blocks = await self._running.popleft()
                    self._begin()
                    for block in blocks:
                        yield block
                following = next(self._ranges, None)
                body = None if following is None else await self.open(following)
        finally:
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait(self._running)


def _split(offset: int, end: int, part: int, is_open: bool) -> Iterator[Range]:
    while offset + part < end:
        yield offset, part
        offset += part
    yield offset, None if is_open else end - offset


async def read(
    driver: Driver, path: TreePath, offset: int, length: int | None, version: Entry, plan: RangePlan
) -> AsyncIterator[bytes]:
    """Read as `Driver.read` with `if_match`, for a file of known size: the first range is opened here.

    The last range has no end if `length` is None, so that additional bytes are noticed.
    """
    end = (version.size or 0) if length is None else offset + length
    ranges = _split(offset, end, plan.part, length is None)
    reading = _RangedRead(driver, path, version, plan, ranges)
    return reading.pass_on(await reading.open(next(ranges)))
