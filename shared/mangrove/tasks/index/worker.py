"""The machine that indexes a storage: Plan says what to read, Walk reads folders, Settle lays them over the index.

The index that was there stays the present one until Settle swaps it. What a step has read is a file of names and one
of folders in the index's store, before the cursor says so; the folders to be read are a list in staging.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from typing import NamedTuple, TypeVar, TypeVarTuple, Unpack

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
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
from mangrove.records import index_changes
from mangrove.records.index_changes import MAX_WRITE_DELAY_SECONDS, ChangeKind
from mangrove.search import writing
from mangrove.search.scope import IndexScope, find_child
from mangrove.search.segments import Manifest, Segments
from mangrove.search.writing import FolderWriter, SegmentWriter
from mangrove.tasks.index import parts as index_parts
from mangrove.tasks.index.declaration import IndexCursor, IndexSpec
from mangrove.tasks.index.lists import (
    ALL,
    Folder,
    IndexRun,
    RequestedRead,
    get_store,
    is_wanted,
    open_base,
    open_failed,
    open_folders,
    open_reads,
    write_all,
)
from mangrove.tasks.index.reading import FolderReader
from mangrove.tree import mounts
from mangrove.tree.mounts import Mount
from mangrove.tree.operations.change_log import INTENT_EXPIRY_SECONDS

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
STEP_SECONDS = 30.0  # on one machine: each step makes two files, which Settle joins
MOST_ASKED = 2000  # folders, whether the index knows them
BATCH = 64  # folders between two looks at the time
SAVE_SECONDS = 2.0  # between two looks of clients at how far it came
BUSY = 0.3  # of the time the event loop works when it works for others, too
LONGEST_PAUSE = 1.0
MAX_READS = 10_000  # folders that changes ask for; for more the whole storage is read
MERGED_SECONDS = 2 * MAX_WRITE_DELAY_SECONDS  # the age of a change that a run merges: no earlier one may come after it
KEPT_ERRORS = 3  # folders named in the task's error


async def plan(run: IndexRun) -> bool:
    """Write down the folders to begin with: the root, or in an update those that are marked or asked for."""
    if run.cursor.attempt == run.task.attempt and run.cursor.generation:
        return False
    last = run.cursor
    cursor = run.cursor = IndexCursor(
        attempt=run.task.attempt, generation=token_hex(6), began=time.time(), indexed=last.indexed,
        finished=last.finished,
    )  # fmt: skip
    cursor.is_wanted = await is_wanted(run.spec.storage_id)
    if run.spec.is_drop or not cursor.is_wanted:
        return False
    manifest = await get_store().read_manifest(run.spec.storage_id)
    cursor.is_whole = not (run.spec.is_update and manifest is not None and not manifest.partial)
    cursor.merged = index_changes.make_number(cursor.began - MERGED_SECONDS)
    reads = await asyncio.to_thread(_find_reads, run.spec.storage_id, cursor)
    cursor.read_count = await write_all(open_reads(run, 0), reads)
    is_too_much = len(reads) > MAX_READS
    roots = [Folder("/", ALL)] if cursor.is_whole or is_too_much else _choose_roots(run.spec, reads)
    cursor.root_count = cursor.folder_count = await write_all(open_folders(run, 0), roots)
    cursor.walked = not roots  # only changes are merged
    pass_checkpoint("index.planned")
    return False


def _find_reads(storage_id: int, cursor: IndexCursor) -> list[RequestedRead]:
    """The changes that ask for folders to be read, and the intents of processes that died."""
    expired = index_changes.make_number(cursor.began - INTENT_EXPIRY_SECONDS)
    return [
        RequestedRead(change.number, change.path, change.deep)
        for change in index_changes.read_of(storage_id)
        if change.kind is ChangeKind.READ or (change.kind is ChangeKind.INTENT and change.number <= expired)
    ]


def _choose_roots(spec: IndexSpec, reads: Sequence[RequestedRead]) -> list[Folder]:
    """Each folder once; those below one that is read with all below it are left out."""
    asked: dict[str, int] = {}
    wanted = [(path, spec.levels) for path in spec.paths] + [(read.path, ALL if read.deep else 0) for read in reads]
    for path, levels in wanted:
        old = asked.get(path, 0)
        asked[path] = ALL if ALL in (old, levels) else max(old, levels)
    deep = {path for path, levels in asked.items() if levels == ALL}
    return [
        Folder(path, levels)
        for path, levels in asked.items()
        if deep.isdisjoint(TreePath(path).ancestors()[1:])
    ]  # fmt: skip


async def walk(run: IndexRun) -> bool:
    """Read what is next; whether there is more."""
    cursor = run.cursor
    if cursor.walked or not cursor.folder_count:
        return False
    mount = (await mounts.ready()).by_id.get(run.spec.storage_id)
    if mount is None or not await is_wanted(run.spec.storage_id):
        return False
    driver = await mount.get_driver()
    if not driver.config.is_indexed:
        return False
    base = None if cursor.is_whole else await open_base(run)
    if not await index_parts.take_over(run):
        return True
    await read_step(run, mount, driver, base)
    if cursor.position >= cursor.folder_count:
        return _end_walk(run)
    await _publish(run)
    if index_parts.is_to_be_divided(run, cursor.folder_count - cursor.position):
        index_parts.divide(run)
    return True


async def _publish(run: IndexRun) -> None:
    """Let searches find what was read so far, where there is no index yet."""
    cursor, store = run.cursor, get_store()
    if not cursor.is_whole or any(cursor.shifts):
        return
    manifest = await store.read_manifest(run.spec.storage_id)
    if manifest is None or manifest.partial:
        partial = Manifest(
            names=cursor.files, folders=cursor.folder_files, count=cursor.count, folder_count=cursor.position,
            began=cursor.began, finished="", partial=True,
        )  # fmt: skip
        await store.commit(run.spec.storage_id, partial)


async def read_step(run: IndexRun, mount: Mount, driver: Driver, base: Segments | None) -> None:
    """Read folders until the time is over; the cursor says what came of it."""
    with_files = _Walk(run, mount, driver, base)
    try:
        await with_files.begin()
        await with_files.read()
        await with_files.store()
    finally:
        with_files.close()


def _end_walk(run: IndexRun) -> bool:
    cursor = run.cursor
    cursor.walked = True
    if cursor.failed_count:
        folders = "folder is" if cursor.failed_count == 1 else "folders are"
        run.view.error = f"{cursor.failed_count} {folders} not read: {'; '.join(cursor.errors)}"
    return False


class _Batch(NamedTuple):
    """Some folders, one after the other in the list of those to be read; `failed`: numbers among them."""

    first: int
    rows: Sequence[Folder]
    paths: Sequence[TreePath]
    failed: set[int]


class _Walk:
    """One step: what it has read counts once it is stored."""

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
        self._reader = FolderReader(driver)
        self._thread = ThreadPoolExecutor(1, "index")
        name = f"{cursor.generation}-{len(cursor.files)}-{token_hex(3)}"
        work = get_store().make_work_folder(run.spec.storage_id)
        self._names = SegmentWriter(work, f"names-{name}")
        self._walked = FolderWriter(work, f"folders-{name}")

    async def begin(self) -> None:
        """Read what the walk began with."""
        if not self._run.cursor.is_whole:
            while len(self._roots) < self._run.cursor.root_count:
                rows = await self._folders.read_rows(len(self._roots))
                self._roots |= {row.path for row in rows[: self._run.cursor.root_count - len(self._roots)]}

    def close(self) -> None:
        """Remove what is not stored."""
        self._thread.shutdown(wait=True)
        self._names.close()
        self._walked.close()

    async def read(self) -> None:
        """Read folders until the time is over or there are none left."""
        while rows := await self._folders.read_rows(self._position):
            for start in range(0, len(rows), BATCH):
                await self._read_batch(rows[start : start + BATCH])
                self._run.cursor.seen = self._run.cursor.count + self._names.count
                waiting = self._folders.count - self._position
                if not self._run.has_time() or index_parts.is_to_be_divided(self._run, waiting):
                    return
                if time.monotonic() - self._saved > SAVE_SECONDS:
                    await self._run.save()
                    self._saved = time.monotonic()

    async def _read_batch(self, rows: Sequence[Folder]) -> None:
        """Read some folders, and write down which are to be read because of them."""
        began, used = time.monotonic(), time.thread_time()
        first = self._position + self._run.cursor.shift
        batch = _Batch(first, rows, [TreePath(row.path) for row in rows], set())
        wanted = [at for at, path in enumerate(batch.paths) if self._is_read(self._mount.path / path)]
        paths = [batch.paths[at] for at in wanted]

        async def take(found: Sequence[FolderBatch]) -> None:
            await self._take(batch, [one._replace(number=wanted[one.number]) for one in found])

        await self._reader.read(paths, take)
        read = [(first + at, row.path) for at, row in enumerate(rows) if at not in batch.failed]
        await self._run_in_thread(self._walked.add, read)
        self._position += len(rows)
        await self._give_way(time.monotonic() - began, time.thread_time() - used)

    async def _give_way(self, worked: float, used: float) -> None:
        """Leave half of the time to others when nobody waits for this, or while the event loop, which this itself
        hardly uses, has others to work for."""
        if self._run.spec.is_gentle or used > BUSY * worked:
            await asyncio.sleep(min(worked, LONGEST_PAUSE))

    async def _take(self, batch: _Batch, found: Sequence[FolderBatch]) -> None:
        """Write down what is in folders. One that is gone by now is empty."""
        for one in found:
            path, problem = batch.paths[one.number], one.problem
            if problem is None or (isinstance(problem, EntryNotFound | NotAFolder) and path != "/"):
                continue
            if path == "/" or isinstance(problem, Unreachable | StorageUnavailable | NotMounted):
                raise problem
            await self._note_failure(path, problem)
            batch.failed.add(one.number)
        below = await self._run_in_thread(self._write, batch, found)
        for number, paths in below:
            await self._add(batch.rows[number], paths)

    async def _run_in_thread(self, function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def _write(self, batch: _Batch, found: Sequence[FolderBatch]) -> list[tuple[int, list[str]]]:
        """Write entries, in the thread; the paths of the folders among them, by the number of the folder above."""
        below: list[tuple[int, list[str]]] = []
        for one in found:
            path = batch.paths[one.number]
            chosen = self._scope.select(self._mount.path / path, one.entries)
            self._names.add(batch.first + one.number, chosen)
            children = [find_child(path, entry.name) for entry in chosen if entry.is_dir and not entry.is_link]
            if children:
                below.append((one.number, [str(child) for child in children if child is not None]))
        return below

    async def _add(self, above: Folder, paths: Sequence[str]) -> None:
        """Write down the folders that are to be read of those found in another one."""
        levels = above.levels - 1 if above.levels > 0 else ALL
        for start in range(0, len(paths), MOST_ASKED):
            some = paths[start : start + MOST_ASKED]
            if above.levels == 0 and self._base is not None:
                known = await writing.find_known_folders(self._base, some)
                some = [path for path in some if path not in known]
            async with self._adding:
                for path in some:
                    if path not in self._roots:
                        await self._folders.append(Folder(path, levels))

    def _is_read(self, folder: TreePath) -> bool:
        """Whether a folder is to be indexed; an alias that shows itself is read once."""
        if not self._scope.has_folder(folder):
            return False
        if self._mount.redirects is None:
            return True
        shown = self._mount.redirects.find_targets(folder.below(self._mount.path))
        return not any(target.within(self._mount.path) for target in shown)

    async def _note_failure(self, path: TreePath, problem: StorageProblem) -> None:
        await self._failed.append(str(path))
        if len(self._errors) < KEPT_ERRORS:
            self._errors.append(f"{path}: {problem.message}")

    async def store(self) -> None:
        """Keep what was read, then move the cursor."""
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
