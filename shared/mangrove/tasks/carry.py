"""One file from one storage to another: whole or not at all, verified, continued where it was cut off."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from mangrove.drivers.base import Copies, Driver, Entry, Parts, Takes, Upload, Writes
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem
from mangrove.tasks.steps import Run

PART = 16 << 20  # bytes
IN_FLIGHT = 3  # parts stored at once
MOST_PARTS = 10_000
WHOLE = 8 << 20  # bytes; a smaller file is stored in one go: one call to S3, so that a killed worker leaves no parts
KEPT_FOLDERS = 4
LARGEST_FOLDER = 20_000  # entries; beyond, each is asked for by itself

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class End:
    """A file or folder in a storage."""

    driver: Driver
    path: TreePath

    def __truediv__(self, name: str) -> End:
        return End(self.driver, self.path / name)

    async def entry(self) -> Entry | None:
        """What stands here, asked of the storage itself; None for nothing."""
        try:
            return await self.driver.stat(self.path)
        except NotFound:
            return None


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when the work was planned: what it must still be, size in bytes."""

    size: int
    modified: float
    etag: str

    def same(self, entry: Entry | None) -> bool:
        """Whether it is still that file."""
        return (
            entry is not None
            and not entry.is_dir
            and entry.size == self.size
            and (entry.etag == self.etag if self.etag or entry.etag else entry.modified == self.modified)
        )


class Neighbours:
    """What stands at the target, asked folder by folder where asking for one entry costs a round trip."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._folders: OrderedDict[TreePath, asyncio.Task[dict[str, Entry]]] = OrderedDict()

    async def find(self, end: End) -> Entry | None:
        """The entry at `end`, as it was when its folder was first asked for; None for nothing."""
        if self._driver.config.no_cache:
            return await end.entry()
        folder = end.path.parent
        if folder not in self._folders:
            self._folders[folder] = asyncio.ensure_future(self._listed(folder))
            if len(self._folders) > KEPT_FOLDERS:
                self._folders.popitem(last=False)
        found = await self._folders[folder]
        return found.get(end.path.name) or (await end.entry() if len(found) >= LARGEST_FOLDER else None)

    async def _listed(self, folder: TreePath) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        try:
            async for batch in self._driver.list(folder):
                found |= {entry.name: entry for entry in batch}
                if len(found) >= LARGEST_FOLDER:
                    break
        except NotFound:
            pass  # it is made with its first file
        return found


async def carry(
    run: Run, source: End, target: End, file: File, near: Neighbours, *, overwrite: bool, leave: bool
) -> bool:
    """Copy a file and verify it. `leave` keeps what stands at the target; else, without `overwrite`, Exists.

    What is there with the same size counts as ours: a worker that died may have stored it already. False: something
    was left there and nobody compared it with the source.
    """
    if not file.same(await source.driver.stat(source.path)):
        raise StorageProblem("the source changed since the task began")
    standing = await near.find(target)
    if standing is not None and not overwrite and run.cursor.get("file", {}).get("path") != target.path:
        if leave or (not standing.is_dir and standing.size == file.size):
            return False
        raise Exists
    stored = await _stored(run, source, target, file)
    if stored.size != file.size:
        raise StorageProblem(f"the target has {stored.size} bytes instead of {file.size}")
    return True


async def alike(source: End, target: End) -> bool:
    """Whether two files hold the same bytes."""
    one, other = await source.entry(), await target.entry()
    if one is None or other is None or one.is_dir or other.is_dir or one.size != other.size:
        return False
    for offset in range(0, one.size, PART):
        length = min(PART, one.size - offset)
        if await _bytes(source, offset, length) != await _bytes(target, offset, length):
            return False
    return True


async def together(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """The answers of all; the first failure, but not before the others have ended."""
    running = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*running, return_exceptions=True)
    return [one.result() for one in running]


async def _bytes(end: End, offset: int, length: int) -> bytes:
    blocks: Any = await end.driver.read(end.path, offset, length)
    return b"".join([block async for block in blocks])


async def _unchanged(source: End, file: File) -> None:
    """Asked when all bytes are read and before the target is seen: what is torn must not replace what is whole."""
    if not file.same(await source.driver.stat(source.path)):
        raise StorageProblem("the source changed while it was copied")


async def _verified(body: AsyncIterator[bytes], source: End, file: File) -> AsyncIterator[bytes]:
    async for block in body:
        yield block
    await _unchanged(source, file)


def _length(size: int) -> int:
    """Bytes of a part."""
    return max(PART, -(-size // MOST_PARTS))


async def _stored(run: Run, source: End, target: End, file: File) -> Entry:
    if source.driver is target.driver and isinstance(source.driver, Copies):
        try:
            await source.driver.copy(source.path, target.path)
            return await target.driver.stat(target.path)
        except NotSupported:
            pass  # too large to be done at once, or not within this storage
    upload = Upload(file.size, file.modified)
    if file.size > WHOLE and isinstance(target.driver, Parts):
        return await _in_parts(run, source, target, target.driver, upload, file)
    if not isinstance(target.driver, Writes):
        raise NotSupported
    body: Any = await source.driver.read(source.path)
    return await target.driver.write(target.path, _verified(body, source, file), upload)


async def _in_parts(run: Run, source: End, target: End, driver: Parts, upload: Upload, file: File) -> Entry:
    """Store part by part; the record knows each stored one, so that whoever goes on begins at the next."""
    assert upload.size is not None
    size, length = upload.size, _length(upload.size)
    state = run.cursor.get("file")
    if state is None or state["path"] != target.path:
        state = {"path": target.path, "token": await driver.begin(target.path, upload), "receipts": []}
        run.cursor["file"] = state
        await run.save()
    receipts: list[str] = state["receipts"]
    offsets = range(0, size, length)
    before = run.cursor["bytes"]
    while len(receipts) < len(offsets):
        wanted = range(len(receipts), min(len(receipts) + IN_FLIGHT, len(offsets)))
        parts = (_part(source, target, driver, state["token"], index, length, size) for index in wanted)
        receipts += await together(parts)
        run.progress(before + min(len(receipts) * length, size))
        await run.save()
    await _unchanged(source, file)
    try:
        stored = await driver.finish(target.path, state["token"], receipts, upload)
    except NotFound:
        if not await alike(source, target):
            raise StorageProblem("the parts stored so far are gone") from None
        stored = await target.driver.stat(target.path)  # a worker made the file and died before it could say so
    del run.cursor["file"]
    return stored


async def _part(source: End, target: End, driver: Parts, token: str, index: int, length: int, size: int) -> str:
    offset = index * length
    if isinstance(driver, Takes):
        wanted = min(length, size - offset)
        receipt = await driver.take_part(source.driver, source.path, target.path, token, offset, wanted)
        if receipt is not None:
            return receipt
    content = await _bytes(source, offset, min(length, size - offset))
    storing = asyncio.ensure_future(driver.part(target.path, token, index + 1, offset, content))
    try:
        return await asyncio.shield(storing)
    except asyncio.CancelledError:
        await asyncio.wait([storing])  # one that arrives after the parts are dropped would stay for ever
        raise


async def drop(run: Run, target: Driver, path: TreePath | None = None) -> None:
    """Forget the parts of the file that was not finished, if there is one and, when `path` is given, it is that."""
    state = run.cursor.get("file")
    if state is None or path not in (None, state["path"]):
        return
    if isinstance(target, Parts):
        await target.drop(TreePath(state["path"]), state["token"])
    run.cursor.pop("file", None)
