"""What a transfer copies next: small files many at a time, everything else by itself; and of a move, the removal."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryChanged,
    EntryExists,
    EntryNotFound,
    Problem,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import CopyRequest, Entry
from mangrove.tasks.core import file_copy, partials
from mangrove.tasks.core.endpoints import Endpoint, are_same_entry, have_same_bytes
from mangrove.tasks.core.file_copy import Copied
from mangrove.tasks.core.folders import find_source_changes
from mangrove.tasks.core.specs import ManifestEntry, SourceVersion
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES
from mangrove.tasks.core.verification import check_copy, look_at_copy, withdraw
from mangrove.tasks.transfer import small_files
from mangrove.tasks.transfer.step import TransferStep
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.journal import Change, Touched

SMALL = 4 << 20  # bytes; smaller files are copied several at once
AT_ONCE = 16
BATCH = 256  # files
DIRECT_BATCH = 1000  # files that a storage copies by itself: the more together, the fewer flushes
BATCH_BYTES = 256 << 20  # after which a batch takes no more files, so that it ends soon
MOVED = "the source changed while it was moved"
SAME = "the source and the target are the same"


def _is_small(row: ManifestEntry) -> bool:
    return not row.is_dir and row.size is not None and row.size <= SMALL


def get_batch_size(work: TransferStep) -> int:
    """How many files are a batch."""
    return DIRECT_BATCH if work.is_direct and work.target.driver.capabilities.copy_from else BATCH


def split_batches(rows: Sequence[ManifestEntry], most: int) -> list[list[ManifestEntry]]:
    """Small files together, `most` of them and BATCH_BYTES at most; folders and other files by themselves."""
    batches: list[list[ManifestEntry]] = []
    left = -1  # bytes that the last batch takes; negative for none at all
    for row in rows:
        size = row.size or 0
        if _is_small(row) and size <= left and len(batches[-1]) < most:
            batches[-1].append(row)
            left -= size
        else:
            batches.append([row])
            left = BATCH_BYTES - size if _is_small(row) else -1
    return batches


def note_batch(work: TransferStep, batch: Sequence[ManifestEntry]) -> Change:
    """The change that copying a batch is: of the folders that its files go to, and of a move of the source; folders
    that are made note themselves. `copy_batch` notes the files."""
    target = work.route.target.storage_path
    paths: Collection[str] = [row.path for row in batch if not row.is_dir]
    if not work.route.is_renaming:
        paths = {path.rpartition("/")[0]: path for path in paths}.values()  # one of each folder
    parents = {work.route.find_target(path).path.parent for path in paths}
    doubtful = [target.with_path(parent) for parent in parents]
    touched = [Touched(storage_path) for storage_path in doubtful]
    if work.is_move:
        folders = _find_source_folders(work, batch)
        doubtful += folders
        is_folder = work.run.cursor.only_entry is None
        touched += map(Touched, folders) if work.route.listed else find_source_changes(work.route.source, is_folder)
    change = journal.change_folders(*touched)
    change.doubtful = doubtful
    return change


def _find_source_folders(work: TransferStep, batch: Sequence[ManifestEntry]) -> list[StoragePath]:
    """The folders that the files of a batch are in, unless that is staging."""
    source = work.route.source
    if source.mount is None:
        return []
    parents = {(source / row.path).path.parent for row in batch if not row.is_dir}
    return [StoragePath(source.driver, parent, source.mount) for parent in parents]


def _note_results(
    work: TransferStep, change: Change, batch: Sequence[ManifestEntry], results: Sequence[Problem | None], done: int
) -> None:
    """Note what became of the files of a batch; `results` are those of the first `done`."""
    source = work.route.source
    for index, row in enumerate(batch):
        if row.is_dir:
            continue
        target = work.route.find_target(row.path).path
        stored = work.route.target.storage_path.with_path(target)
        is_copied = index < done and results[index] is None
        if is_copied and row.size is not None and not work.mode.keep_existing:
            change.put(stored, Entry(target.name, row.size, row.modified, False))
        else:
            change.put(stored)  # whatever is there
        if work.is_move and source.mount is not None:
            taken = StoragePath(source.driver, (source / row.path).path, source.mount)
            change.remove(taken) if is_copied else change.put(taken)


async def copy_batch(work: TransferStep, batch: list[ManifestEntry], change: Change) -> int:
    """One batch, the first of it at least; how many of its items are done when the step is over. An item that fails is
    named and the others go on. Unreachable ends the step: it is worth a retry.

    What failed is written down before the cursor goes on: the next worker would never come back to it.
    """
    run, cursor = work.run, work.run.cursor
    problems: dict[int, Problem] = {}

    async def copy(index: int) -> bool:
        row = batch[index]

        async def copy_item() -> None:
            try:
                await _copy_item(work, row)
            except Unreachable:
                raise
            except (StorageProblem, BadRequest, AccessDenied) as problem:
                await partials.drop_partial(run, work.route.find_target(row.path).path)
                problems[index] = problem

        if index:
            return await work.lanes.copy(run, copy_item)
        await copy_item()
        return True

    results = await _copy_directly(work, batch) or await _store_small(work, batch)
    left = [index for index, result in enumerate(results) if isinstance(result, EntryExists)]
    copied = await file_copy.gather_all(map(copy, left))
    done = next((index for index, is_there in zip(left, copied, strict=True) if not is_there), len(batch))
    for index in left:
        results[index] = problems.get(index)
    _note_results(work, change, batch, results, done)
    for row, problem in zip(batch[:done], results, strict=False):
        if problem is None:
            cursor.bytes_done += 0 if row.is_dir else row.size or 0
            continue
        await work.failed.append(row)
        error = f"{row.path or run.spec.name}: {problem.message}"
        if len(cursor.errors) < MAX_NAMED_FAILURES and error not in cursor.errors:
            cursor.errors.append(error)
    if work.failed.count > cursor.failed_count:
        await work.failed.flush()
        cursor.failed_count = work.failed.count
    return done


async def _copy_directly(work: TransferStep, batch: list[ManifestEntry]) -> list[Problem | None] | None:
    """What happened to the files that the target copied by itself; EntryExists for all that are to be looked at one by
    one: something is there, or more is to be done than copying small files. None: it copies none of them by itself."""
    driver, route = work.target.driver, work.route
    if not work.is_direct or work.run.cursor.round or not driver.capabilities.copy_from or not _is_small(batch[0]):
        return None
    unknown = EntryExists()
    results: list[Problem | None] = [route.find_refusal(row.path) or unknown for row in batch]
    found = await _find_versions(work, batch) if work.is_move else []
    versions: Sequence[Entry | ManifestEntry | None] = found or batch
    chosen = [index for index, result in enumerate(results) if result is unknown and versions[index]]
    files = [_make_request(work, batch[index].path, versions[index]) for index in chosen]
    half = len(files) // 2 + 1
    await throttle.wait_for_copy(sum(file.size for file in files))
    parts = await file_copy.gather_all(
        driver.copy_from(route.source.driver, part) for part in (files[:half], files[half:]) if part
    )
    copied: list[Problem | None] = []
    for part in parts:
        if part is None:
            return None
        copied += part
    for index, problem in zip(chosen, copied, strict=True):
        results[index] = unknown if isinstance(problem, Unreachable) else problem
    if found:
        done = [index for index in chosen if results[index] is None]
        limit = asyncio.Semaphore(AT_ONCE)
        removals = (_remove_copied(work, batch[index].path, found[index], limit) for index in done)
        for index, reason in zip(done, await file_copy.gather_all(removals), strict=True):
            results[index] = reason
    return results


async def _store_small(work: TransferStep, batch: list[ManifestEntry]) -> list[Problem | None]:
    """The same of files that could be read and stored many at a time."""
    if work.run.cursor.round or not _is_small(batch[0]):
        return [EntryExists() for _ in batch]
    stored = await small_files.store_files(work, batch)
    finished = await file_copy.gather_all(
        _finish(work, row.path, copied) for row, copied in zip(batch, stored, strict=True) if isinstance(copied, Copied)
    )
    reasons = iter(finished)
    return [next(reasons) if isinstance(copied, Copied) else copied for copied in stored]


async def _finish(work: TransferStep, path: str, copied: Copied) -> Problem | None:
    """Verify what was stored, and of a move remove the source; the reason when that does not succeed."""
    source, target = work.route.source / path, work.route.find_target(path)
    assert copied.stored is not None
    try:
        await check_copy(work.run, source, copied.version, target, copied.stored, verify=work.mode.verify)
        if work.is_move:
            await _remove_source(work, source, target, copied)
    except Unreachable:
        raise
    except EntryChanged:
        return EntryChanged(MOVED if work.is_move else file_copy.CHANGED)
    except StorageProblem as problem:
        return problem
    return None


async def _find_versions(work: TransferStep, batch: list[ManifestEntry]) -> list[Entry | None]:
    """What each file of a batch is as the storage says now, which decides what a move removes; None when that is not
    what was planned."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def find(row: ManifestEntry) -> Entry | None:
        async with limit:
            found = await (work.route.source / row.path).find()
        return found if row.version.matches(found) else None

    return await file_copy.gather_all(map(find, batch))


