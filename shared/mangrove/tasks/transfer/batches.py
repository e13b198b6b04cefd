"""Copy the entries of a transfer in batches: many small files together, every other entry by itself. After its copy,
the source of a move is removed."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from functools import partial

from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import gather_all, gather_bounded
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
from mangrove.tasks.core import file_copy, files, partials
from mangrove.tasks.core.file_copy import Copied
from mangrove.tasks.core.files import FilePath, are_same_entry, have_same_bytes
from mangrove.tasks.core.folders import find_source_changes
from mangrove.tasks.core.model import ManifestEntry, SourceVersion
from mangrove.tasks.core.partials import StepEnded
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, SAVE_INTERVAL_SECONDS
from mangrove.tasks.core.verification import check_copy, look_at_copy, withdraw
from mangrove.tasks.transfer import small_files
from mangrove.tasks.transfer.step import TransferStep, open_entries
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.journal import StorageChange, Touched
from mangrove.tree.operations.kept_rules import RuleLeftBehind

MAX_SMALL_BYTES = 4 << 20  # of a file that is copied together with others
LOOKUP_CONCURRENCY = 16  # files per batch
MAX_BATCH_FILES = 256
MAX_DIRECT_BATCH_FILES = 1000  # that a storage copies itself: the more files, the fewer flushes
MAX_BATCH_BYTES = 256 << 20  # so that a batch ends soon
SOURCE_CHANGED = "the source changed while it was moved"
ENTRY_ONTO_ITSELF = "the source and the target are the same"


async def copy_entries(step: TransferStep) -> bool:
    """Copy the next entries until the step is over. Return True if there is more.

    The entries that the cursor counts are as durable at the target as the mode requires.
    """
    run, cursor = step.run, step.run.cursor
    entries = open_entries(run, cursor.round, cursor.entry_count)
    while rows := await entries.read_rows(cursor.position):
        for batch in split_batches(rows, get_batch_size(step)):
            run.begin_item(batch[0].path or run.spec.name)
            if not step.route.is_listed:
                await step.route.require_kept_rules("")
            try:
                async with _begin_change(step, batch) as change:
                    with run.meter():
                        done = await _copy_batch(step, batch, change)
            except StepEnded:
                return True
            pass_checkpoint("move.batch")
            cursor.position += done
            run.show_progress(cursor.bytes_done)
            run.show_items(cursor.position, cursor.entry_count)
            is_over = done < len(batch) or not run.has_time()
            if is_over or time.monotonic() - step.saved > SAVE_INTERVAL_SECONDS:
                await step.save()
            if is_over:
                return True
    run.show_progress(cursor.bytes_done)
    return False


def _is_small(row: ManifestEntry) -> bool:
    return not row.is_dir and row.size is not None and row.size <= MAX_SMALL_BYTES


def get_batch_size(step: TransferStep) -> int:
    """Return the number of files in a batch."""
    return MAX_DIRECT_BATCH_FILES if step.is_direct and step.target.driver.capabilities.copy_from else MAX_BATCH_FILES


def split_batches(rows: Sequence[ManifestEntry], max_files: int) -> list[list[ManifestEntry]]:
    """Return batches of at most `max_files` small files and MAX_BATCH_BYTES. Folders and other files have batches of
    their own."""
    batches: list[list[ManifestEntry]] = []
    bytes_left = -1  # room in the last batch; negative if it takes no more files
    for row in rows:
        size = row.size or 0
        if _is_small(row) and size <= bytes_left and len(batches[-1]) < max_files:
            batches[-1].append(row)
            bytes_left -= size
        else:
            batches.append([row])
            bytes_left = MAX_BATCH_BYTES - size if _is_small(row) else -1
    return batches


def _begin_change(step: TransferStep, batch: Sequence[ManifestEntry]) -> StorageChange:
    """Return the change of a batch: of the target folders of its files and, for a move, of the source.

    `makedirs` records the folders that are made, and `_record_results` the files.
    """
    target = step.target
    paths: Collection[str] = [row.path for row in batch if not row.is_dir]
    if not step.route.is_renaming:
        paths = {path.rpartition("/")[0]: path for path in paths}.values()  # one of each folder
    parents = {step.route.find_target(path).path.parent for path in paths}
    doubtful = [target.with_path(parent) for parent in parents]
    touched = [Touched(storage_path) for storage_path in doubtful]
    if step.is_move:
        folders = _find_source_folders(step, batch)
        doubtful += folders
        is_folder = step.run.cursor.only_entry is None
        touched += map(Touched, folders) if step.route.is_listed else find_source_changes(step.route.source, is_folder)
    change = journal.change_folders(*touched)
    change.doubtful = doubtful
    return change


def _find_source_folders(step: TransferStep, batch: Sequence[ManifestEntry]) -> list[StoragePath]:
    """Return the folders of the files of a batch; none in staging."""
    source = step.route.source
    if not isinstance(source, StoragePath):
        return []
    parents = {(source.path / row.path).parent for row in batch if not row.is_dir}
    return [source.with_path(parent) for parent in parents]


def _record_results(
    step: TransferStep,
    change: StorageChange,
    batch: Sequence[ManifestEntry],
    results: Sequence[Problem | None],
    done: int,
) -> None:
    """Record in the change the results of the files of a batch; `results` are those of the first `done`."""
    source = step.route.source
    stored: dict[str, list[Entry]] = {}  # by their folders below the source
    for index, row in enumerate(batch):
        if row.is_dir:
            continue
        is_copied = index < done and results[index] is None
        if (
            is_copied
            and row.size is not None
            and row.path
            and not step.route.is_renaming
            and not step.mode.keep_existing
        ):
            folder, _, name = row.path.rpartition("/")
            stored.setdefault(folder, []).append(Entry(name, row.size, row.modified, False))
        else:
            _record_result(step, change, row, is_copied)
        if step.is_move and isinstance(source, StoragePath):
            moved = source.child(row.path)
            change.remove(moved) if is_copied else change.put(moved)
    for folder, entries in stored.items():
        change.put_files(step.route.find_target(folder), entries)


def _record_result(step: TransferStep, change: StorageChange, row: ManifestEntry, is_copied: bool) -> None:
    target = step.route.find_target(row.path)
    if is_copied and row.size is not None and not step.mode.keep_existing:
        change.put(target, Entry(target.path.name, row.size, row.modified, False))
    else:
        change.put(target)  # its state is unknown


async def _copy_batch(step: TransferStep, batch: list[ManifestEntry], change: StorageChange) -> int:
    """Copy a batch, at least its first entry. Return the number of finished entries when the step is over.

    An entry that fails is recorded, and the others continue. It is recorded before the cursor advances, since the next
    worker starts behind it. Unreachable ends the step and should be retried.
    """
    run, cursor = step.run, step.run.cursor
    problems: dict[int, Problem] = {}

    async def copy(index: int) -> bool:
        row = batch[index]

        async def copy_row() -> None:
            run.begin_item(row.path or run.spec.name)
            try:
                await _copy_entry(step, row)
                run.end_item()
            except Unreachable:
                raise
            except (StorageProblem, BadRequest, AccessDenied) as problem:
                await partials.drop_partial(run, step.route.find_target(row.path).path)
                problems[index] = problem

        if index:
            return await step.limiter.copy(run, copy_row)
        await copy_row()
        return True

    results = await _copy_directly(step, batch) or await _store_small(step, batch)
    left = [index for index, result in enumerate(results) if isinstance(result, EntryExists)]
    copied = await gather_all(map(copy, left))
    done = next((index for index, is_done in zip(left, copied, strict=True) if not is_done), len(batch))
    for index in left:
        results[index] = problems.get(index)
    _record_results(step, change, batch, results, done)
    for row, problem in zip(batch[:done], results, strict=False):
        if problem is None:
            cursor.bytes_done += 0 if row.is_dir else row.size or 0
            continue
        await step.failed.append(row)
        error = f"{row.path or run.spec.name}: {problem.message}"
        if len(cursor.errors) < MAX_NAMED_FAILURES and error not in cursor.errors:
            cursor.errors.append(error)
    if step.failed.count > cursor.failed_count:
        await step.failed.flush()
        cursor.failed_count = step.failed.count
    return done


async def _copy_directly(step: TransferStep, batch: list[ManifestEntry]) -> list[Problem | None] | None:
    """Let the target copy the files of a batch itself. Return a result for each, None if it copies none of them.

    EntryExists means that a file has to be copied singly: a file is there, or more than a copy is needed.
    """
    driver, route = step.target.driver, step.route
    if not step.is_direct or step.run.cursor.round or not driver.capabilities.copy_from or not _is_small(batch[0]):
        return None
    undecided = EntryExists()
    results: list[Problem | None] = [await route.find_refusal(row.path) or undecided for row in batch]
    present = await _find_versions(step, batch) if step.is_move else []
    versions: Sequence[Entry | ManifestEntry | None] = present or batch
    chosen = [index for index, result in enumerate(results) if result is undecided and versions[index]]
    requests = [_make_request(step, batch[index].path, versions[index]) for index in chosen]
    half = len(requests) // 2 + 1
    await throttle.wait_for_copy(sum(request.size for request in requests))
    halves = await gather_all(
        driver.copy_from(route.source.driver, part) for part in (requests[:half], requests[half:]) if part
    )
    copied: list[Problem | None] = []
    for part in halves:
        if part is None:
            return None
        copied += part
    for index, problem in zip(chosen, copied, strict=True):
        results[index] = undecided if isinstance(problem, Unreachable) else problem
    if present:
        done = [index for index in chosen if results[index] is None]
        removals = [partial(_remove_copied, step, batch[index].path, present[index]) for index in done]
        for index, problem in zip(done, await gather_bounded(removals, LOOKUP_CONCURRENCY), strict=True):
            results[index] = problem
    return results


async def _store_small(step: TransferStep, batch: list[ManifestEntry]) -> list[Problem | None]:
    """Read and store the small files of a batch together. Return results like those of `_copy_directly`."""
    if step.run.cursor.round or not _is_small(batch[0]):
        return [EntryExists() for _ in batch]
    stored = await small_files.store_files(step, batch)
    finished = await gather_all(
        _finish(step, row.path, copied) for row, copied in zip(batch, stored, strict=True) if isinstance(copied, Copied)
    )
    problems = iter(finished)
    return [next(problems) if isinstance(copied, Copied) else copied for copied in stored]


async def _finish(step: TransferStep, path: str, copied: Copied) -> Problem | None:
    """Verify a copy and, for a move, remove the source. Return the reason if that fails."""
    source, target = step.route.source.child(path), step.route.find_target(path)
    assert copied.stored is not None
    try:
        await check_copy(step.run, source, copied.version, target, copied.stored, verify=step.mode.verify)
        if step.is_move:
            await _remove_source(step, path, copied)
    except Unreachable:
        raise
    except EntryChanged:
        return EntryChanged(SOURCE_CHANGED if step.is_move else file_copy.CHANGED)
    except (StorageProblem, RuleLeftBehind) as problem:
        return problem
    return None


async def _find_versions(step: TransferStep, batch: list[ManifestEntry]) -> list[Entry | None]:
    """Return the present entry of each file of a batch, for the removal of the sources; None if it has changed since it
    was planned.
    """

    async def find(row: ManifestEntry) -> Entry | None:
        present = await files.find(step.route.source.child(row.path))
        return present if row.version.matches(present) else None

    return await gather_bounded([partial(find, row) for row in batch], LOOKUP_CONCURRENCY)


def _make_request(step: TransferStep, path: str, version: Entry | ManifestEntry | None) -> CopyRequest:
    assert version is not None and version.size is not None
    source, target = step.route.find_paths(path)
    return CopyRequest(
        source, target, version.size, version.modified, step.mode.overwrite, version.etag, step.mode.durable
    )


async def _remove_copied(step: TransferStep, path: str, version: Entry | None) -> Problem | None:
    """Remove the source of a file that the target has copied itself. Return the reason if it stays, otherwise None."""
    assert version is not None
    try:
        stored = await look_at_copy(step.route.find_target(path), version)
    except Unreachable:
        raise
    except StorageProblem as problem:
        return problem
    return await _finish(step, path, Copied(version, stored))


async def _copy_entry(step: TransferStep, row: ManifestEntry) -> None:
    """Copy an entry and, for a move, remove it at the source."""
    run = step.run
    refusal = await step.route.find_refusal(row.path)
    if refusal is not None:
        raise refusal
    source, target = step.route.source.child(row.path), step.route.find_target(row.path)
    if row.is_dir:
        await files.makedirs(target)
        if step.is_move and await are_same_entry(source, target):
            raise StorageProblem(ENTRY_ONTO_ITSELF)
        return
    try:
        version = row.version
        if run.cursor.round:  # a file that failed is read again in its present version
            version = SourceVersion.of(await source.driver.stat(source.path))
        copied = await file_copy.copy_file(run, source, target, version, step.listing, step.mode)
    except EntryNotFound:
        if not step.is_move or not await _was_moved(source, target, row):
            raise
        await partials.drop_partial(run, target.path)
        return
    if step.is_move:
        await _remove_source(step, row.path, copied)


async def _was_moved(source: FilePath, target: FilePath, row: ManifestEntry) -> bool:
    """True if a worker moved the file and died before it could save that."""
    entry = await files.find(target)
    return entry is not None and row.size is not None and entry.size == row.size and await files.find(source) is None


async def _remove_source(step: TransferStep, path: str, copied: Copied) -> None:
    """Remove a file that was copied. The source stays if it has changed since, or if its rule would stay behind.

    If it has changed, a copy that replaced nothing is removed, so that a retry finds its name free. A copy without its
    rule is always removed.
    """
    source, target = step.route.source.child(path), step.route.find_target(path)
    if await are_same_entry(source, target):
        raise StorageProblem(ENTRY_ONTO_ITSELF)
    if copied.compared or await have_same_bytes(source, target):
        pass_checkpoint("move.verified")
        try:
            await step.route.require_kept_rules(path)
            await files.remove_unchanged(source, copied.version)
        except RuleLeftBehind:
            if copied.stored is not None:
                await withdraw(target, copied.stored)
            raise
        except EntryChanged:
            if copied.stored is not None and not step.mode.overwrite:
                await withdraw(target, copied.stored)
            raise EntryChanged(SOURCE_CHANGED) from None
        pass_checkpoint("move.removed")
