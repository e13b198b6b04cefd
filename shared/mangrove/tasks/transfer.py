"""The machine that copies: uploads, copies and moves between storages.

Plan writes down what there is to copy, Move copies it in order, Settle says how it ended. The rights of the owner are
looked up anew by every slice.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TypeAlias

from mangrove.checkpoints import pass_checkpoint
from mangrove.drivers.base import CopiesFrom, CopyRequest, Driver, Entry, MakesDirectories, Removes, RemovesEmpty
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Denied, Exists, NotFound, NotSupported, Problem, StorageProblem, Unreachable
from mangrove.tasks import authorization, file_copy, manifest, staging
from mangrove.tasks.endpoints import Endpoint, TargetListing, are_same_entry, have_same_bytes
from mangrove.tasks.kinds import DELETE_POLICIES, State
from mangrove.tasks.manifest import Manifest, ManifestEntry
from mangrove.tasks.routes import TransferRoute, find_route
from mangrove.tasks.specs import SourceVersion, TransferCursor, TransferSpec
from mangrove.tasks.steps import Run
from mangrove.tree import mounts
from mangrove.tree.changes import forget_upwards
from mangrove.tree.mounts import select_mount

SMALL = 4 << 20  # bytes; smaller files are copied several at once
AT_ONCE = 16
BATCH = 256
SAVE_SECONDS = 0.5
SAME = "the source and the target are the same"
KEPT_ERRORS = 3  # failed items named in the task's error

TransferRun: TypeAlias = Run[TransferSpec, TransferCursor]


async def plan(run: TransferRun) -> bool:
    """Write down every entry below the source, folders before what they hold; more while there are folders left."""
    cursor = run.cursor
    if cursor.planned:
        if cursor.attempt != run.task.attempt:
            _plan_retry(run)
        return False
    route = await find_route(run)
    if not cursor.entry_count:
        run.view.status = "getting src object"
        if route.access is None:
            await authorization.make_target_folder(route.target)
    return await write_manifest(run, route)


def _plan_retry(run: TransferRun) -> None:
    """The next run of a planned task: what failed, then what was not reached."""
    cursor = run.cursor
    cursor.attempt = run.task.attempt
    if cursor.position >= cursor.entry_count and cursor.failed_count:
        cursor.round += 1
        cursor.entry_count, cursor.position, cursor.failed_count = cursor.failed_count, 0, 0
    cursor.errors = []


@dataclass(slots=True)
class _Plan:
    """The lists that a plan fills; `total` bytes, as far as sizes are known."""

    entries: Manifest[ManifestEntry]
    folders: Manifest[str]
    total: int

    async def add(self, path: str, entry: Entry) -> None:
        """Write an entry down."""
        await self.entries.append(ManifestEntry.of(path, entry))
        if entry.is_dir:
            await self.folders.append(path)
        else:
            self.total += entry.size or 0


async def write_manifest(run: TransferRun, route: TransferRoute) -> bool:
    """Write down what is below the source of `route`, from where the cursor says; whether there is more."""
    cursor = run.cursor
    lists = _Plan(
        manifest.open_entries(run.task.id, 0, cursor.entry_count),
        manifest.open_folders(run.task.id, cursor.folder_count),
        cursor.total,
    )
    if not cursor.entry_count:
        entry = await route.source.driver.stat(route.source.path)
        if route.access is not None and route.source.path == "/":
            raise StorageProblem("the root of a storage cannot be carried")
        await lists.add("", entry)
        _count(cursor, lists)
    try:
        while cursor.folders_walked < lists.folders.count:
            for name in await lists.folders.read_rows(cursor.folders_walked):
                await _walk_folder(route, name, lists)
                cursor.folders_walked += 1
                _count(cursor, lists)
                if not run.has_time():
                    return True
    finally:
        await lists.entries.flush()
        await lists.folders.flush()
    run.view.total_bytes = cursor.total
    cursor.planned, cursor.attempt = True, run.task.attempt
    return False


def _count(cursor: TransferCursor, lists: _Plan) -> None:
    cursor.entry_count, cursor.folder_count, cursor.total = lists.entries.count, lists.folders.count, lists.total


async def _walk_folder(route: TransferRoute, name: str, lists: _Plan) -> None:
    """Write down what a folder holds and the caller may see."""
    access = route.access.child(name) if route.access is not None and name else route.access
    visible = access.make_visibility_filter() if access is not None else None
    if access is not None and name and access.is_mount_or_ancestor():
        return
    async for batch in route.source.driver.list((route.source / name).path):
        for entry in batch:
            if not entry.is_link and (visible is None or visible.passes(entry)):
                await lists.add(f"{name}/{entry.name}".lstrip("/"), entry)


@dataclass(slots=True)
class _Move:
    """One slice of Move."""

    run: TransferRun
    route: TransferRoute
    failed: Manifest[ManifestEntry]
    listing: TargetListing
    saved: float = field(default_factory=time.monotonic)

    @property
    def target(self) -> Endpoint:
        return self.route.target.endpoint

    @property
    def is_move(self) -> bool:
        return self.run.task.kind == "move"

    async def save(self) -> None:
        """Save, with the progress so far."""
        self.run.show_progress(self.run.cursor.bytes_done)
        await self.run.save()
        self.saved = time.monotonic()


async def move(run: TransferRun) -> bool:
    """Copy what is next; more while there is something left and, after a move, folders to remove."""
    route, cursor = await find_route(run), run.cursor
    run.view.status = "uploading"
    entries = manifest.open_entries(run.task.id, cursor.round, cursor.entry_count)
    failed = manifest.open_entries(run.task.id, cursor.round + 1, cursor.failed_count)
    work = _Move(run, route, failed, TargetListing(route.target.endpoint.driver))
    try:
        while rows := await entries.read_rows(cursor.position):
            for batch in _split_batches(rows):
                try:
                    await _copy_batch(work, batch)
                except file_copy.OutOfTime:
                    return True
                pass_checkpoint("move.batch")
                cursor.position += len(batch)
                if time.monotonic() - work.saved > SAVE_SECONDS or not run.has_time():
                    await work.save()
                if not run.has_time():
                    return True
        await work.save()
    finally:
        forget_upwards(route.target.located)
    if cursor.failed_count:
        failures = "; ".join(cursor.errors)
        raise StorageProblem(f"{cursor.failed_count} of {cursor.entry_count} items failed: {failures}")
    return work.is_move and await _remove_folders(run, route)


def _is_small(row: ManifestEntry) -> bool:
    return not row.is_dir and row.size is not None and row.size <= SMALL


def _split_batches(rows: list[ManifestEntry]) -> list[list[ManifestEntry]]:
    """Small files together, as many as BATCH; folders and other files by themselves."""
    batches: list[list[ManifestEntry]] = []
    open_batch = False
    for row in rows:
        small = _is_small(row)
        if small and open_batch and len(batches[-1]) < BATCH:
            batches[-1].append(row)
        else:
            batches.append([row])
        open_batch = small
    return batches


async def _copy_batch(work: _Move, batch: list[ManifestEntry]) -> None:
    """One batch; an item that fails is named and the others go on. Unreachable ends the slice: it is worth a retry.

    What failed is written down before the cursor goes on: the next worker would never come back to it.
    """
    run, cursor = work.run, work.run.cursor
    limit = asyncio.Semaphore(AT_ONCE)

    async def copy(row: ManifestEntry) -> Problem | None:
        async with limit:
            try:
                await _copy_item(work, row)
            except Unreachable:
                raise
            except (StorageProblem, BadRequest, Denied) as problem:
                await file_copy.drop_partial(run, work.target.driver, (work.target / row.path).path)
                return problem
        return None

    results = await _copy_directly(work, batch)
    left = [index for index, result in enumerate(results) if isinstance(result, Exists)]
    for index, result in zip(left, await file_copy.gather_all(copy(batch[index]) for index in left), strict=True):
        results[index] = result
    for row, problem in zip(batch, results, strict=True):
        if problem is None:
            cursor.bytes_done += 0 if row.is_dir else row.size or 0
            continue
        await work.failed.append(row)
        error = f"{row.path or run.spec.name}: {problem.message}"
        if len(cursor.errors) < KEPT_ERRORS and error not in cursor.errors:
            cursor.errors.append(error)
    if work.failed.count > cursor.failed_count:
        await work.failed.flush()
        cursor.failed_count = work.failed.count


async def _copy_directly(work: _Move, batch: list[ManifestEntry]) -> list[Problem | None]:
    """What happened to the files that the target copied by itself; Exists for all that are to be looked at one by one:
    something is there, or more is to be done than copying small files."""
    driver, route, spec = work.target.driver, work.route, work.run.spec
    rest: list[Problem | None] = [Exists() for _ in batch]
    plain = not work.is_move and not spec.keep_existing and not work.run.cursor.round
    if not plain or not isinstance(driver, CopiesFrom) or not _is_small(batch[0]):
        return rest
    refusals = [route.target.find_refusal(row.path) for row in batch]
    files = [
        CopyRequest(
            (route.source / row.path).path, (work.target / row.path).path, row.size or 0, row.modified, spec.overwrite
        )
        for row, refusal in zip(batch, refusals, strict=True)
        if refusal is None
    ]
    half = len(files) // 2 + 1
    parts = await file_copy.gather_all(
        driver.copy_from(route.source.driver, part) for part in (files[:half], files[half:])
    )
    if parts[0] is None or parts[1] is None:
        return rest
    results = iter([*parts[0], *parts[1]])
    return [next(results) if refusal is None else refusal for refusal in refusals]


async def _copy_item(work: _Move, row: ManifestEntry) -> None:
    """Copy one entry, and of a move remove it at the source."""
    run, spec = work.run, work.run.spec
    refusal = work.route.target.find_refusal(row.path)
    if refusal is not None:
        raise refusal
    source, target = work.route.source / row.path, work.target / row.path
    if row.is_dir:
        await _make_folder(work, source, target)
        return
    try:
        file = row.version
        if run.cursor.round:  # what failed is tried again with the file as it is now
            file = SourceVersion.of(await source.driver.stat(source.path))
        copied = await file_copy.copy_file(
            run, source, target, file, work.listing, overwrite=spec.overwrite, keep_existing=spec.keep_existing
        )
    except NotFound:
        if not work.is_move or not await _was_moved(source, target, row):
            raise
        await file_copy.drop_partial(run, target.driver, target.path)
        return
    if work.is_move:
        await _remove_source(source, target, copied, spec.keep_existing)


async def _make_folder(work: _Move, source: Endpoint, target: Endpoint) -> None:
    if not isinstance(target.driver, MakesDirectories):
        raise NotSupported
    await target.driver.makedirs(target.path)
    if work.is_move and await are_same_entry(source, target):
        raise StorageProblem(SAME)


async def _was_moved(source: Endpoint, target: Endpoint, row: ManifestEntry) -> bool:
    """Whether a worker moved the file and died before it could say so."""
    entry = await target.find()
    return entry is not None and row.size is not None and entry.size == row.size and await source.find() is None


async def _remove_source(source: Endpoint, target: Endpoint, copied: bool, keep_existing: bool) -> None:
    """Remove a file that is at the target. `copied`: it was compared with the source."""
    assert isinstance(source.driver, Removes)
    if await are_same_entry(source, target):
        raise StorageProblem(SAME)
    if copied or await have_same_bytes(source, target):
        pass_checkpoint("move.verified")
        await source.driver.remove(source.path)
        pass_checkpoint("move.removed")
    elif not keep_existing:
        raise Exists


async def _remove_folders(run: TransferRun, route: TransferRoute) -> bool:
    """Remove the folders that a move has emptied, the deepest first; what is not empty stays. Whether there is more."""
    cursor = run.cursor
    folders = manifest.open_folders(run.task.id, cursor.folder_count)
    left = folders.count if cursor.folders_left is None else cursor.folders_left
    while left:
        start = (left - 1) - (left - 1) % manifest.CHUNK
        rows = (await folders.read_rows(start))[: left - start]
        for name in reversed(rows):
            await _remove_empty(route.source.driver, (route.source / name).path)
            pass_checkpoint("move.tidied")
            left -= 1
            cursor.folders_left = left
            if not run.has_time():
                return True
    cursor.folders_left = left
    if route.access is not None:
        forget_upwards(await route.access.locate())
    return False


async def _remove_empty(driver: Driver, path: TreePath) -> None:
    try:
        if isinstance(driver, RemovesEmpty):
            await driver.remove_empty(path)
            return
        async for batch in driver.list(path):
            if batch:
                return
        if isinstance(driver, Removes):
            await driver.remove(path)
    except NotFound:
        pass  # removed with what was below


async def clean(run: TransferRun, state: State) -> None:
    """Drop the parts of an unfinished file. What is staged goes when its policy says so, or no retry is possible."""
    spec = run.spec
    if run.cursor.partial is not None:
        mount, _ = select_mount(await mounts.ready(), TreePath(spec.target_dir))  # whatever rights are left
        await file_copy.drop_partial(run, await mount.get_driver())
    if run.task.removed or state in DELETE_POLICIES.get(spec.delete_policy, ()):
        for id in {run.task.id, spec.staged.split("/")[1]} if spec.staged else {run.task.id}:
            await staging.clear(id)