def _make_request(work: TransferStep, path: str, version: Entry | ManifestEntry | None) -> CopyRequest:
    assert version is not None and version.size is not None
    source, target = work.route.find_paths(path)
    return CopyRequest(
        source, target, version.size, version.modified, work.mode.overwrite, version.etag, work.mode.durable
    )


async def _remove_copied(
    work: TransferStep, path: str, version: Entry | None, limit: asyncio.Semaphore
) -> Problem | None:
    """Remove a file that the target has copied by itself; the reason when it stays."""
    assert version is not None
    async with limit:
        try:
            stored = await look_at_copy(work.route.find_target(path), version)
        except Unreachable:
            raise
        except StorageProblem as problem:
            return problem
        return await _finish(work, path, Copied(version, stored))


async def _copy_item(work: TransferStep, row: ManifestEntry) -> None:
    """Copy one entry, and of a move remove it at the source."""
    run = work.run
    refusal = work.route.find_refusal(row.path)
    if refusal is not None:
        raise refusal
    source, target = work.route.source / row.path, work.route.find_target(row.path)
    if row.is_dir:
        await _make_folder(work, source, target)
        return
    try:
        file = row.version
        if run.cursor.round:  # what failed is tried again with the file as it is now
            file = SourceVersion.of(await source.driver.stat(source.path))
        copied = await file_copy.copy_file(run, source, target, file, work.listing, work.mode)
    except EntryNotFound:
        if not work.is_move or not await _was_moved(source, target, row):
            raise
        await partials.drop_partial(run, target.path)
        return
    if work.is_move:
        await _remove_source(work, source, target, copied)


async def _make_folder(work: TransferStep, source: Endpoint, target: Endpoint) -> None:
    await target.makedirs()
    if work.is_move and await are_same_entry(source, target):
        raise StorageProblem(SAME)


async def _was_moved(source: Endpoint, target: Endpoint, row: ManifestEntry) -> bool:
    """Whether a worker moved the file and died before it could say so."""
    entry = await target.find()
    return entry is not None and row.size is not None and entry.size == row.size and await source.find() is None


async def _remove_source(work: TransferStep, source: Endpoint, target: Endpoint, copied: Copied) -> None:
    """Remove a file that is at the target, unless it is a newer one by now: that stays, and a copy of the old one that
    was put where nothing was goes, so that a retry finds the way free."""
    if await are_same_entry(source, target):
        raise StorageProblem(SAME)
    if copied.compared or await have_same_bytes(source, target):
        pass_checkpoint("move.verified")
        try:
            await source.remove_unchanged(copied.version)
        except EntryChanged:
            if copied.stored is not None and not work.mode.overwrite:
                await withdraw(target, copied.stored)
            raise EntryChanged(MOVED) from None
        pass_checkpoint("move.removed")
    elif not work.mode.keep_existing:
        raise EntryExists
