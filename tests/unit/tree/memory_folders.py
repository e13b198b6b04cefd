"""Drivers whose folders are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.base import Capabilities, Driver, DriverContext, DriverProperties, Entry
from mangrove.drivers.options import Options
from mangrove.tree.listing.listing import Listings
from mangrove.tree.mounts import Mount, StoragePath


class MemoryFolders(Driver):
    """Folders in memory, whose listings can be held up."""

    name = "MemoryFolders"
    Options = Options
    config = DriverProperties()

    def __init__(self) -> None:
        super().__init__(Options(), DriverContext())
        self.folders: dict[str, list[str]] = {}
        self.reads = 0
        self.go = asyncio.Event()
        self.go.set()

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        self.reads += 1
        entries = [Entry(name, 1, 1.0, False) for name in self.folders.get(path, [])]
        await self.go.wait()
        if path not in self.folders:
            raise EntryNotFound
        yield entries

    async def stat(self, path: TreePath) -> Entry:
        raise EntryNotFound

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        raise EntryNotFound


class WithToken(MemoryFolders):
    """Says when a folder changed."""

    name = "WithToken"
    config = DriverProperties(no_cache=True)
    capabilities = Capabilities(get_change_token=True)
    token = 1

    async def get_change_token(self, path: TreePath) -> int:
        return self.token


class SlowFolders(MemoryFolders):
    """Every listing takes a while; `most_at_once`: listings under way together."""

    name = "SlowFolders"
    under_way = most_at_once = 0

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        self.reads += 1
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        await asyncio.sleep(0.02)
        self.under_way -= 1
        yield [Entry(str(self.reads), 1, 1.0, False)]


async def names(cache: Listings, at: Mount, driver: Driver, path: str = "/", refresh: bool = False) -> list[str]:
    return [entry.name for entry in (await cache.get(StoragePath(driver, TreePath(path), at), refresh=refresh)).entries]
