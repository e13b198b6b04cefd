"""The cache of folders, and what it accounts for."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.base import Entry
from mangrove.tree.listing.folder import FOLDER_BYTES, MAX_SELECTIONS, SELECTION_BYTES, Encode, View
from mangrove.tree.listing.listing import Listings
from mangrove.tree.listing.orders import SortOrder
from mangrove.tree.mounts import Mount, StoragePath
from tests.unit.tree.builders import mount, read_rows
from tests.unit.tree.memory_folders import MemoryFolders, WithToken, names

P = TreePath
ROOT = P("/")


def encode_names(times: int) -> Encode:
    """Rows that are the names, so many times."""

    def encode(entries: Sequence[Entry]) -> bytes:
        return b",".join(entry.name.encode() * times for entry in entries)

    return encode


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


def test_dropping_below_folder_keeps_neighbours_and_storages() -> None:
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
        with pytest.raises(EntryNotFound):
            await names(cache, at, driver)
        driver.folders["/"] = []
        assert await names(cache, at, driver) == []
        driver.folders["/"] = ["a"]
        assert await names(cache, at, driver) == ["a"]
        assert driver.reads == 3

    asyncio.run(go())


def test_the_cache_stays_below_its_weight_and_keeps_what_is_used() -> None:
    async def go() -> None:
        largest = 20 * FOLDER_BYTES
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
        folder = await cache.get(StoragePath(driver, ROOT, at))
        before = cache.weight
        view = View(folder.entries, encode_names(100), folder.rows, "key")
        assert await read_rows(view, 0, 2) == b"[" + b"a" * 100 + b"," + b"b" * 100 + b"]"
        assert folder.rows.weight >= 200
        for _ in range(2):
            cache.update_weight(folder)
            assert cache.weight == before + folder.rows.weight
            assert await read_rows(View(folder.entries, encode_names(0), folder.rows, "key"), 0, 2) == await read_rows(
                view, 0, 2
            )
        cache.clear()
        assert cache.weight == 0
        cache.update_weight(folder)
        assert cache.weight == 0

    asyncio.run(go())


def test_selections_that_are_dropped_give_back_their_weight() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["a"]
        folder = await cache.get(StoragePath(driver, ROOT, at))
        before = cache.weight
        for number in range(10 * MAX_SELECTIONS):
            selection = await folder.select_entries(SortOrder(), number, lambda _: True)
            assert len(selection) == 1
            cache.update_weight(folder)
        assert cache.weight == before + MAX_SELECTIONS * (selection.weight + SELECTION_BYTES)
        cache.clear()
        assert cache.weight == 0

    asyncio.run(go())


def test_the_account_is_what_the_folders_really_weigh() -> None:
    async def go() -> None:
        cache, at, driver = Listings(1 << 40), mount(), MemoryFolders()
        driver.folders |= {f"/few{number}": ["a", "b"] for number in range(500)}
        driver.folders["/many"] = [f"file-{number:07}.txt" for number in range(20_000)]
        await cache.get(StoragePath(driver, P("/few0"), at))
        for paths in (["/many"], list(driver.folders)[1:500]):
            tracemalloc.start()
            held, counted = tracemalloc.get_traced_memory()[0], cache.weight
            for path in paths:
                folder = await cache.get(StoragePath(driver, P(path), at))
                entries = await folder.select_entries(SortOrder(), "key", None)
                await read_rows(View(entries, encode_names(10), folder.rows, (SortOrder(), "key", None, "")), 0, 1)
                cache.update_weight(folder)
            held, counted = tracemalloc.get_traced_memory()[0] - held, cache.weight - counted
            tracemalloc.stop()
            assert 0.8 < counted / held < 1.25, (paths[0], counted, held)

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
    monkeypatch.setattr("mangrove.tree.listing.listing.TOKEN_SECONDS", 0.0)

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

    monkeypatch.setattr("mangrove.tree.listing.listing.TOKEN_SECONDS", 0.0)
    monkeypatch.setattr("mangrove.tree.listing.listing.RACY_NANOSECONDS", 600 * 10**9)  # of which the reading may take

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
