"""Listings that many callers request concurrently, or that change while they are read."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.tree.listing.folder import FOLDER_BYTES
from mangrove.tree.listing.listing import Listings
from tests.support.waiting import settle
from tests.unit.tree.builders import mount
from tests.unit.tree.memory_folders import MemoryFolders, SlowFolders, WithToken, names

P = TreePath
ROOT = P("/")


def test_many_who_ask_at_once_share_one_reading() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["a"]
        driver.go.clear()
        asking = [asyncio.create_task(names(cache, at, driver)) for _ in range(20)]
        await settle()
        driver.go.set()
        assert await asyncio.gather(*asking) == [["a"]] * 20
        assert driver.reads == 1

    asyncio.run(go())


def test_many_who_ask_for_what_is_not_kept_share_the_next_reading() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(cache_expiration=0), MemoryFolders()
        driver.folders["/"] = ["a"]
        driver.go.clear()
        early = [asyncio.create_task(names(cache, at, driver)) for _ in range(20)]
        await settle()
        driver.folders["/"] = ["a", "b"]
        late = [asyncio.create_task(names(cache, at, driver)) for _ in range(20)]
        await settle()
        driver.go.set()
        assert {tuple(listed_names) for listed_names in await asyncio.gather(*early)} <= {("a",), ("a", "b")}
        assert await asyncio.gather(*late) == [["a", "b"]] * 20
        assert driver.reads == 2
        assert await names(cache, at, driver) == ["a", "b"]
        assert driver.reads == 3

    asyncio.run(go())


def test_callers_that_come_one_after_the_other_read_one_after_the_other() -> None:
    async def go() -> None:
        cache, driver, at = Listings(), SlowFolders(), mount(cache_expiration=0)

        async def ask(number: int) -> None:
            await asyncio.sleep(0.005 * number)
            await names(cache, at, driver)

        await asyncio.gather(*(ask(number) for number in range(12)))
        assert driver.most_at_once == 1
        assert driver.reads <= 5  # the twelve come within three reads: one for the first, one for those of each read

    asyncio.run(go())


def test_a_refresh_is_never_served_by_what_began_before_it() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["old"]
        driver.go.clear()
        plain = asyncio.create_task(names(cache, at, driver))
        await settle()
        driver.folders["/"] = ["new"]
        asking = [asyncio.create_task(names(cache, at, driver, refresh=True)) for _ in range(3)]
        await settle()
        driver.go.set()
        assert await plain == ["old"]
        assert await asyncio.gather(*asking) == [["new"]] * 3
        assert driver.reads == 2

    asyncio.run(go())


def test_a_folder_forgotten_while_its_token_is_asked_for_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.tree.listing.listing.TOKEN_SECONDS", 0.0)
    cache, at = Listings(), mount()

    class Forgetful(WithToken):
        forgets = False

        async def get_change_token(self, path: TreePath) -> int:
            if self.forgets:
                cache.forget(at.storage.id, path)
            return 1

    async def go() -> None:
        driver = Forgetful()
        driver.folders["/"] = ["a"]
        await names(cache, at, driver)
        driver.forgets = True
        driver.folders["/"] = ["b"]
        assert await names(cache, at, driver) == ["b"]
        assert driver.reads == 2

    asyncio.run(go())


@pytest.mark.parametrize("change", ["forget", "forget_below", "clear"])
def test_a_reading_that_met_a_change_is_not_kept(change: str) -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/"] = ["old"]
        driver.go.clear()
        asking = asyncio.create_task(names(cache, at, driver))
        await settle()
        driver.folders["/"] = ["new"]
        changes: dict[str, Any] = {
            "forget": lambda: cache.forget(at.storage.id, ROOT),
            "forget_below": lambda: cache.forget_below(at.storage.id),
            "clear": cache.clear,
        }
        changes[change]()
        driver.go.set()
        assert await asking == ["old"]
        assert cache.weight == 0
        assert await names(cache, at, driver) == ["new"]

    asyncio.run(go())


def test_gets_survive_whatever_is_dropped_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.tree.listing.listing.TOKEN_SECONDS", 0.0)
    monkeypatch.setattr("mangrove.tree.listing.listing.RACY_NANOSECONDS", -(10**18))  # every token is trusted
    chance = random.Random(16)

    class Waiting(WithToken):
        async def get_change_token(self, path: TreePath) -> int:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            return self.token

    async def go() -> None:
        cache, at, driver = Listings(6 * FOLDER_BYTES), mount(), Waiting()
        driver.folders |= {path: [path[1:]] for path in ("/a", "/b", "/c", "/d", "/e")}

        async def get_often() -> None:
            for _ in range(500):
                path = chance.choice(list(driver.folders))
                assert await names(cache, at, driver, path, refresh=chance.random() < 0.05) == [path[1:]]

        async def drop_often() -> None:
            for _ in range(500):
                path = P(chance.choice(list(driver.folders)))
                chance.choice(
                    [
                        cache.clear,
                        partial(cache.forget, at.storage.id, path),
                        partial(cache.forget_below, at.storage.id),
                    ]
                )()
                driver.token += chance.random() < 0.1
                for _ in range(chance.randrange(8)):
                    await asyncio.sleep(0)

        await asyncio.gather(*(get_often() for _ in range(8)), drop_often())
        cache.clear()
        assert cache.weight == 0

    asyncio.run(go())


def test_a_change_elsewhere_does_not_keep_a_reading_from_being_kept() -> None:
    async def go() -> None:
        cache, at, driver = Listings(), mount(), MemoryFolders()
        driver.folders["/a"] = ["x"]
        driver.go.clear()
        asking = asyncio.create_task(names(cache, at, driver, "/a"))
        await settle()
        cache.forget(at.storage.id, P("/b"))
        cache.forget_below(at.storage.id, P("/ab"))
        cache.forget_below(at.storage.id + 1)
        driver.go.set()
        assert await asking == ["x"]
        assert await names(cache, at, driver, "/a") == ["x"]
        assert driver.reads == 1

    asyncio.run(go())
