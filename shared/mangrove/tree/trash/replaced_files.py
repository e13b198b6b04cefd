"""The files that a batch of copies or uploads replaces: kept together before it, and recorded together after it.

Each step is one call for all files: their entries, the intents, the second paths in the trash, the batch, the records.
A file is at its old path or in the trash at any time, as when it is replaced alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import finish_despite_cancel, gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, InUse, NotAFolder, StorageProblem
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.part_names import TRASH_FOLDER
from mangrove.records import trash
from mangrove.records.trash import Action, TrashEntry
from mangrove.tree.lock_leases import NameLock, open_lock
from mangrove.tree.trash.content import get_path, try_to_settle

SETTLE_CONCURRENCY = 16  # files whose replacement failed

Result = TypeVar("Result")
Replace = Callable[[Sequence[int], Collection[int]], Awaitable[Sequence[Result]]]
"""Stores the files of these indexes in one call. Those of the second argument must not replace a file."""


class Keeper(Protocol):
    """The trash of a storage."""

    driver: Driver
    """The storage itself."""

    def describe_replaced(self, path: TreePath, entry: Entry) -> TrashEntry | None:
        """Return the record of a file that will be replaced, None if it is not kept."""

    def name_lock(self, path: TreePath) -> str:
        """Return the name of the lock under which a file is replaced."""

    async def finish_replacements(self, records: Sequence[TrashEntry]) -> None:
        """Record that files are in the trash, and others at their paths."""


class ReplacedFiles:
    """The files at the paths of a batch, by their indexes."""

    def __init__(self, keeper: Keeper, paths: Mapping[int, TreePath]) -> None:
        self._keeper = keeper
        self._paths = paths
        self._records: dict[int, TrashEntry] = {}  # of the files that also have a path in the trash
        self._free: set[int] = set()  # paths without a file
        self._alone: set[int] = set()  # those to be replaced one by one

    async def keep(self, lock: NameLock) -> None:
        """Give the files that will be replaced a second path, in the trash. Lock their paths before.

        Raise InUse if one of them is locked for too long.
        """
        first = {path: index for index, path in reversed([*self._paths.items()])}
        self._alone.update(set(self._paths) - set(first.values()))  # a second file for the path of another one
        records = await self._describe([*first.values()])
        if records and await self._keeper.driver.can_refuse_existing():  # otherwise the caller has locked them
            await lock.take(sorted(self._keeper.name_lock(self._paths[index]) for index in records))
            records = await self._describe([*records])
        if records:
            await self._set_aside(records)
            pass_checkpoint("trash.kept")

    async def _describe(self, indexes: Sequence[int]) -> dict[int, TrashEntry]:
        """Return the records of the files that are to be kept."""
        records: dict[int, TrashEntry] = {}
        entries = await self._keeper.driver.stat_many([self._paths[index] for index in indexes])
        for index, entry in zip(indexes, entries, strict=True):
            if isinstance(entry, EntryNotFound | NotAFolder):
                self._free.add(index)
            elif isinstance(entry, StorageProblem):
                self._alone.add(index)  # which tells the reason
            elif (record := self._keeper.describe_replaced(self._paths[index], entry)) is not None:
                records[index] = record
        return records

    async def _set_aside(self, records: Mapping[int, TrashEntry]) -> None:
        driver = self._keeper.driver
        await asyncio.to_thread(trash.add_intents, [*records.values()], Action.MOVE)
        self._records.update(records)
        await driver.makedirs(TRASH_FOLDER)
        pass_checkpoint("trash.intended")
        files = [(self._paths[index], get_path(record)) for index, record in records.items()]
        results = dict(zip(records, await driver.set_many_aside(files), strict=True))
        await self._drop([index for index, result in results.items() if isinstance(result, StorageProblem)])
        unkept = [index for index, result in results.items() if result is False]
        await asyncio.to_thread(trash.forget, [self._records.pop(index) for index in unkept])
        self._alone.update(index for index, result in results.items() if result is not True)

    async def _drop(self, indexes: Collection[int]) -> None:
        """Settle the records of files that were not replaced, so that they are not in the trash."""
        records = [self._records.pop(index) for index in indexes]
        await gather_bounded(
            [partial(try_to_settle, self._keeper.driver, record) for record in records], SETTLE_CONCURRENCY
        )

    async def replace(self, count: int, replace: Replace[Result]) -> dict[int, Result]:
        """Store the files of the batch, of which there are `count`.

        Return the results, without those of files that have to be stored one by one.
        """
        together = [index for index in range(count) if index not in self._alone]
        results = dict(zip(together, await finish_despite_cancel(replace(together, self._free)), strict=True))
        failed = {index for index, result in results.items() if isinstance(result, StorageProblem)}
        await self._drop(failed & self._records.keys())
        pass_checkpoint("trash.replaced")
        await finish_despite_cancel(self._keeper.finish_replacements([*self._records.values()]))
        self._records.clear()
        taken = {index for index in failed & self._free if isinstance(results[index], EntryExists)}
        return {index: result for index, result in results.items() if index not in taken}

    async def undo(self) -> None:
        """Settle the records after a failure of the whole batch: each file was replaced, or was not."""
        await self._drop([*self._records])


async def replace_many(
    keeper: Keeper,
    paths: Sequence[TreePath | None],
    replace: Replace[Result],
    replace_alone: Callable[[int], Awaitable[Result]],
) -> list[Result]:
    """Store many files, and keep those that they replace. `paths`: those of the files, None if one must not replace."""
    files = ReplacedFiles(keeper, {index: path for index, path in enumerate(paths) if path is not None})
    try:
        results = await _replace_together(files, len(paths), replace)
    except InUse:
        results = {}  # each file waits for its own path
    return [results[index] if index in results else await replace_alone(index) for index in range(len(paths))]


async def _replace_together(files: ReplacedFiles, count: int, replace: Replace[Result]) -> dict[int, Result]:
    async with open_lock() as lock:
        try:
            await files.keep(lock)
            return await files.replace(count, replace)
        except BaseException:
            await finish_despite_cancel(files.undo())
            raise
