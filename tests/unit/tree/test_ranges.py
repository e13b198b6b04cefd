"""Names that are found by the ranges of a listing that they lie in: the same as by a look at each, for fewer calls."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from random import Random

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.base import Capabilities, DriverProperties, EntriesPage, Entry, get_sort_key
from mangrove.tree.listing import lookups
from mangrove.tree.mounts import StoragePath
from tests.unit.tree import builders
from tests.unit.tree.memory_folders import MemoryFolders

D = TreePath("/d")
LETTERS = "ab-. /0é日\ue000\ufffd\U0001f381"


class Ordered(MemoryFolders):
    """A folder of any size, listed in pages of a length of its own. `asked`: how often, and for which entries."""

    config = DriverProperties(direct_lookup=True)
    capabilities = Capabilities(list_page=True, list_range=True)

    def __init__(self, entries: Sequence[Entry], page: int = 1000) -> None:
        super().__init__()
        self.entries = sorted(entries, key=get_sort_key)
        self.keys = [get_sort_key(entry) for entry in self.entries]
        self.page = page
        self.pages = 0
        self.stats = list[str]()

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        return await self.list_range(path, start, self.page)

    async def list_range(self, path: TreePath, after: str, most: int) -> EntriesPage:
        assert path == D
        self.pages += 1
        await asyncio.sleep(0)
        start = bisect_right(self.keys, after)
        end = start + min(most, self.page)
        return EntriesPage(self.entries[start:end], self.keys[end - 1] if end < len(self.keys) else "")

    async def stat(self, path: TreePath) -> Entry:
        self.stats.append(path.name)
        for entry in self.entries:
            if entry.name == path.name:
                return entry
        raise EntryNotFound


def make_file(name: str) -> Entry:
    return Entry(name, 1, 1.0, False)


def find(driver: Ordered, *names: str) -> dict[str, Entry]:
    return asyncio.run(lookups.find_in_ranges(driver, D, names))


def test_find_in_ranges_any_folder_finds_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(200):
        with monkeypatch.context() as patch:
            check_random_folder(Random(seed), patch)


def check_random_folder(rng: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "NAMES_PER_RANGE_READER", rng.choice((1, 3, 256)))
    monkeypatch.setattr(lookups, "SHORT_PAGE_ENTRIES", rng.choice((1, 2, 100)))

    def make_name() -> str:
        return "".join(rng.choice(LETTERS.replace("/", "")) for _ in range(rng.randrange(1, 5)))

    kinds = {(make_name(), rng.random() < 0.3) for _ in range(rng.randrange(80))}
    entries = [Entry(name, 1, 1.0, is_dir) for name, is_dir in kinds]
    driver = Ordered(entries, rng.choice((1, 2, 7, 1000)))
    names = {*rng.sample([entry.name for entry in entries], len(entries) // 2), *(make_name() for _ in range(20))}
    looked = {name: entry for entry in entries for name in [entry.name] if name in names and entry.is_dir}
    looked |= {entry.name: entry for entry in entries if entry.name in names and not entry.is_dir}
    assert find(driver, *names) == looked


@cache
def list_huge() -> list[Entry]:
    return [make_file(f"{number:07}") for number in range(100_000)]


@pytest.mark.parametrize(
    ("names", "most"),
    [(range(10_000), 26), (range(40_000, 50_000), 26), (range(0, 100_000, 10), 116), (range(0, 100_000, 5000), 20),
     (range(99_990, 100_050), 2), (range(200_000, 200_100), 1)],
)  # fmt: skip
def test_it_takes_no_more_calls_than_pages_or_names(names: range, most: int) -> None:
    driver = Ordered(list_huge())
    entries = find(driver, *(f"{number:07}" for number in names))
    assert len(entries) == len([number for number in names if number < len(driver.entries)])
    assert driver.pages <= most


def test_of_names_in_a_very_large_folder_none_is_asked_for_by_itself() -> None:
    driver, names = Ordered(list_huge()), [f"{number:07}" for number in range(60_000, 61_000)]

    async def look_up() -> list[bool]:
        entries = await lookups.look_up_many(StoragePath(driver, D, builders.mount()), [*names, "gone"])
        return [await entries.has(name) for name in [*names, "gone"]]

    assert asyncio.run(look_up()) == [True] * 1000 + [False]
    assert (driver.stats, driver.reads) == ([], 0) and driver.pages <= 6


class Unordered(Ordered):
    """A server that lists as it likes."""

    async def list_range(self, path: TreePath, after: str, most: int) -> EntriesPage:
        self.pages += 1
        return EntriesPage(self.entries[:2], "more")


def test_a_storage_that_keeps_no_order_is_asked_for_each() -> None:
    driver = Unordered([make_file(f"n{number:02}") for number in range(30)])
    names = [f"n{number:02}" for number in range(5, 35)]

    async def look_up() -> list[bool]:
        entries = await lookups.look_up_many(StoragePath(driver, D, builders.mount()), names)
        return [await entries.has(name) for name in names]

    assert asyncio.run(look_up()) == [True] * 25 + [False] * 5
    assert sorted(driver.stats) == names and driver.pages == 1
