"""One step of the walk through a storage: read folders, and write their names to a file of the index's store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from secrets import token_hex
from typing import NamedTuple, TypeVar, TypeVarTuple, Unpack

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import gather_all
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryNotFound,
    NotAFolder,
    NotMounted,
    StorageProblem,
    StorageUnavailable,
    Unreachable,
)
from mangrove.drivers.base import Driver, FolderBatch
from mangrove.search import folding, writing
from mangrove.search.scope import IndexScope, find_child
from mangrove.search.segments import Segments
from mangrove.search.writing import FolderWriter, SegmentWriter
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, SAVE_INTERVAL_SECONDS
from mangrove.tasks.index.lists import (
    ALL_LEVELS,
    Folder,
    IndexRun,
    get_store,
    is_to_be_divided,
    open_failed,
    open_folders,
)
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import Mount

LIST_CONCURRENCY = 8  # concurrent calls
MAX_MEMORY_LISTING_SECONDS = 0.0001  # per folder or name; a storage that takes longer waits for a disk or a server
MAX_LOOKED_UP_FOLDERS = 2000  # per query of the index
MAX_BATCH_FOLDERS = 64  # between two checks of the time
BUSY_SHARE = 0.3  # share of the time with work of others in the event loop; above it, the walk leaves time to them
MIN_WORK_SECONDS = 0.01  # between two pauses
MAX_PAUSE_SECONDS = 1.0
LISTING_PAUSE_FACTOR = 9.0  # of the time that it worked, for which it waits for folders that users wait for

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
Take = Callable[[Sequence[FolderBatch]], Awaitable[None]]


class FolderReader:
    """A lister of folders of a storage.

    A storage that answers from memory gets one call at a time: threads that wait for each other and for the interpreter
    take several times as long as a single one.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._concurrency = 1 if driver.capabilities.list_folders else LIST_CONCURRENCY
        self._read_count = 0  # folders and their entries

    async def read(self, paths: Sequence[TreePath], take: Take) -> None:
        """Pass the entries of folders to `take`, each folder by its index in `paths`."""
        began, before = time.monotonic(), self._read_count
        waiting = iter(range(len(paths)))
        await gather_all(self._read_next(paths, waiting, take) for _ in range(self._concurrency))
        if time.monotonic() - began > MAX_MEMORY_LISTING_SECONDS * (self._read_count - before):
            self._concurrency = LIST_CONCURRENCY

    async def _read_next(self, paths: Sequence[TreePath], waiting: Iterator[int], take: Take) -> None:
        """List folders that no other call has started with, until none are left."""
        size = -(-len(paths) // self._concurrency) if self._driver.capabilities.list_folders else 1
        while numbers := list(islice(waiting, size)):
            async for batches in self._list([paths[number] for number in numbers]):
                self._read_count += sum(len(batch.entries) + 1 for batch in batches)
                await take([batch._replace(number=numbers[batch.number]) for batch in batches])

    async def _list(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        if self._driver.capabilities.list_folders:
            async for batches in self._driver.list_folders(paths):
                yield batches
            return
        for number, path in enumerate(paths):
            try:
                async for entries in self._driver.list(path):
                    yield [FolderBatch(number, entries)]
            except StorageProblem as problem:
                yield [FolderBatch(number, (), problem)]


async def read_step(run: IndexRun, mount: Mount, driver: Driver, base: Segments | None) -> None:
    """Read folders until the time is over, then count them in the cursor."""
    walk = _Walk(run, mount, driver, base)
    try:
        await walk.begin()
        await walk.read()
        await walk.store()
    finally:
        walk.close()


class _Rows(NamedTuple):
    """Consecutive folders of the list that are read together."""

    first_id: int
    folders: Sequence[Folder]
    paths: Sequence[TreePath]
    failed: set[int]
    """The indexes of those that could not be read."""


class _Walk:
    """A step. The folders that it reads count once their names are stored."""

    def __init__(self, run: IndexRun, mount: Mount, driver: Driver, base: Segments | None) -> None:
        cursor = run.cursor
        self._run, self._mount, self._base = run, mount, base
        self._scope = IndexScope.make(configuration.cached().settings)
        self._folders = open_folders(run, cursor.folder_count)
        self._failed = open_failed(run, cursor.failed_count)
        self._errors = list(cursor.errors)
        self._position = cursor.position
        self._roots: set[str] = set()
        self._saved = time.monotonic()
        self._adding = asyncio.Lock()
        self._pausing = asyncio.Lock()
        self._began, self._used = time.monotonic(), time.thread_time()  # at the end of the last pause
        self._reader = FolderReader(driver)
        self._thread = ThreadPoolExecutor(1, "index")
        name = f"{cursor.generation}-{len(cursor.files)}-{token_hex(3)}"
        work = get_store().make_work_folder(run.spec.storage_id)
        self._names = SegmentWriter(work, f"names-{name}")
        self._walked = FolderWriter(work, f"folders-{name}")

    async def begin(self) -> None:
        """Read the folders with which an update began."""
        if not self._run.cursor.is_whole:
            while len(self._roots) < self._run.cursor.root_count:
                rows = await self._folders.read_rows(len(self._roots))
                self._roots |= {row.path for row in rows[: self._run.cursor.root_count - len(self._roots)]}

    def close(self) -> None:
        """Remove unfinished files."""
        self._thread.shutdown(wait=True)
        self._names.close()
        self._walked.close()

    async def read(self) -> None:
        """Read folders until the time is over or none are left."""
        while folders := await self._folders.read_rows(self._position):
            for start in range(0, len(folders), MAX_BATCH_FOLDERS):
                await self._read_batch(folders[start : start + MAX_BATCH_FOLDERS])
                self._run.cursor.seen = self._run.cursor.count + self._names.count
                if not self._run.has_time() or is_to_be_divided(self._run, self._folders.count - self._position):
                    return
                if time.monotonic() - self._saved > SAVE_INTERVAL_SECONDS:
                    await self._run.save()
                    self._saved = time.monotonic()

    async def _read_batch(self, folders: Sequence[Folder]) -> None:
        """Read folders, and list their subfolders that are to be read."""
        first_id = self._position + self._run.cursor.shift
        rows = _Rows(first_id, folders, [TreePath(folder.path) for folder in folders], set())
        indexes = [index for index, path in enumerate(rows.paths) if self._is_read(self._mount.path / path)]

        async def take(batches: Sequence[FolderBatch]) -> None:
            await self._take(rows, [batch._replace(number=indexes[batch.number]) for batch in batches])
            async with self._pausing:
                await self._give_way()

        await self._reader.read([rows.paths[index] for index in indexes], take)
        read = [(first_id + index, row.path) for index, row in enumerate(folders) if index not in rows.failed]
        await self._run_in_thread(self._walked.add, read)
        self._position += len(folders)

    async def _give_way(self) -> None:
        """Leave half of the time to others if no user waits for this, or while the event loop works for others. Leave
        most of it to the folders that users wait for.

        The walk itself hardly uses the event loop.
        """
        worked, used = time.monotonic() - self._began, time.thread_time() - self._used
        if worked < MIN_WORK_SECONDS:
            return
        if self._run.spec.is_gentle:
            await listings().wait_for_reads(min(LISTING_PAUSE_FACTOR * worked, MAX_PAUSE_SECONDS))
        if self._run.spec.is_gentle or used > BUSY_SHARE * worked:
            await asyncio.sleep(min(worked, MAX_PAUSE_SECONDS))
        self._began, self._used = time.monotonic(), time.thread_time()

    async def _take(self, rows: _Rows, batches: Sequence[FolderBatch]) -> None:
        """Write the entries of folders. A folder that does not exist any more is empty."""
        for batch in batches:
            path, problem = rows.paths[batch.number], batch.problem
            if problem is None or (isinstance(problem, EntryNotFound | NotAFolder) and path != "/"):
                continue
            if path == "/" or isinstance(problem, Unreachable | StorageUnavailable | NotMounted):
                raise problem
            await self._failed.append(str(path))
            if len(self._errors) < MAX_NAMED_FAILURES:
                self._errors.append(f"{path}: {problem.message}")
            rows.failed.add(batch.number)
        for index, paths in await self._run_in_thread(self._write, rows, batches):
            await self._add(rows.folders[index], paths)

    async def _run_in_thread(self, function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def _write(self, rows: _Rows, batches: Sequence[FolderBatch]) -> list[tuple[int, list[str]]]:
        """Write entries, in the thread. Return the paths of the folders among them, by the index of their parent."""
        below: list[tuple[int, list[str]]] = []
        for batch in batches:
            path = rows.paths[batch.number]
            entries = self._scope.select(self._mount.path / path, batch.entries)
            self._names.add(rows.first_id + batch.number, entries)
            children = [find_child(path, entry.name) for entry in entries if entry.is_dir and not entry.is_link]
            if children:
                below.append((batch.number, [str(child) for child in children if child is not None]))
        return below

    async def _add(self, parent: Folder, paths: Sequence[str]) -> None:
        """List the folders of a parent that are to be read."""
        levels = parent.levels - 1 if parent.levels > 0 else ALL_LEVELS
        for start in range(0, len(paths), MAX_LOOKED_UP_FOLDERS):
            batch = paths[start : start + MAX_LOOKED_UP_FOLDERS]
            if parent.levels == 0 and self._base is not None:
                known = await folding.find_known_folders(self._base, batch)
                batch = [path for path in batch if path not in known]
            async with self._adding:
                for path in batch:
                    if path not in self._roots:
                        await self._folders.append(Folder(path, levels))

    def _is_read(self, folder: TreePath) -> bool:
        """True if a folder is to be indexed. An alias that shows itself is read once."""
        if not self._scope.has_folder(folder):
            return False
        if self._mount.redirects is None:
            return True
        targets = self._mount.redirects.find_targets(folder.below(self._mount.path))
        return not any(target.within(self._mount.path) for target in targets)

    async def store(self) -> None:
        """Store the names that were read, then advance the cursor."""
        run, cursor, store = self._run, self._run.cursor, get_store()
        await self._folders.flush()
        await self._failed.flush()
        names, walked = await writing.finish(self._names, self._walked)
        pass_checkpoint("index.written")
        for file in (names, walked):
            await store.store(run.spec.storage_id, file)
        cursor.files.append(names.name)
        cursor.folder_files.append(walked.name)
        cursor.shifts.append(0)
        cursor.count = cursor.seen = cursor.count + self._names.count
        cursor.position, cursor.folder_count = self._position, self._folders.count
        cursor.failed_count, cursor.errors = self._failed.count, self._errors
