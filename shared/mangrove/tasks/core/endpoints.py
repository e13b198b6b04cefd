"""Both ends of a copy: a file or folder in a storage, and what is there."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mangrove.core.chunked import split_chunks
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, NotSupported
from mangrove.drivers.base import Driver, Entry
from mangrove.tasks.core.specs import SourceVersion
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations.name_locks import lock_name, makedirs

COMPARE = 32 << 20  # bytes of two files that are compared at once
KEPT_FOLDERS = 4
LARGEST_FOLDER = 20_000  # entries; beyond, each is asked for by itself


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A file or folder in a storage. `mount`: where the tree shows it; None in staging, where nobody else writes."""

    driver: Driver
    path: TreePath
    mount: Mount | None = None

    def __truediv__(self, name: str) -> Endpoint:
        return Endpoint(self.driver, self.path / name, self.mount) if name else self

    @asynccontextmanager
    async def lock_name(self) -> AsyncIterator[None]:
        """Keep others from the name, so that what is seen there holds until it is replaced."""
        async with hold_names([self]):
            yield

    async def makedirs(self) -> None:
        """Make a folder here and those above it; NotSupported by a storage without folders."""
        if self.mount is not None:
            await makedirs(StoragePath(self.driver, self.path, self.mount), in_bulk=True)
        elif self.driver.capabilities.makedirs:
            await self.driver.makedirs(self.path)
        else:
            raise NotSupported

    async def find(self) -> Entry | None:
        """The entry at this path, asked of the storage itself; None for nothing."""
        try:
            return await self.driver.stat(self.path)
        except EntryNotFound:
            return None

    async def check_unchanged(self, version: Entry) -> None:
        """EntryChanged when the file is another one by now."""
        if not SourceVersion.of(version).matches(await self.driver.stat(self.path)):
            raise EntryChanged

    async def sync(self) -> None:
        """Make what stands here, with all it holds, survive a power cut."""
        if self.driver.capabilities.sync:
            await self.driver.sync(self.path)

    async def remove_unchanged(self, entry: Entry) -> None:
        """Remove the file that `stat` answered `entry` for; EntryChanged, and it stays, when it is another one by now.
        Where the storage cannot decide that together with the removal, it is asked immediately before."""
        if self.driver.capabilities.remove_unchanged:
            try:
                async with self.lock_name():
                    await self.driver.remove_unchanged(self.path, entry)
                return
            except NotSupported:
                pass  # the storage below cannot
        if not self.driver.capabilities.remove:
            raise NotSupported
        async with self.lock_name():
            now = await self.find()
            if now is not None and not SourceVersion.of(entry).matches(now):
                raise EntryChanged
            await self.driver.remove(self.path)

    async def read_range(self, offset: int, length: int, if_match: Entry | None = None) -> bytes:
        """A range of a file; EntryChanged when it is another one than `if_match`."""
        blocks: Any = await self.driver.read(self.path, offset, length, if_match)
        return b"".join([block async for block in blocks])

    async def read_chunks(self, length: int, if_match: Entry | None = None) -> AsyncGenerator[bytes, None]:
        """The whole file in chunks of `length` bytes, the last one shorter."""
        body: Any = await self.driver.read(self.path, 0, None, if_match)
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
        except EntryNotFound:
            pass  # it is made with its first file
        return entries


@asynccontextmanager
async def hold_names(endpoints: Sequence[Endpoint]) -> AsyncIterator[None]:
    """Keep others from names of one storage, as `Endpoint.lock_name` does."""
    places = [StoragePath(one.driver, one.path, one.mount) for one in endpoints if one.mount is not None]
    if not places:
        yield
        return
    async with lock_name(*places):
        yield


async def have_same_bytes(one: Endpoint, other: Endpoint) -> bool:
    """Whether two files hold the same bytes."""
    first, second = await one.find(), await other.find()
    if first is None or second is None or first.is_dir or second.is_dir:
        return False
    if first.size is None or second.size is None:
        return await _stream_same_bytes(one, other, first, second)
    if first.size != second.size:
        return False
    for offset in range(0, first.size, COMPARE):
        length = min(COMPARE, first.size - offset)
        if not await is_same_range(one, other, first, second, offset, length):
            return False
    return True


async def is_same_range(one: Endpoint, other: Endpoint, first: Entry, second: Entry, offset: int, length: int) -> bool:
    """Whether two files, which still are `first` and `second`, hold the same bytes there; EntryChanged when one is
    not."""
    return await one.read_range(offset, length, first) == await other.read_range(offset, length, second)


async def _stream_same_bytes(one: Endpoint, other: Endpoint, first: Entry, second: Entry) -> bool:
    """The same of files whose size a storage does not know."""
    async with (
        aclosing(one.read_chunks(COMPARE, first)) as left,
        aclosing(other.read_chunks(COMPARE, second)) as right,
    ):
        async for chunk in left:
            if chunk != await anext(right, b""):
                return False
        return not await anext(right, b"")


async def are_same_entry(one: Endpoint, other: Endpoint) -> bool:
    """Whether both are the same file or folder, reached through two storages."""
    if not (one.driver.capabilities.identify and other.driver.capabilities.identify):
        return False
    try:
        if not await one.driver.identify(one.path) & await other.driver.identify(other.path):
            return False
    except EntryNotFound:
        return False
    first, second = await one.find(), await other.find()  # two servers may have a bucket of the same name
    return first is not None and second is not None and (first.modified, first.etag) == (second.modified, second.etag)
