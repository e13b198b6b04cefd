"""Both ends of a copy: a file or folder in a storage, and what is there."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from mangrove.drivers.base import Driver, Entry, SameFile
from mangrove.paths import TreePath
from mangrove.problems import NotFound
from mangrove.streams import split_chunks

COMPARE = 32 << 20  # bytes of two files that are compared at once
KEPT_FOLDERS = 4
LARGEST_FOLDER = 20_000  # entries; beyond, each is asked for by itself


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A file or folder in a storage."""

    driver: Driver
    path: TreePath

    def __truediv__(self, name: str) -> Endpoint:
        return Endpoint(self.driver, self.path / name) if name else self

    async def find(self) -> Entry | None:
        """The entry at this path, asked of the storage itself; None for nothing."""
        try:
            return await self.driver.stat(self.path)
        except NotFound:
            return None

    async def read_range(self, offset: int, length: int) -> bytes:
        """A range of a file."""
        blocks: Any = await self.driver.read(self.path, offset, length)
        return b"".join([block async for block in blocks])

    async def read_chunks(self, length: int) -> AsyncGenerator[bytes, None]:
        """The whole file in chunks of `length` bytes, the last one shorter."""
        body: Any = await self.driver.read(self.path)
        async with aclosing(body):
            async for chunk in split_chunks(body, length):
                yield chunk


class TargetListing:
    """The entries at the target, asked folder by folder where asking for one entry costs a round trip."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._folders: OrderedDict[TreePath, asyncio.Task[dict[str, Entry]]] = OrderedDict()

    async def find(self, endpoint: Endpoint) -> Entry | None:
        """The entry at `endpoint`, as it was when its folder was first asked for; None for nothing."""
        if self._driver.config.no_cache:
            return await endpoint.find()
        folder = endpoint.path.parent
        if folder not in self._folders:
            self._folders[folder] = asyncio.ensure_future(self._list(folder))
            if len(self._folders) > KEPT_FOLDERS:
                self._folders.popitem(last=False)
        entries = await self._folders[folder]
        return entries.get(endpoint.path.name) or (await endpoint.find() if len(entries) >= LARGEST_FOLDER else None)

    async def _list(self, folder: TreePath) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        try:
            async for batch in self._driver.list(folder):
                entries |= {entry.name: entry for entry in batch}
                if len(entries) >= LARGEST_FOLDER:
                    break
        except NotFound:
            pass  # it is made with its first file
        return entries


async def have_same_bytes(one: Endpoint, other: Endpoint) -> bool:
    """Whether two files hold the same bytes."""
    first, second = await one.find(), await other.find()
    if first is None or second is None or first.is_dir or second.is_dir:
        return False
    if first.size is None or second.size is None:
        return await _stream_same_bytes(one, other)
    if first.size != second.size:
        return False
    for offset in range(0, first.size, COMPARE):
        length = min(COMPARE, first.size - offset)
        if await one.read_range(offset, length) != await other.read_range(offset, length):
            return False
    return True


async def _stream_same_bytes(one: Endpoint, other: Endpoint) -> bool:
    """The same of files whose size a storage does not know."""
    async with aclosing(one.read_chunks(COMPARE)) as left, aclosing(other.read_chunks(COMPARE)) as right:
        async for chunk in left:
            if chunk != await anext(right, b""):
                return False
        return not await anext(right, b"")


async def are_same_entry(one: Endpoint, other: Endpoint) -> bool:
    """Whether both are the same file or folder, reached through two storages."""
    if not (isinstance(one.driver, SameFile) and isinstance(other.driver, SameFile)):
        return False
    try:
        if not await one.driver.identify(one.path) & await other.driver.identify(other.path):
            return False
    except NotFound:
        return False
    first, second = await one.find(), await other.find()  # two servers may have a bucket of the same name
    return first is not None and second is not None and (first.modified, first.etag) == (second.modified, second.etag)
