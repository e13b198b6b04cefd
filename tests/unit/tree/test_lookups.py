"""Many names of a folder are looked up by a listing, few by a question for each."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.drivers.base import DriverConfig, Entry
from mangrove.paths import TreePath
from mangrove.problems import NotFound
from mangrove.tree import lookups
from mangrove.tree.mounts import Located
from tests.unit.tree import builders
from tests.unit.tree.memory_folders import MemoryFolders


class Folders(MemoryFolders):
    """Answers both, and counts the questions."""

    config = DriverConfig(direct_lookup=True)

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.folders = {"/d": list(names)}
        self.asked = list[str]()

    async def stat(self, path: TreePath) -> Entry:
        self.asked.append(path.name)
        if path.name not in self.folders["/d"]:
            raise NotFound
        return Entry(path.name, 1, 1.0, False)


async def find(driver: Folders, *names: str, folder: str = "/d") -> list[bool]:
    found = await lookups.look_up(Located(driver, TreePath(folder), builders.mount()), names)
    return [await found.has(name) for name in names]


NAMES = [f"n{number}" for number in range(lookups.FEW + 1)]


def test_many_are_found_by_one_listing() -> None:
    driver = Folders(*NAMES[1:])
    assert asyncio.run(find(driver, *NAMES)) == [False, *[True] * lookups.FEW]
    assert (driver.reads, driver.asked) == (1, [])


def test_few_are_asked_for_when_they_are_needed() -> None:
    driver = Folders("n0")
    assert asyncio.run(find(driver, "n0", "n1")) == [True, False]
    assert (driver.reads, driver.asked) == (0, ["n0", "n1"])


def test_in_a_folder_that_is_not_there_there_is_nothing() -> None:
    assert not any(asyncio.run(find(Folders(), *NAMES, folder="/gone")))


def test_of_a_very_large_folder_what_was_not_seen_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "LARGEST_LISTED", 1)
    driver = Folders(*NAMES[1:])
    assert asyncio.run(find(driver, *NAMES)) == [False, *[True] * lookups.FEW]
    assert driver.asked == ["n0"]
