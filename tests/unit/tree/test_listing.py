"""Order of names, and the cache of folders."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from mangrove.drivers.base import Entry
from mangrove.paths import TreePath
from mangrove.problems import NotFound
from mangrove.tree.listing import ENTRY_BYTES, VIEWS, Listings, make_natural_key, sort_entries
from mangrove.tree.mounts import Located, Mount
from tests.unit.tree.builders import mount, storage
from tests.unit.tree.memory_folders import MemoryFolders, WithToken, names

P = TreePath
ROOT = P("/")


def test_names_sort_naturally_and_with_case() -> None:
    wanted = ["1", "2", "10", "B", "a", "a1", "a2", "a2b", "a10", "a10b2", "a10b11", "b", "ä"]
    shuffled = random.sample(wanted, len(wanted))
    assert sorted(shuffled, key=make_natural_key) == wanted


@pytest.mark.parametrize("names", [["٣", "2", "²", "1"], ["9" * 5000, "9" * 4999, "1"], ["", "a", "0"]])
def test_any_names_can_be_compared(names: list[str]) -> None:
    assert sorted(sorted(names, key=make_natural_key), key=make_natural_key) == sorted(names, key=make_natural_key)


ENTRIES = [
    Entry("b10", 5, 30.0, False), Entry("dir2", 0, 10.0, True), Entry("b9", 7, 20.0, False),
    Entry("Dir1", 0, 40.0, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("order_by", "direction", "extract", "names"),
    [
        ("", "", "", "b10 dir2 b9 Dir1"), ("name", "", "", "Dir1 b9 b10 dir2"),
        ("name", "desc", "", "dir2 b10 b9 Dir1"),
        ("size", "asc", "", "dir2 Dir1 b10 b9"), ("modified", "desc", "", "Dir1 b10 b9 dir2"),
        ("", "desc", "front", "dir2 Dir1 b10 b9"), ("", "", "back", "b10 b9 dir2 Dir1"),
        ("name", "desc", "front", "dir2 Dir1 b10 b9"), ("size", "desc", "back", "b9 b10 dir2 Dir1"),
    ],
)  # fmt: skip
def test_a_listing_is_sort_entries_as_its_storage_wants(
    order_by: str, direction: str, extract: str, names: str
) -> None:
    wish = storage(order_by=order_by, order_direction=direction, extract_folder=extract)
    assert " ".join(entry.name for entry in sort_entries(ENTRIES, wish)) == names


def test_a_size_that_is_not_known_sorts_as_none_at_all() -> None:
    entries = [Entry("b", 1, 0.0, False), Entry("a", None, 0.0, False)]
    assert [entry.name for entry in sort_entries(entries, storage(order_by="size"))] == ["a", "b"]


def test_a_folder_is_read_once_until_it_is_forgotten_or_refreshed() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["a"]
        assert [await names(cache, at, driver) for _ in range(3)] == [["a"]] * 3
        assert driver.reads == 1
        driver.folders["/"] = ["a", "b"]
        assert await names(cache, at, driver) == ["a"]
        assert await names(cache, at, driver, refresh=True) == ["a", "b"]
        driver.folders["/"] = ["c"]
        cache.forget(at.storage.id, ROOT)
        assert await names(cache, at, driver) == ["c"]
        assert driver.reads == 3

    asyncio.run(go())


def test_forgetting_below_a_folder_leaves_its_neighbours_and_other_storages() -> None:
    async def go() -> None:
        cache, at, other, driver = Listings(), mount(), mount("/o"), MemoryFolders()
        paths = ["/", "/a", "/a/b", "/ab"]
        driver.folders |= {path: ["x"] for path in paths}
        for path in paths:
            await names(cache, at, driver, path)
        await names(cache, other, driver, "/a")
        cache.forget_below(at.storage.id, P("/a"))
        driver.reads = 0
        for path in ("/", "/ab"):
            await names(cache, at, driver, path)
        await names(cache, other, driver, "/a")
        assert driver.reads == 0
        for path in ("/a", "/a/b"):
            await names(cache, at, driver, path)
        assert driver.reads == 2

    asyncio.run(go())


def test_a_failure_and_an_empty_folder_are_not_kept() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        with pytest.raises(NotFound):
            await names(cache, at, driver)
        driver.folders["/"] = []
        assert await names(cache, at, driver) == []
        driver.folders["/"] = ["a"]
        assert await names(cache, at, driver) == ["a"]
        assert driver.reads == 3

    asyncio.run(go())


def test_the_cache_stays_below_its_weight_and_keeps_what_is_used() -> None:
    async def go() -> None:
        largest = 12 * 10 * ENTRY_BYTES
        cache, at, driver = Listings(largest), mount(), MemoryFolders()
        driver.folders |= {f"/{number}": [f"{part}" for part in range(10)] for number in range(50)}
        for number in range(50):
            await names(cache, at, driver, f"/{number}")
            await names(cache, at, driver, "/0")
            assert 0 < cache.weight <= largest
        assert driver.reads == 50
        await names(cache, at, driver, "/1")
        assert driver.reads == 51

    asyncio.run(go())


def test_encoded_rows_count_and_what_is_no_longer_kept_does_not() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["a", "b", "c"]
        folder = await cache.get(Located(driver, ROOT, at))
        before = cache.weight
        view = folder.get_view("key", list, lambda entry: entry.name.encode() * 100)
        rows = view.get_rows(0, 2)
        assert rows == [b"a" * 100, b"b" * 100]
        assert view.weight >= 200
        cache.update_weight(folder)
        assert cache.weight == before + view.weight
        assert view.get_rows(0, 2) == rows
        assert folder.get_view("key", list, lambda entry: b"") is view
        cache.update_weight(folder)
        assert cache.weight == before + view.weight
        cache.clear()
        assert cache.weight == 0
        cache.update_weight(folder)
        assert cache.weight == 0

    asyncio.run(go())


def test_a_view_that_is_dropped_gives_back_its_weight() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["a"]
        folder = await cache.get(Located(driver, ROOT, at))
        before = cache.weight
        for number in range(10 * VIEWS):
            view = folder.get_view(number, list, lambda entry: bytes(1000))
            view.get_rows(0, 1)
            cache.update_weight(folder)
        assert cache.weight == before + VIEWS * view.weight
        cache.clear()
        assert cache.weight == 0

    asyncio.run(go())


@pytest.mark.parametrize(
    ("fields", "path", "reads"),
    [
        ({"cache_expiration": 0}, "/a", 3), ({"cache_expiration": 1}, "/a", 1),
        ({"cache_expiration": 0, "custom_cache_policies": "/a:5\nnonsense"}, "/a", 1),
        ({"custom_cache_policies": "/a*:0"}, "/ab", 3), ({"custom_cache_policies": "/a*:0"}, "/b", 1),
        ({"custom_cache_policies": "/a:5\n/a:0"}, "/a", 1),
    ],
)  # fmt: skip
def test_how_long_a_folder_is_kept_is_the_storages_word(fields: dict[str, Any], path: str, reads: int) -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(**fields), MemoryFolders()
        driver.folders[path] = ["x"]
        for _ in range(3):
            await names(cache, at, driver, path)
        assert driver.reads == reads

    asyncio.run(go())


def test_a_folder_with_a_change_token_is_fresh_while_the_token_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.tree.listing.TOKEN_SECONDS", 0.0)

    async def go() -> None:
        cache, at, driver = Listings(), mount(), WithToken()
        driver.folders["/"] = ["a"]
        assert [await names(cache, at, driver) for _ in range(3)] == [["a"]] * 3
        assert driver.reads == 1
        driver.folders["/"] = ["b"]
        assert await names(cache, at, driver) == ["a"]
        driver.token = 2
        assert await names(cache, at, driver) == ["b"]
        assert driver.reads == 2

    asyncio.run(go())


def test_a_folder_read_right_after_its_change_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr("mangrove.tree.listing.TOKEN_SECONDS", 0.0)

    async def go() -> None:
        cache, at, driver = Listings(), mount(), WithToken()
        driver.folders["/"] = ["a"]
        driver.token = time.time_ns()
        assert await names(cache, at, driver) == ["a"]
        driver.folders["/"] = ["a", "b"]
        assert await names(cache, at, driver) == ["a", "b"]

    asyncio.run(go())


def test_another_mount_of_the_same_storage_does_not_get_the_old_listing() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["a"]
        await names(cache, at, driver)
        again = Mount(at.storage)
        driver.folders["/"] = ["b"]
        assert await names(cache, again, driver) == ["b"]

    asyncio.run(go())


def test_entries_are_found_by_name_and_by_beginning() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["b", "film.srt", "film", "film.mkv", "filmed", "a"]
        folder = await cache.get(Located(driver, ROOT, at))
        found = folder.find("film")
        assert found is not None
        assert found.name == "film"
        assert folder.find("fil") is None
        assert [entry.name for entry in folder.find_by_prefix("film.")] == ["film.mkv", "film.srt"]
        assert folder.find_by_prefix("x") == []

    asyncio.run(go())
