"""The folders of a walk, listed one or many with a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageForbidden
from mangrove.drivers.base import Capabilities, Driver, Entry, FolderBatch
from mangrove.tasks.index.walk import LIST_CONCURRENCY, FolderReader

PATHS = [TreePath(f"/{number}") for number in range(20)]


class Single:
    """A storage that lists one folder with a call, each of two names; the seventh one is closed."""

    capabilities = Capabilities()

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._running = 0
        self.most = 0  # concurrent calls

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(self._seconds)
        self._running -= 1
        if path == "/7":
            raise StorageForbidden
        yield [Entry(f"{path} first", 0, 0.0, False)]
        yield [Entry(f"{path} second", 0, 0.0, False)]


class Many(Single):
    """The same for many folders with a call."""

    capabilities = Capabilities(list_folders=True)

    async def list_folders(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        self._running += 1
        self.most = max(self.most, self._running)
        for number, path in enumerate(paths):
            await asyncio.sleep(self._seconds)
            problem = StorageForbidden() if path == "/7" else None
            yield [FolderBatch(number, [] if problem else [Entry(f"{path} {which}", 0, 0.0, False)], problem)
                   for which in (["first"] if problem else ["first", "second"])]  # fmt: skip
        self._running -= 1


async def read(reader: FolderReader, paths: Sequence[TreePath] = PATHS) -> dict[int, list[str]]:
    names_by_number: dict[int, list[str]] = {}

    async def take(batch: Sequence[FolderBatch]) -> None:
        for page in batch:
            names_by_number.setdefault(page.number, []).extend(entry.name for entry in page.entries)
            if page.problem is not None:
                names_by_number[page.number].append(page.problem.message)

    await reader.read(paths, take)
    return names_by_number


def make_reader(storage: Single) -> FolderReader:
    return FolderReader(cast(Driver, storage))


EXPECTED_LISTINGS = {number: [f"/{number} first", f"/{number} second"] for number in range(20)} | {
    7: [StorageForbidden().message]
}


@pytest.mark.parametrize("kind", [Single, Many])
def test_what_is_in_each_folder_is_handed_over(kind: type[Single]) -> None:
    assert kind().capabilities.list_folders is (kind is Many)
    for seconds in (0.0, 0.001):
        reader = make_reader(kind(seconds))
        for _ in range(2):
            assert asyncio.run(read(reader)) == EXPECTED_LISTINGS
        assert asyncio.run(read(reader, [])) == {}


def test_some_calls_are_under_way_at_once_where_each_is_for_one_folder() -> None:
    storage = Single(0.001)
    asyncio.run(read(make_reader(storage)))
    assert storage.most == LIST_CONCURRENCY


def test_listing_calls_are_serial_until_storage_is_slow() -> None:
    storage = Many(0.001)
    reader = make_reader(storage)
    asyncio.run(read(reader))
    assert storage.most == 1
    asyncio.run(read(reader))
    assert storage.most > 4


def test_what_takes_the_entries_may_end_it() -> None:
    async def take(batch: Sequence[FolderBatch]) -> Any:
        raise batch[0].problem or StorageForbidden("no more")

    for storage in (Single(), Many()):
        with pytest.raises(StorageForbidden):
            asyncio.run(make_reader(storage).read(PATHS, take))
