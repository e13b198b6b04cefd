"""A file in ranges: their number, their bytes and their concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged
from mangrove.drivers.alias import reading
from mangrove.drivers.alias.reading import HELD, MIN_PART_BYTES, PART, RangePlan, make_plan
from mangrove.drivers.base import Driver, DriverContext, Entry
from mangrove.drivers.options import Options

FILE = TreePath("/f")
CONTENT = bytes(range(250)) * 4
VERSION = Entry("f", len(CONTENT), 1.0, False, etag="first")


class Ranges(Driver):
    """One file; `asked` are its ranges, `open` the number of running ones, `most` the maximum."""

    name = "Ranges"

    def __init__(self, content: bytes = CONTENT) -> None:
        super().__init__(Options(), DriverContext())
        self.content = content
        self.etag = "first"
        self.reads: list[tuple[int, int | None]] = []
        self.open = self.most = 0

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        raise NotImplementedError

    async def stat(self, path: TreePath) -> Entry:
        raise NotImplementedError

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        self.reads.append((offset, length))
        if if_match is not None and if_match.etag != self.etag:
            raise EntryChanged
        return self._stream(self.content[offset:] if length is None else self.content[offset : offset + length])

    async def _stream(self, content: bytes) -> AsyncIterator[bytes]:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            for start in range(0, len(content), 30):
                await asyncio.sleep(0)
                yield content[start : start + 30]
        finally:
            self.open -= 1


async def read(driver: Ranges, plan: RangePlan, offset: int = 0, length: int | None = None) -> bytes:
    body = await reading.read(driver, FILE, offset, length, VERSION, plan)
    return b"".join([block async for block in body])


@pytest.mark.parametrize("concurrency", [1, 2, 5])
@pytest.mark.parametrize(
    ("offset", "length"), [(0, None), (0, 1000), (7, None), (7, 401), (0, 100), (999, 1), (1000, 0), (250, 300)]
)
def test_all_ranges_together_are_the_bytes_that_were_wanted(concurrency: int, offset: int, length: int | None) -> None:
    driver = Ranges()
    end = len(CONTENT) if length is None else offset + length
    assert asyncio.run(read(driver, RangePlan(concurrency, 100), offset, length)) == CONTENT[offset:end]
    assert len(driver.reads) == max(1, -(-(end - offset) // 100))
    assert driver.open == 0
    assert driver.most <= concurrency
    assert driver.most == min(concurrency, len(driver.reads))


def test_a_file_that_changes_between_two_ranges_is_noticed() -> None:
    async def change(concurrency: int) -> None:
        driver = Ranges()
        source: Any = await reading.read(driver, FILE, 0, None, VERSION, RangePlan(concurrency, 100))
        async with aclosing(source) as body:
            driver.etag = "second"
            with pytest.raises(EntryChanged):
                async for _ in body:
                    pass
        assert driver.open == 0

    asyncio.run(change(1))
    asyncio.run(change(4))


def test_a_first_range_that_cannot_be_opened_fails_before_any_byte() -> None:
    async def refuse() -> None:
        driver = Ranges()
        driver.etag = "second"
        with pytest.raises(EntryChanged):
            await reading.read(driver, FILE, 0, None, VERSION, RangePlan(2, 100))

    asyncio.run(refuse())


def test_a_reader_who_leaves_ends_all_ranges() -> None:
    async def leave() -> None:
        driver = Ranges()
        source: Any = await reading.read(driver, FILE, 0, None, VERSION, RangePlan(4, 100))
        async with aclosing(source) as body:
            await anext(body)
            await asyncio.sleep(0)
            assert driver.open > 1
        assert driver.open == 0

    asyncio.run(leave())


@pytest.mark.parametrize("concurrency", [1, 3])
def test_grown_file_has_additional_bytes_and_is_not_cached_whole(concurrency: int) -> None:
    driver = Ranges(CONTENT + bytes(1000))
    content_read = asyncio.run(read(driver, RangePlan(concurrency, 100)))
    assert content_read.startswith(CONTENT)
    assert len(content_read) > len(CONTENT)


def test_the_options_give_a_plan_that_memory_holds() -> None:
    assert make_plan(0, 0, False) is make_plan(1, 0, False) is make_plan(-3, -1, False) is None
    assert make_plan(0, 0, True) == make_plan(1, -1, True) == RangePlan(1, PART)
    assert make_plan(3, 0, False) == RangePlan(3, PART)
    assert make_plan(0, 100, False) == RangePlan(1, 100 << 10)
    assert make_plan(1, 1, False) == RangePlan(1, MIN_PART_BYTES)
    for concurrency, part in ((10**9, 10**9), (64, 10**9), (7, 10**6)):
        plan = make_plan(concurrency, part, False)
        assert plan is not None and plan.concurrency * plan.part <= HELD
