"""The operations that keep old entries when a mounted storage removes or replaces them.

`keep_removed` wraps the operations of a driver. The tree, the protocols, the tasks and other storages (Alias, Crypt)
call the wrapped operations.

The order of effects: an intent is recorded, the entry gets a path in the hidden folder in one step, the record becomes
final. `tree.trash.repair` settles the intents of a process that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, Problem, StorageForbidden, StorageFull, StorageProblem
from mangrove.drivers.base import CopyRequest, Driver, Entry, Upload
from mangrove.drivers.part_names import TRASH_FOLDER
from mangrove.records import trash
from mangrove.records.trash import Action, TrashEntry, TrashKind
from mangrove.tree.trash.acting import find_remover

MAX_VERSIONS_PER_FILE = 1000
MIN_FREED_BYTES = 64 << 20  # freed in the trash of a full storage
MAX_FREED_ENTRIES = 100
WRITES = ("write", "finish")
TRANSFERS = ("rename", "move", "copy")


def get_folder(entry: TrashEntry) -> TreePath:
    """Return the folder that contains only the entry."""
    return TRASH_FOLDER / entry.id


def get_path(entry: TrashEntry) -> TreePath:
    """Return the path of an entry in the hidden folder."""
    return get_folder(entry) / TreePath(entry.path).name


def read_option(driver: Driver, name: str) -> int:
    """Return a numeric option of a driver, 0 if the driver does not have it."""
    value = getattr(driver.options, name, 0)
    return value if isinstance(value, int) else 0


def keep_removed(driver: Driver) -> Driver:
    """Make a driver keep removed and replaced entries, as its options say. Return the driver."""
    keeper = Keeper(driver)
    if driver.capabilities.versions and keeper.trash_days > 0:
        _replace(driver, "discard", keeper.discard_version)
    if not driver.capabilities.set_aside or not (keeper.trash_days > 0 or keeper.versions > 0):
        return driver
    if keeper.trash_days > 0:
        _replace(driver, "discard", keeper.discard)
    _replace(driver, "copy_from", keeper.make_copy_from())
    for name in WRITES:
        _replace(driver, name, keeper.make_write(name))
    for name in TRANSFERS:
        _replace(driver, name, keeper.make_transfer(name))
    return driver


def _replace(driver: Driver, name: str, operation: Callable[..., Any]) -> None:
    setattr(driver, name, operation)


class _CopyFailed(Exception):
    """A file was not copied, so the file that it should replace stays."""


class Keeper:
    """The trash and the versions of one storage."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.trash_days = read_option(driver, "trash_days")
        self.versions = min(read_option(driver, "keep_versions"), MAX_VERSIONS_PER_FILE)

    async def discard(self, path: TreePath) -> None:
        """Move an entry into the trash. Do nothing if it does not exist."""
        if path == "/":
            raise StorageForbidden("delete root folder is not allowed")
        with suppress(EntryNotFound):
            entry = await self.driver.stat(path)
            await finish_despite_cancel(self._discard(path, entry))

    async def _discard(self, path: TreePath, entry: Entry) -> None:
        record = self._describe(path, entry, TrashKind.REMOVED)
        await self._set_aside(path, record, keep=False)
        pass_checkpoint("trash.moved")
        await asyncio.to_thread(trash.finish, record)

    async def discard_version(self, path: TreePath) -> None:
        """Remove an entry of a storage that keeps it as a version. Record the removal."""
        if not await self.driver.has_versions():
            await self.driver.remove(path)
            return
        with suppress(EntryNotFound):
            record = self._describe(path, await self.driver.stat(path), TrashKind.REMOVED)
            await asyncio.to_thread(trash.add_intents, [record], Action.MOVE)
            pass_checkpoint("trash.intended")
            await self.driver.remove(path)
            pass_checkpoint("trash.moved")
            await asyncio.to_thread(trash.finish, record)

    def _describe(self, path: TreePath, entry: Entry, kind: TrashKind) -> TrashEntry:
        remover = find_remover()
        size = 0 if entry.is_dir else -1 if entry.size is None else entry.size
        return TrashEntry(
            trash.make_id(), self.driver.context.storage_id, str(path), entry.is_dir, size, entry.modified, remover.id,
            remover.name, kind,
        )  # fmt: skip

    async def _set_aside(self, path: TreePath, record: TrashEntry, *, keep: bool) -> bool:
        """Move an entry to its path in the trash. Return True if it also keeps its old path."""
        await asyncio.to_thread(trash.add_intents, [record], Action.MOVE)
        pass_checkpoint("trash.intended")
        try:
            await self.driver.makedirs(get_folder(record))
            return await self.driver.set_aside(path, get_path(record), keep=keep)
        except Problem:
            with suppress(Problem):
                await settle(self.driver, record)
            raise

    @asynccontextmanager
    async def replacing(self, path: TreePath) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Yield a function that keeps the file at a path, to be called immediately before the replacement.

        If the replacement fails, the file is at its old path.
        """
        records: list[tuple[TrashEntry, bool]] = []

        async def keep() -> None:
            record = await self._find_replaced(path)
            if record is not None and not records:
                with suppress(EntryNotFound):
                    records.append((record, await self._set_aside(path, record, keep=True)))
                    pass_checkpoint("trash.kept")

        try:
            yield keep
        except BaseException:
            for record, has_both_paths in records:
                await finish_despite_cancel(self._undo(path, record, has_both_paths))
            raise
        for record, _ in records:
            await finish_despite_cancel(self._finish_replacement(record))

    async def _find_replaced(self, path: TreePath) -> TrashEntry | None:
        """Return the record of the file that will be replaced, None if there is no file or an empty one."""
        try:
            entry = await self.driver.stat(path)
        except StorageProblem:
            return None
        if entry.is_dir or entry.size == 0:
            return None
        return self._describe(path, entry, TrashKind.VERSION if self.versions > 0 else TrashKind.REPLACED)

    async def _undo(self, path: TreePath, record: TrashEntry, has_both_paths: bool) -> None:
        with suppress(Problem):
            if not has_both_paths:
                with suppress(EntryExists):  # another entry has the path: this one stays in the trash
                    await type(self.driver).move(self.driver, get_path(record), path, overwrite=False)
            await settle(self.driver, record)

    async def _finish_replacement(self, record: TrashEntry) -> None:
        pass_checkpoint("trash.replaced")
        await asyncio.to_thread(trash.finish, record)
        if record.kind is TrashKind.VERSION:
            rows = await asyncio.to_thread(
                trash.list_versions, record.storage_id, record.path, MAX_VERSIONS_PER_FILE + 1
            )
            await delete(self.driver, rows[self.versions :])

    def make_write(self, name: str) -> Callable[..., Any]:
        """Return an operation that stores a file, and keeps the replaced file."""
        operation = getattr(type(self.driver), name)

        async def write(path: TreePath, content: Any, *args: Any) -> Any:
            upload = args[-1] if args and isinstance(args[-1], Upload) else None
            if upload is not None and not upload.overwrite:
                return await operation(self.driver, path, content, *args)
            async with self.replacing(path) as keep:
                if name == "write":
                    content = _call_at_end(content, keep)
                else:
                    await keep()
                try:
                    return await operation(self.driver, path, content, *args)
                except StorageFull:
                    await self._make_room(max(upload.size or 0, MIN_FREED_BYTES) if upload else MIN_FREED_BYTES)
                    raise

        return write

    async def _make_room(self, size: int) -> None:
        """Delete the oldest entries of a trash with a limit, to free space for the next file of this size."""
        if read_option(self.driver, "trash_max_size") <= 0:
            return
        rows = await asyncio.to_thread(
            trash.list_of, self.driver.context.storage_id, MAX_FREED_ENTRIES, is_newest_first=False
        )
        count, freed = 0, 0
        while count < len(rows) and freed < size:
            freed += max(rows[count].size, 0)
            count += 1
        with suppress(Problem):
            await delete(self.driver, rows[:count])

    def make_transfer(self, name: str) -> Callable[..., Any]:
        """Return an operation that gives an entry another path, and keeps the file that it replaces."""
        operation = getattr(type(self.driver), name)

        async def transfer(path: TreePath, target: TreePath, *, overwrite: bool = True, **options: Any) -> None:
            if not overwrite or path == target:
                await operation(self.driver, path, target, overwrite=overwrite, **options)
                return
            source = await self.driver.stat(path)
            async with self.replacing(target) as keep:
                if not source.is_dir:
                    await keep()
                await operation(self.driver, path, target, overwrite=overwrite, **options)

        return transfer

    def make_copy_from(self) -> Callable[..., Any]:
        """Return the operation that copies many files. It copies files that may replace others one after the other."""
        operation = type(self.driver).copy_from
        Results = Sequence[StorageProblem | None] | None

        async def replace(source: Driver, file: CopyRequest) -> Results:
            results: Results = None
            with suppress(_CopyFailed):
                async with self.replacing(file.target) as keep:
                    await keep()
                    results = await operation(self.driver, source, [file])
                    if results is None or results[0] is not None:
                        raise _CopyFailed
            return results

        async def copy_from(source: Driver, files: Sequence[CopyRequest]) -> Results:
            if not any(file.overwrite for file in files):
                return await operation(self.driver, source, files)
            copied: list[StorageProblem | None] = []
            for file in files:
                results = await (replace(source, file) if file.overwrite else operation(self.driver, source, [file]))
                if results is None:
                    return None
                copied += results
            return copied

        return copy_from


async def _call_at_end(body: AsyncIterator[bytes], call: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
    async for chunk in body:
        yield chunk
    await call()


async def settle(driver: Driver, record: TrashEntry) -> None:
    """Update the record of an entry to the state of the storage: the entry is in the trash, or it is not."""
    if driver.capabilities.versions:
        was_removed = await driver.find_removed(TreePath(record.path), record.removed)
        if was_removed:
            await asyncio.to_thread(trash.finish, record)
        else:
            await asyncio.to_thread(trash.forget, [record])
        return
    try:
        await driver.stat(get_path(record))
    except EntryNotFound:
        await driver.remove(get_folder(record))
        await asyncio.to_thread(trash.forget, [record])
        return
    if await has_both_paths(driver, record):
        await driver.remove(get_folder(record))
        await asyncio.to_thread(trash.forget, [record])
    else:
        await asyncio.to_thread(trash.finish, record)


async def has_both_paths(driver: Driver, record: TrashEntry) -> bool:
    """True if a file of the trash is also at its old path, because its replacement did not happen."""
    if record.is_dir or not driver.capabilities.identify:
        return False
    try:
        return bool(await driver.identify(get_path(record)) & await driver.identify(TreePath(record.path)))
    except EntryNotFound:
        return False


async def delete(driver: Driver, records: Sequence[TrashEntry]) -> None:
    """Delete kept entries permanently."""
    if not records:
        return
    await asyncio.to_thread(trash.add_intents, records, Action.DELETE)
    pass_checkpoint("trash.deleting")
    for record in records:
        await delete_content(driver, record)
        await asyncio.to_thread(trash.forget, [record])


async def delete_content(driver: Driver, record: TrashEntry) -> None:
    """Delete the bytes of a kept entry. Raise OutOfTime if a storage that removes entries one by one takes long."""
    if driver.capabilities.versions:
        await driver.purge_removed(TreePath(record.path), record.removed)
    else:
        await driver.remove(get_folder(record))
