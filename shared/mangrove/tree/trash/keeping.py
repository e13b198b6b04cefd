"""The driver of a storage with a trash or with versions: it keeps the entries that are removed or replaced.

The tree, the protocols, the tasks and other storages (Alias, Crypt) use this driver in place of the driver it wraps.

The order of effects: an intent is recorded, the entry gets a path in the hidden folder in one step, the record becomes
final. `tree.trash.repair` settles the intents of a process that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.concurrency import finish_despite_cancel, gather_all, gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFolder,
    Problem,
    StorageFull,
    StorageProblem,
)
from mangrove.drivers.base import CopyRequest, Driver, Entry, NewFile, Upload
from mangrove.drivers.refusals import refuse_root_removal
from mangrove.records import trash
from mangrove.records.trash import Action, TrashEntry, TrashKind
from mangrove.tree.callers import find_actor
from mangrove.tree.lock_leases import NameLock, open_lock
from mangrove.tree.trash.content import delete, get_folder, get_path, read_option, settle, try_to_settle
from mangrove.tree.trash.replaced_files import replace_many

MAX_VERSIONS_PER_FILE = 1000
MIN_FREED_BYTES = 64 << 20  # freed in the trash of a full storage
MAX_FREED_ENTRIES = 100
WRITE_CONCURRENCY = 16  # files of one call

CopyResults = Sequence[StorageProblem | None] | None
MoveResult = Entry | StorageProblem | None


class WrappingDriver(Driver):
    """A driver with the operations of the driver behind it, under the same paths. Subclasses replace some of them."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.options, driver.context)
        self.driver = driver

    def unwrap(self) -> Driver:
        return self.driver.unwrap()

    def get_unmapped(self) -> Driver:
        inner = self.driver.get_unmapped()
        return self if inner is self.driver else type(self)(inner)

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self.driver.list(path)

    async def stat(self, path: TreePath) -> Entry:
        return await self.driver.stat(path)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        return await self.driver.read(path, offset, length, if_match)


def _make_forwarding(name: str) -> property:
    return property(lambda self: getattr(self.driver, name))


def _forward_operations() -> None:
    """Give WrappingDriver the attributes and operations of a driver that it does not define itself."""
    for name in {*vars(Driver), *Driver.__annotations__}:
        if not name.startswith("_") and name not in vars(WrappingDriver):
            setattr(WrappingDriver, name, _make_forwarding(name))


_forward_operations()


