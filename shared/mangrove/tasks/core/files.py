"""Files and folders as tasks use them: at a path of a storage or of staging."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from mangrove.core.chunked import split_chunks
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import Driver, Entry
from mangrove.tasks.core.model import SourceVersion
from mangrove.tasks.core.staging import StagedPath
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import name_locks

COMPARED_BYTES = 32 << 20  # of two files, held in memory
MAX_CACHED_FOLDERS = 4
MAX_CACHED_ENTRIES = 20_000  # of a folder; further entries are looked up one by one

FilePath = StoragePath | StagedPath


@asynccontextmanager
async def lock_names(paths: Sequence[FilePath]) -> AsyncIterator[None]:
    """Lock names of a storage, so that their state does not change until they are replaced."""
    storage_paths = [path for path in paths if isinstance(path, StoragePath)]
    if not storage_paths:
        yield
        return
    async with name_locks.lock_name(*storage_paths):
        yield


async def makedirs(path: FilePath) -> None:
    """Make a folder and its parents. Raise NotSupported for a storage without folders."""
    if isinstance(path, StoragePath):
        await name_locks.makedirs(path, in_bulk=True)
    elif path.driver.capabilities.makedirs:
        await path.driver.makedirs(path.path)
    else:
        raise NotSupported


async def find(path: FilePath) -> Entry | None:
    """Return the entry of a storage at a path, None for nothing."""
    try:
        return await path.driver.stat(path.path)
    except EntryNotFound:
        return None


async def check_unchanged(path: FilePath, version: Entry) -> None:
    """Raise EntryChanged if the file has another version now."""
    if not SourceVersion.of(version).matches(await path.driver.stat(path.path)):
        raise EntryChanged


async def sync(path: FilePath) -> None:
    """Make a file, or a folder with all its content, survive a power cut."""
    if path.driver.capabilities.sync:
        await path.driver.sync(path.path)


async def remove_unchanged(path: FilePath, entry: Entry) -> None:
    """Remove the file for which `stat` returned `entry`. If it has another version now, keep it and raise EntryChanged.

    If the storage cannot compare and remove atomically, the version is read immediately before.
    """
    driver = path.driver
    if driver.capabilities.remove_unchanged:
        try:
            async with lock_names([path]):
                await driver.remove_unchanged(path.path, entry)
            return
        except NotSupported:
            pass  # the storage below cannot
    if not driver.capabilities.remove:
        raise NotSupported
    async with lock_names([path]):
        present = await find(path)
        if present is not None and not SourceVersion.of(entry).matches(present):
            raise EntryChanged
        await driver.remove(path.path)


async def read_range(path: FilePath, offset: int, length: int, if_match: Entry | None = None) -> bytes:
    """Return a range of a file. Raise EntryChanged if its version is not `if_match`."""
    blocks: Any = await path.driver.read(path.path, offset, length, if_match)
    return b"".join([block async for block in blocks])


async def read_whole(path: FilePath, max_bytes: int) -> bytes:
    """Return the content of a small file. Raise StorageProblem if it is larger, EntryChanged if it changes."""
    entry = await path.driver.stat(path.path)
    size = entry.size or 0
    if size > max_bytes:
        raise StorageProblem(f"{path.path} has {size} bytes, more than {max_bytes}")
    return await read_range(path, 0, size, entry) if size else b""


async def read_chunks(path: FilePath, length: int, if_match: Entry | None = None) -> AsyncGenerator[bytes, None]:
    """Yield a file in chunks of `length` bytes, the last one shorter."""
    body: Any = await path.driver.read(path.path, 0, None, if_match)
    async with aclosing(body):
        async for chunk in split_chunks(body, length):
            yield chunk


class TargetListing:
    """The entries at the target. Each folder is listed once, since a lookup of each entry would cost a round trip."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._folders: OrderedDict[TreePath, asyncio.Task[dict[str, Entry]]] = OrderedDict()

    async def find(self, path: FilePath) -> Entry | None:
        """Return the entry at a path as it was when its folder was listed, None for nothing."""
        if self._driver.config.no_cache:
            return await find(path)
        folder = path.path.parent
        if folder not in self._folders:
            self._folders[folder] = asyncio.ensure_future(self._list(folder))
            if len(self._folders) > MAX_CACHED_FOLDERS:
                self._folders.popitem(last=False)
        entries = await self._folders[folder]
        return entries.get(path.path.name) or (await find(path) if len(entries) >= MAX_CACHED_ENTRIES else None)

    async def _list(self, folder: TreePath) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        try:
            async for batch in self._driver.list(folder):
                entries |= {entry.name: entry for entry in batch}
                if len(entries) >= MAX_CACHED_ENTRIES:
                    break
        except EntryNotFound:
            pass  # it is made with its first file
        return entries


async def have_same_bytes(left: FilePath, right: FilePath) -> bool:
    """True if both are files with the same bytes."""
    left_entry, right_entry = await find(left), await find(right)
    if left_entry is None or right_entry is None or left_entry.is_dir or right_entry.is_dir:
        return False
    if left_entry.size is None or right_entry.size is None:
        return await _stream_same_bytes(left, right, left_entry, right_entry)
    if left_entry.size != right_entry.size:
        return False
    for offset in range(0, left_entry.size, COMPARED_BYTES):
        length = min(COMPARED_BYTES, left_entry.size - offset)
        if not await have_same_range(left, right, left_entry, right_entry, offset, length):
            return False
    return True


async def have_same_range(
    left: FilePath, right: FilePath, left_entry: Entry, right_entry: Entry, offset: int, length: int
) -> bool:
    """True if both files have the same bytes in a range. Raise EntryChanged if a file has another version than its
    entry."""
    return await read_range(left, offset, length, left_entry) == await read_range(right, offset, length, right_entry)


async def _stream_same_bytes(left: FilePath, right: FilePath, left_entry: Entry, right_entry: Entry) -> bool:
    """Compare files whose size a storage does not know."""
    async with (
        aclosing(read_chunks(left, COMPARED_BYTES, left_entry)) as left_chunks,
        aclosing(read_chunks(right, COMPARED_BYTES, right_entry)) as right_chunks,
    ):
        async for chunk in left_chunks:
            if chunk != await anext(right_chunks, b""):
                return False
        return not await anext(right_chunks, b"")


async def are_same_entry(left: FilePath, right: FilePath) -> bool:
    """True if both paths lead to the same file or folder through two storages."""
    if not (left.driver.capabilities.identify and right.driver.capabilities.identify):
        return False
    try:
        if not await left.driver.identify(left.path) & await right.driver.identify(right.path):
            return False
    except EntryNotFound:
        return False
    left_entry, right_entry = await find(left), await find(right)
    if left_entry is None or right_entry is None:
        return False
    # two servers may have a bucket of the same name
    return (left_entry.modified, left_entry.etag) == (right_entry.modified, right_entry.etag)
