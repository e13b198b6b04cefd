"""Many names of a folder are looked up by a listing, few by a question for each."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.core.runtime import Runtime
from mangrove.drivers.base import Capabilities, DriverProperties, Entry
from mangrove.tree.listing import listing, lookups
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath
from tests.unit.tree import builders
from tests.unit.tree.memory_folders import MemoryFolders


class Folders(MemoryFolders):
    """Answers both, and counts the questions."""

    config = DriverProperties(direct_lookup=True)

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.folders = {"/d": list(names)}
        self.requested_names = list[str]()

    async def stat(self, path: TreePath) -> Entry:
        self.requested_names.append(path.name)
        if path.name not in self.folders["/d"]:
            raise EntryNotFound
        return Entry(path.name, 1, 1.0, False)


async def find(driver: Folders, *names: str, folder: str = "/d") -> list[bool]:
    entries = await lookups.look_up_many(StoragePath(driver, TreePath(folder), builders.mount()), names)
    return [await entries.has(name) for name in names]


NAMES = [f"n{number}" for number in range(lookups.MAX_SINGLE_LOOKUPS + 1)]


def test_many_are_found_by_one_listing() -> None:
    driver = Folders(*NAMES[1:])
    assert asyncio.run(find(driver, *NAMES)) == [False, *[True] * lookups.MAX_SINGLE_LOOKUPS]
    assert (driver.reads, driver.requested_names) == (1, [])


def test_few_are_asked_for_when_they_are_needed() -> None:
    driver = Folders("n0")
    assert asyncio.run(find(driver, "n0", "n1")) == [True, False]
    assert (driver.reads, driver.requested_names) == (0, ["n0", "n1"])


def test_name_that_is_needed_again_is_not_looked_up_again() -> None:
    driver = Folders("n0")
    assert asyncio.run(find(driver, "n0", "n1", "n0", "n1")) == [True, False, True, False]
    assert (driver.reads, driver.requested_names) == (0, ["n0", "n1"])


def test_in_a_folder_that_is_not_there_there_is_nothing() -> None:
    assert not any(asyncio.run(find(Folders(), *NAMES, folder="/gone")))


def test_of_a_very_large_folder_what_was_not_seen_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_LISTED_ENTRIES", 1)
    monkeypatch.setattr(lookups, "LISTED_ENTRIES_PER_NAME", 0)
    driver = Folders(*NAMES[1:])
    assert asyncio.run(find(driver, *NAMES)) == [False, *[True] * lookups.MAX_SINGLE_LOOKUPS]
    assert driver.requested_names == ["n0"]


def test_a_listing_goes_on_while_that_is_quicker_than_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_LISTED_ENTRIES", 1)
    driver = Folders(*NAMES[1:])
    assert asyncio.run(find(driver, *NAMES)) == [False, *[True] * lookups.MAX_SINGLE_LOOKUPS]
    assert driver.requested_names == []


class Shown(Folders):
    """Shows another part of the tree, whose storage may be slow to answer."""

    config = DriverProperties(no_cache=True, direct_lookup=True)
    capabilities = Capabilities(find_others=True)
    at_once = most_at_once = 0

    def find_others(self, path: TreePath) -> list[TreePath]:
        return [path]

    def find_sources(self, target: TreePath, *, below: bool = False) -> list[TreePath]:
        return [target]

    async def stat(self, path: TreePath) -> Entry:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.001)
        self.at_once -= 1
        return await super().stat(path)


def test_what_shows_other_storages_is_asked_for_many_names_at_once() -> None:
    driver = Shown(*NAMES[1:])
    assert asyncio.run(find(driver, *NAMES)) == [False, *[True] * lookups.MAX_SINGLE_LOOKUPS]
    assert (driver.reads, sorted(driver.requested_names), driver.most_at_once) == (
        0,
        sorted(NAMES),
        lookups.LOOKUP_CONCURRENCY,
    )


def test_recent_lookup_serves_a_driver_that_refuses_existing_names() -> None:
    async def look(driver: Folders) -> list[bool]:
        path = StoragePath(driver, TreePath("/d/n0"), builders.mount())
        looked_up = [await lookups.find_recent(path) is not None for _ in range(2)]
        driver.folders["/d"].append("n0")
        looked_up.append(await lookups.find_recent(path) is not None)
        return [*looked_up, await lookups.find_entry(path) is not None]

    class Refusing(Folders):
        async def can_refuse_existing(self) -> bool:
            return True

    refusing, other = Refusing(), Folders()
    with runtime.use(Runtime()):
        assert asyncio.run(look(refusing)) == [False, False, False, True]
        assert asyncio.run(look(other)) == [False, False, True, True]
    assert len(refusing.requested_names) == 2


def test_folder_found_a_moment_ago_serves_until_a_folder_may_be_gone() -> None:
    """New files in it do not end that; a removal anywhere does."""

    class Nested(Folders):
        async def stat(self, path: TreePath) -> Entry:
            self.requested_names.append(path.name)
            return Entry(path.name, 1, 1.0, path.name == "d")

    async def look(driver: Nested) -> list[int]:
        mount, counts = builders.mount(), list[int]()
        folder = StoragePath(driver, TreePath("/d"), mount)
        for change in (
            lambda: listings().forget(mount.storage.id, TreePath("/d")),
            lambda: listings().forget_below(mount.storage.id, TreePath("/other")),
            listings().clear,
        ):
            assert (await lookups.look_up_folder(folder)).is_dir
            change()
            counts.append(len(driver.requested_names))
        assert (await lookups.look_up_folder(folder)).is_dir
        return [*counts, len(driver.requested_names)]

    with runtime.use(Runtime()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "TOKEN_SECONDS", 60.0)
        assert asyncio.run(look(Nested())) == [1, 1, 2, 3]


def test_file_found_a_moment_ago_is_no_known_folder() -> None:
    async def look(driver: Folders) -> bool:
        path = StoragePath(driver, TreePath("/d/n0"), builders.mount())
        await lookups.look_up_folder(path)
        return listings().find_folder(path) is None

    with runtime.use(Runtime()):
        assert asyncio.run(look(Folders("n0")))