class TrashDriver(WrappingDriver):
    """A storage whose removed and replaced entries go into its hidden folder."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._trash_days = read_option(driver, "trash_days")
        self._versions = min(read_option(driver, "keep_versions"), MAX_VERSIONS_PER_FILE)

    async def discard(self, path: TreePath) -> None:
        """Move an entry into the trash, or remove it if the storage only keeps versions."""
        if self._trash_days <= 0:
            await self.driver.discard(path)
            return
        refuse_root_removal(path)
        with suppress(EntryNotFound):
            entry = await self.driver.stat(path)
            await finish_despite_cancel(self._discard(path, entry))

    def describe(self, path: TreePath, entry: Entry, kind: TrashKind) -> TrashEntry:
        """Return the record of an entry that the current caller removes or replaces now."""
        remover = find_actor()
        size = 0 if entry.is_dir else -1 if entry.size is None else entry.size
        return TrashEntry(
            trash.make_id(), self.context.storage_id, str(path), entry.is_dir, size, entry.modified, remover.id,
            remover.name, kind,
        )  # fmt: skip

    async def _discard(self, path: TreePath, entry: Entry) -> None:
        record = self.describe(path, entry, TrashKind.REMOVED)
        await self._set_aside(path, record, keep=False)
        pass_checkpoint("trash.moved")
        await asyncio.to_thread(trash.finish, record)

    async def _set_aside(self, path: TreePath, record: TrashEntry, *, keep: bool) -> bool:
        """Move an entry to its path in the trash. Return True if it also keeps its old path."""
        try:
            add_intent = asyncio.to_thread(trash.add_intents, [record], Action.MOVE)
            await gather_all([add_intent, self.driver.makedirs(get_folder(record))])
            pass_checkpoint("trash.intended")
            return await self.driver.set_aside(path, get_path(record), keep=keep)
        except Problem:
            await try_to_settle(self.driver, record)
            raise

    async def set_replaced_aside(self, path: TreePath, record: TrashEntry) -> bool:
        """Give a file that will be replaced a path in the trash. Return True if it also keeps its old path.

        Raise EntryNotFound if there is no file to keep.
        """
        return await self._set_aside(path, record, keep=True)

    @asynccontextmanager
    async def replacing(self, path: TreePath) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Yield a function that keeps the file at a path, to be called immediately before the replacement.

        If the replacement fails, the file is at its old path.
        """
        records: list[tuple[TrashEntry, bool]] = []
        async with open_lock() as lock:

            async def keep() -> None:
                record = None if records else await self._find_and_lock(path, lock)
                if record is not None:
                    with suppress(EntryNotFound):
                        records.append((record, await self.set_replaced_aside(path, record)))
                        pass_checkpoint("trash.kept")

            try:
                yield keep
            except BaseException:
                for record, has_both_paths in records:
                    await finish_despite_cancel(self._undo(path, record, has_both_paths))
                raise
            for record, _ in records:
                pass_checkpoint("trash.replaced")
                await finish_despite_cancel(self.finish_replacements([record]))

    async def _find_and_lock(self, path: TreePath, lock: NameLock) -> TrashEntry | None:
        """Return the record of the file that will be replaced, None if there is no file to keep. Lock its path, so that
        no other replacement takes the place of the file that is kept.

        A storage that cannot refuse a taken name is locked already, so its file is looked up once.
        """
        record = await self.find_replaced(path)
        if record is None or not await self.driver.can_refuse_existing():
            return record
        await lock.take([self.name_lock(path)])
        return await self.find_replaced(path)

    def name_lock(self, path: TreePath) -> str:
        """Return the name of the lock under which a file is replaced."""
        return sha256(f"replaced:{self.context.storage_id}:{path}".encode()).hexdigest()

    async def find_replaced(self, path: TreePath) -> TrashEntry | None:
        """Return the record of the file that will be replaced, None if there is no file or an empty one.

        Raise StorageProblem if the storage cannot tell: nothing is replaced that might have to be kept.
        """
        try:
            entry = await self.driver.stat(path)
        except (EntryNotFound, NotAFolder):
            return None
        return self.describe_replaced(path, entry)

    def describe_replaced(self, path: TreePath, entry: Entry) -> TrashEntry | None:
        """Return the record of a file that will be replaced, None for a folder or an empty file."""
        if entry.is_dir or entry.size == 0:
            return None
        return self.describe(path, entry, TrashKind.VERSION if self._versions > 0 else TrashKind.REPLACED)

    async def _undo(self, path: TreePath, record: TrashEntry, has_both_paths: bool) -> None:
        with suppress(Problem):
            if not has_both_paths:
                with suppress(EntryExists):  # another entry has the path: this one stays in the trash
                    await self.driver.move(get_path(record), path, overwrite=False)
            await settle(self.driver, record)

    async def finish_replacements(self, records: Sequence[TrashEntry]) -> None:
        """Record that files were replaced, and delete the versions that are too many."""
        await asyncio.to_thread(trash.finish, *records)
        if self._versions > 0:
            await delete(self.driver, await asyncio.to_thread(trash.list_excess_versions, records, self._versions))

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        if not upload.overwrite:
            return await self.driver.write(path, body, upload)
        async with self.replacing(path) as keep, self._making_room(upload):
            return await self.driver.write(path, _call_at_end(body, keep), upload)

    async def write_whole(self, files: Sequence[NewFile]) -> Sequence[Entry | StorageProblem]:
        """Store many files in one call, unless one of them may replace a file."""
        if not any(file.upload.overwrite for file in files):
            return await self.driver.write_whole(files)
        if not self.driver.capabilities.set_many_aside:
            return await gather_bounded([partial(self._try_to_write, file) for file in files], WRITE_CONCURRENCY)

        async def write(indexes: Sequence[int], free: Collection[int]) -> Sequence[Entry | StorageProblem]:
            chosen = [_refuse_existing(files[index]) if index in free else files[index] for index in indexes]
            return await self.driver.write_whole(chosen)

        paths = [file.path if file.upload.overwrite else None for file in files]
        results = await replace_many(self, paths, write, lambda index: self._try_to_write(files[index]))
        if any(isinstance(result, StorageFull) for result in results):
            await self._make_room_for(sum(len(file.content) for file in files))
        return results

    async def _try_to_write(self, file: NewFile) -> Entry | StorageProblem:
        try:
            return await self.write(file.path, stream(file.content), file.upload)
        except StorageProblem as problem:
            return problem

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        if not upload.overwrite:
            return await self.driver.finish(path, token, receipts, upload)
        async with self.replacing(path) as keep, self._making_room(upload):
            await keep()
            return await self.driver.finish(path, token, receipts, upload)

    @asynccontextmanager
    async def _making_room(self, upload: Upload) -> AsyncIterator[None]:
        """If the storage is full, delete the oldest entries of a trash with a limit, to free space for the next try."""
        try:
            yield
        except StorageFull:
            await self._make_room_for(upload.size or 0)
            raise

    async def _make_room_for(self, size: int) -> None:
        if read_option(self.driver, "trash_max_size") > 0:
            await self._make_room(max(size, MIN_FREED_BYTES))

    async def _make_room(self, size: int) -> None:
        rows = await asyncio.to_thread(trash.list_of, self.context.storage_id, MAX_FREED_ENTRIES, is_newest_first=False)
        count, freed = 0, 0
        while count < len(rows) and freed < size:
            freed += max(rows[count].size, 0)
            count += 1
        with suppress(Problem):
            await delete(self.driver, rows[:count])

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> Entry | None:
        async with self._replacing_by(path, target, overwrite):
            return await self.driver.rename(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> Entry | None:
        async with self._replacing_by(path, target, overwrite):
            return await self.driver.move(path, target, overwrite=overwrite)

    async def can_replace_together(self) -> bool:
        """True if `replace_by_moves` keeps files together, and the caller need not lock their names."""
        return self.driver.capabilities.set_many_aside and await self.driver.can_refuse_existing()

    async def replace_by_moves(
        self, files: Sequence[tuple[TreePath, TreePath]], *, stops: bool
    ) -> Sequence[MoveResult]:
        """Move files in their order as `move` does, and keep those that they replace together. Return the results.

        `stops`: end after the first failure, with the results up to it.
        """
        paths, targets = [path for path, _ in files], [target for _, target in files]
        entries = await self.driver.stat_many(paths)
        unusual = {index for index, entry in enumerate(entries) if isinstance(entry, StorageProblem) or entry.is_dir}
        failed: set[int] = set()
        not_tried = StorageProblem("another file could not be moved")

        async def move(index: int, driver: Driver, *, overwrite: bool = True) -> MoveResult:
            if stops and any(other < index for other in failed):
                return not_tried
            try:
                return await driver.move(*files[index], overwrite=overwrite)
            except StorageProblem as problem:
                if overwrite or not isinstance(problem, EntryExists):
                    failed.add(index)
                return problem

        async def move_together(indexes: Sequence[int], free: Collection[int]) -> Sequence[MoveResult]:
            return [
                await move(index, self if index in unusual else self.driver, overwrite=index not in free)
                for index in indexes
            ]

        if {*paths} & {*targets}:  # one file takes the path of another one
            results = [await move(index, self) for index in range(len(files))]
        else:
            kept_targets = [None if index in unusual else target for index, target in enumerate(targets)]
            results = await replace_many(self, kept_targets, move_together, lambda index: move(index, self))
        return results[: min(failed) + 1] if stops and failed else results

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        async with self._replacing_by(path, target, overwrite):
            await self.driver.copy(path, target, overwrite=overwrite, durable=durable)

    @asynccontextmanager
    async def _replacing_by(self, path: TreePath, target: TreePath, overwrite: bool) -> AsyncIterator[None]:
        """Keep the file at `target` that the file at `path` replaces."""
        if not overwrite or path == target or (await self.driver.stat(path)).is_dir:
            yield
            return
        async with self.replacing(target) as keep:
            await keep()
            yield

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> CopyResults:
        """Copy many files, and keep those that they replace."""
        if not any(file.overwrite for file in files):
            return await self.driver.copy_from(source, files)
        if await self.driver.copy_from(source, []) is None:
            return None
        if not self.driver.capabilities.set_many_aside:
            return [await self._copy_alone(source, file) for file in files]

        async def copy(indexes: Sequence[int], free: Collection[int]) -> Sequence[StorageProblem | None]:
            chosen = [
                files[index]._replace(overwrite=files[index].overwrite and index not in free) for index in indexes
            ]
            results = await self.driver.copy_from(source, chosen)
            assert results is not None
            return results

        paths = [file.target if file.overwrite else None for file in files]
        return await replace_many(self, paths, copy, lambda index: self._copy_alone(source, files[index]))

    async def _copy_alone(self, source: Driver, file: CopyRequest) -> StorageProblem | None:
        """Copy a file, and keep the one that it replaces. Return its problem."""
        try:
            async with self.replacing(file.target) as keep:
                if file.overwrite:
                    await keep()
                results = await finish_despite_cancel(self.driver.copy_from(source, [file]))
                assert results is not None
                if results[0] is not None:
                    raise results[0]
        except StorageProblem as problem:
            return problem
        return None


def _refuse_existing(file: NewFile) -> NewFile:
    """Return the same file, which must not replace one."""
    return file._replace(upload=replace(file.upload, overwrite=False))


async def _call_at_end(body: AsyncIterator[bytes], call: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
    async for chunk in body:
        yield chunk
    await call()
