"""The trash of storages that cannot move a folder in one step: S3 without versioning, and clouds.

Files are moved one after the other by copies at the server. A move that breaks off is continued by the next request or
task step with the same paths: files that are moved already are no longer at the source. `keep_removed` chooses the
trash of a storage.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256

from mangrove.core import deadlines
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import in_batches
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, InUse, NotSupported, OutOfTime, Problem, StorageProblem
from mangrove.drivers.base import Capabilities, CopyRequest, Driver, Entry
from mangrove.drivers.refusals import refuse_root_removal
from mangrove.records import trash
from mangrove.records.trash import Action, TrashEntry, TrashKind
from mangrove.tree.lock_leases import open_lock
from mangrove.tree.trash.content import get_folder, get_path, is_gone, read_option, settle
from mangrove.tree.trash.keeping import CopyResults, TrashDriver

MOVE_CONCURRENCY = 8  # files
FILES_PER_CHECK = 64  # moved between two looks at the time that is left
MAX_SUBFOLDERS_PER_PASS = 1000  # of a folder; a further pass moves the others
VERSIONING_SECONDS = 5.0  # for which the versioning of a bucket is cached when files are replaced
MAX_PASSES_WITHOUT_PROGRESS = 3  # over a folder that is not empty and lists no entry


class MoveInterrupted(StorageProblem):
    """The target folder of a move was removed meanwhile, or a part of its source. What is left is still there."""

    text = "the entry or its target folder was changed by another request, try again"


class LargeFile(OutOfTime):
    """A file is too large for one copy at the server. A task copies it in parts."""

    def __init__(self, driver: Driver, path: TreePath, target: TreePath) -> None:
        super().__init__()
        self.driver = driver
        self.path = path
        self.target = target


def can_move(capabilities: Capabilities) -> bool:
    """True if a storage can move files into the trash one after the other."""
    return capabilities.copy and capabilities.move and capabilities.makedirs and capabilities.remove_empty


async def move_content(driver: Driver, path: TreePath, target: TreePath) -> None:
    """Move a file, or a folder file by file, to `target`. Files there are replaced.

    Raise EntryNotFound if there is nothing to move, OutOfTime in the middle, MoveInterrupted if the target folder is
    removed meanwhile.
    """
    if not (await driver.stat(path)).is_dir:
        deadlines.check()
        await driver.makedirs(target.parent)
        await _move_file(driver, path, target)
        return
    folders, attempts = [path], 0
    while folders:
        folder = folders[-1]
        moved_count, subfolders = await _move_files(driver, folder, target / folder.below(path))
        attempts = 0 if moved_count or subfolders else attempts + 1
        if subfolders:
            folders += [folder / name for name in subfolders]
        elif await driver.remove_empty(folder):
            folders.pop()
        elif attempts >= MAX_PASSES_WITHOUT_PROGRESS:
            raise InUse


async def _move_files(driver: Driver, folder: TreePath, target: TreePath) -> tuple[int, Sequence[str]]:
    """Move the files of a folder. Return their number, and the names of subfolders that remain."""
    count, subfolders = 0, list[str]()
    with suppress(EntryNotFound):  # another request has moved the folder
        await driver.makedirs(target)
        async for batch in driver.list(folder):
            files = [entry for entry in batch if not entry.is_dir]
            subfolders += [entry.name for entry in batch if entry.is_dir]
            del subfolders[MAX_SUBFOLDERS_PER_PASS:]
            async for entries in in_batches(files, FILES_PER_CHECK):
                deadlines.check()
                moves = [partial(_move_file, driver, folder / entry.name, target / entry.name) for entry in entries]
                await gather_bounded(moves, MOVE_CONCURRENCY)
                pass_checkpoint("trash.moving")
                count += len(entries)
    return count, subfolders


async def _move_file(driver: Driver, path: TreePath, target: TreePath) -> None:
    try:
        await driver.move(path, target, overwrite=True)
    except NotSupported:
        raise LargeFile(driver, path, target) from None
    except EntryNotFound:
        if not await is_gone(driver, path):
            raise MoveInterrupted from None
        # another request has moved it


class MovingTrashDriver(TrashDriver):
    """A storage whose removed and replaced entries are moved or copied into its hidden folder file by file."""

    async def discard(self, path: TreePath) -> None:
        """Move an entry into the trash. Raise OutOfTime in the middle; the next call continues.

        Of several calls at the same time, one moves a file, and all move the content of a folder into one entry.
        """
        refuse_root_removal(path)
        async with self.lock_removal(path):
            record = await self._begin_removal(path)
            if record is None:
                return
            if not record.is_dir:
                await self._finish_removal(path, record)
                return
        await self._finish_removal(path, record)

    @asynccontextmanager
    async def lock_removal(self, path: TreePath) -> AsyncIterator[None]:
        """Lock a path, so that one of several removals at the same time makes a record."""
        name = sha256(f"removed:{self.context.storage_id}:{path}".encode()).hexdigest()
        async with open_lock() as lock:
            await lock.take([name])
            yield

    async def _begin_removal(self, path: TreePath) -> TrashEntry | None:
        """Return the record of a removal that begins or broke off.

        If nothing is left at the path, the record of a removal that broke off becomes final, and None is returned.
        """
        begun = await asyncio.to_thread(trash.find_removal, self.context.storage_id, str(path))
        try:
            entry = await self.driver.stat(path)
        except EntryNotFound:
            if begun is not None:
                await settle(self.driver, begun)
            return None
        if begun is not None and begun.is_dir is not entry.is_dir:
            await settle(self.driver, begun)
            begun = None
        record = begun or self.describe(path, entry, TrashKind.REMOVED)
        await asyncio.to_thread(trash.begin_move, record)
        pass_checkpoint("trash.intended")
        return record

    async def _finish_removal(self, path: TreePath, record: TrashEntry) -> None:
        try:
            await move_content(self.driver, path, get_path(record))
        except EntryNotFound:  # another request has moved the rest
            await settle(self.driver, record)
            return
        pass_checkpoint("trash.moved")
        await asyncio.to_thread(trash.finish, record)

    async def set_replaced_aside(self, path: TreePath, record: TrashEntry) -> bool:
        """Copy a file that will be replaced into the trash. A file that is too large for one copy is not kept."""
        await asyncio.to_thread(trash.add_intents, [record], Action.MOVE)
        pass_checkpoint("trash.intended")
        try:
            await self.driver.makedirs(get_folder(record))
            await self.driver.copy(path, get_path(record), overwrite=True)
        except NotSupported:
            await settle(self.driver, record)
            raise EntryNotFound from None
        except Problem:
            with suppress(Problem):
                await settle(self.driver, record)
            raise
        return True

    def describe(self, path: TreePath, entry: Entry, kind: TrashKind) -> TrashEntry:
        return replace(super().describe(path, entry, kind), is_moved=True)


class BucketTrashDriver(MovingTrashDriver):
    """A bucket: with versioning it keeps what is removed and replaced, and the trash only records the removals."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._is_versioned = False
        self._asked_at = -math.inf

    async def discard(self, path: TreePath) -> None:
        """Remove an entry and record the removal, or move it into the trash of a bucket without versioning."""
        if not await self.driver.has_versions():
            await super().discard(path)
            return
        refuse_root_removal(path)
        async with self.lock_removal(path):
            await self._discard_versioned(path)

    async def _discard_versioned(self, path: TreePath) -> None:
        with suppress(EntryNotFound):
            record = replace(self.describe(path, await self.driver.stat(path), TrashKind.REMOVED), is_moved=False)
            await asyncio.to_thread(trash.add_intents, [record], Action.MOVE)
            pass_checkpoint("trash.intended")
            await self.driver.remove(path)
            pass_checkpoint("trash.moved")
            await asyncio.to_thread(trash.finish, record)

    async def find_replaced(self, path: TreePath) -> TrashEntry | None:
        return None if await self._had_versions() else await super().find_replaced(path)

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> CopyResults:
        if await self._had_versions():
            return await self.driver.copy_from(source, files)
        return await super().copy_from(source, files)

    async def _had_versions(self) -> bool:
        """Return True if the bucket had versioning at most VERSIONING_SECONDS ago."""
        now = time.monotonic()
        if now >= self._asked_at + VERSIONING_SECONDS:
            self._is_versioned, self._asked_at = await self.driver.has_versions(), now
        return self._is_versioned


def keep_removed(driver: Driver) -> Driver:
    """Return a driver that keeps removed and replaced entries, or the driver itself without such options."""
    capabilities = driver.capabilities
    trash_days, versions = read_option(driver, "trash_days"), read_option(driver, "keep_versions")
    if capabilities.set_aside and (trash_days > 0 or versions > 0):
        return TrashDriver(driver)
    if trash_days <= 0 or not can_move(capabilities):
        return driver
    return BucketTrashDriver(driver) if capabilities.versions else MovingTrashDriver(driver)
