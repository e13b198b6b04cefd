"""Folders of a storage, listed for a walk: many with one call where the storage can do that, else some at once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import islice

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Driver, FolderBatch
from mangrove.tasks.core.file_copy import gather_all

AT_ONCE = 8  # calls
SLOW_SECONDS = 0.0001  # for a folder or a name in it: who takes as long waits for a disk or a server

Take = Callable[[Sequence[FolderBatch]], Awaitable[None]]


class FolderReader:
    """Lists folders of one storage. One that answers from memory is asked with one call at a time: threads that only
    wait for each other, and for the interpreter, take several times as long as one of them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._at_once = 1 if driver.capabilities.list_folders else AT_ONCE
        self._handed_over = 0  # folders and entries of them

    async def read(self, paths: Sequence[TreePath], take: Take) -> None:
        """Hand over what is in folders, which are numbered as in `paths`. What `take` raises ends it."""
        began, before = time.monotonic(), self._handed_over
        waiting = iter(range(len(paths)))
        await gather_all(self._read_next(paths, waiting, take) for _ in range(self._at_once))
        if time.monotonic() - began > SLOW_SECONDS * (self._handed_over - before):
            self._at_once = AT_ONCE

    async def _read_next(self, paths: Sequence[TreePath], waiting: Iterator[int], take: Take) -> None:
        """List what others have not begun with, until there is nothing left."""
        portion = -(-len(paths) // self._at_once) if self._driver.capabilities.list_folders else 1
        while numbers := list(islice(waiting, portion)):
            async for found in self._list([paths[number] for number in numbers]):
                self._handed_over += sum(len(one.entries) + 1 for one in found)
                await take([one._replace(number=numbers[one.number]) for one in found])

    async def _list(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        if self._driver.capabilities.list_folders:
            async for found in self._driver.list_folders(paths):
                yield found
            return
        for number, path in enumerate(paths):
            try:
                async for entries in self._driver.list(path):
                    yield [FolderBatch(number, entries)]
            except StorageProblem as problem:
                yield [FolderBatch(number, (), problem)]
