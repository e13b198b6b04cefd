"""The machine that extracts archives: Plan reads its list of members, Extract stores them in staging, Settle cleans
up.

A transfer continues with the files in staging. The task's error names refused members; the others are extracted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

from mangrove import archives, configuration
from mangrove.archives import Archive, Member
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import (
    AccessDenied,
    ArchiveTooLarge,
    BadRequest,
    BrokenArchive,
    EntryNotFound,
    Problem,
    RecordsUnavailable,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import Entry, Upload
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, file_copy, model, queue, staging
from mangrove.tasks.core.file_copy import CopyMode
from mangrove.tasks.core.files import FilePath, TargetListing
from mangrove.tasks.core.leases import Superseded
from mangrove.tasks.core.model import SourceVersion, State
from mangrove.tasks.core.partials import StepEnded, drop_partial, drop_receipts
from mangrove.tasks.core.requested import RequestedRows, continue_rows
from mangrove.tasks.core.staging import StagedPath
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, SAVE_INTERVAL_SECONDS, Cancelled, Run
from mangrove.tasks.decompress.declaration import DecompressCursor, DecompressSpec
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.operations import archives as tree_archives
from mangrove.tree.operations.archives import ArchiveFile

STEP_SECONDS = 60.0  # in the standalone service; long, since a step may have to skip all members before its first
ARCHIVE = "archive"  # the name of the archive in staging

DecompressRun: TypeAlias = Run[DecompressSpec, DecompressCursor]


async def plan(run: DecompressRun) -> bool:
    """Check that the archive can be read, and sum up its members; with a list, start the list.

    Copy the archive into staging first if the specification requires that. True if there is more to copy.
    """
    if run.cursor.attempt != run.task.attempt:
        rows = continue_rows(run.cursor.rows, run.spec.count)
        run.cursor = DecompressCursor(attempt=run.task.attempt, rows=rows)
    if run.spec.count:
        return False
    if await asyncio.to_thread(queue.find_chained, _get_stage(run)) is not None:
        return False  # the transfer may have removed the members by now
    run.view.status = "getting src object"
    if await _cache_if_required(run):
        return True
    total, has_members = 0, False
    async with _open_archive(run) as archive:
        if archive.sequential:
            return False  # reading its list means extracting it
        async for member in archive.iter_members():
            if not member.refused and _find_target_path(run, member) is not None:
                has_members = True
                total += 0 if member.is_dir else member.size or 0
    if not has_members and run.spec.inner != "/":
        raise EntryNotFound
    run.view.total_bytes = total
    return False


def _get_stage(run: DecompressRun) -> str:
    """Return the name in staging of the files of this run; of a list, of the present archive."""
    stage = queue.get_stage(run.task)
    return f"{stage}.{run.cursor.rows.position}" if run.spec.count else stage


def _get_path(run: DecompressRun, name: str) -> TreePath:
    """Return the path in staging of a file of this run."""
    return staging.get_path(_get_stage(run), name)


def _get_source(run: DecompressRun) -> TreePath:
    """Return the path of the archive in the tree."""
    source = TreePath(run.spec.source)
    return source / run.cursor.archive_name if run.spec.count else source


def _get_target_name(run: DecompressRun) -> str:
    """Return the name in the target folder; "" for the folder itself."""
    if run.spec.count and run.spec.into_new_dir:
        return archives.base_name(run.cursor.archive_name)
    return run.spec.name


async def _cache_if_required(run: DecompressRun) -> bool:
    """Check that the archive can be read, and copy it into staging if the specification requires that. True if there is
    more to copy.
    """
    source, entry = await _find_source(run)
    if run.spec.cache_full and not run.cursor.cached:
        try:
            await _cache(run, source, entry)
        except StepEnded:
            return True
    return False


async def _find_source(run: DecompressRun) -> tuple[FilePath, Entry]:
    """Return the archive.

    Raise AccessDenied or a similar problem if the owner can no longer read it, StorageProblem if it has changed since
    the work started.
    """
    spec = run.spec
    caller = await authorization.authorize_caller(run.task, Right.DECOMPRESS)
    await authorization.resolve_target(caller, spec.target_dir, _get_target_name(run))
    source = (await authorization.access_path(caller, _get_source(run), spec.password)).require_read()
    storage_path = await source.locate()
    entry = await storage_path.driver.stat(storage_path.path)
    if entry.is_dir:
        raise StorageProblem("not a file")
    if run.cursor.archive is None:
        run.cursor.archive = SourceVersion.of(entry)
    if not run.cursor.archive.matches(entry):
        raise StorageProblem("the source changed since the task began")
    return storage_path, entry


async def _cache(run: DecompressRun, source: FilePath, entry: Entry) -> None:
    """Copy the archive into staging."""
    storage, path = await staging.driver(), _get_path(run, ARCHIVE)
    await staging.make_parent(path)
    await file_copy.copy_file(
        run,
        source,
        StagedPath(storage, path),
        SourceVersion.of(entry),
        TargetListing(storage),
        CopyMode(overwrite=True, durable=configuration.cached().settings.is_durable),
    )
    pass_checkpoint("extract.cached")
    run.cursor.cached = True


@asynccontextmanager
async def _open_archive(run: DecompressRun) -> AsyncIterator[Archive]:
    source, entry = await _find_source(run)
    size = entry.size
    if run.cursor.cached:
        source = StagedPath(await staging.driver(), _get_path(run, ARCHIVE))
        size = (await source.driver.stat(source.path)).size if size is None else size
    if size is None:
        raise StorageProblem("the size of the archive is not known")
    settings = (await configuration.get()).settings
    name = _get_source(run).name
    packed, limits = ArchiveFile(source.driver, source.path, size), tree_archives.make_limits(settings)
    encoding, password = settings.non_efs_zip_encoding, run.spec.archive_password
    async with archives.open_archive(name, packed, password, encoding, limits) as archive:
        yield archive


def _find_target_path(run: DecompressRun, member: Member) -> str | None:
    """Return the path of a member below the target; None if it is not requested.

    The requested file or folder itself is right in the target.
    """
    inner = run.spec.inner.strip("/")
    if not inner:
        return member.path
    if member.path != inner and not member.path.startswith(f"{inner}/"):
        return None
    above = inner.rpartition("/")[0]
    return member.path.removeprefix(f"{above}/") if above else member.path


async def extract(run: DecompressRun) -> bool:
    """Extract the next members, or the next archives of a list. True if there is more."""
    return await (_extract_list(run) if run.spec.count else _extract_archive(run))


async def _extract_list(run: DecompressRun) -> bool:
    """Extract the next archives. One that fails is recorded, and the others continue."""
    rows = RequestedRows(run.task.id, run.cursor.rows)
    try:
        while not rows.is_over:
            (row,) = await rows.read(rows.progress.position, 1)
            run.cursor.archive_name = row.path
            try:
                if await _cache_if_required(run) or await _extract_archive(run):
                    return True
            except (Cancelled, Superseded, RecordsUnavailable, Unreachable):
                raise
            except Problem as problem:
                await rows.add_failure(row, problem)
            await _end_archive(run, rows)
            if not run.has_time():
                return True
        rows.raise_failures()
        return False
    finally:
        await rows.flush()  # the cursor counts the rows that failed


async def _end_archive(run: DecompressRun, rows: RequestedRows) -> None:
    """Go on to the next archive of the list."""
    await _drop_staged(run)
    rows.progress.position += 1
    run.cursor = DecompressCursor(attempt=run.cursor.attempt, rows=rows.progress)
    run.view.total_bytes = 0
    run.view.progress = round(rows.progress.position / rows.progress.row_count * 100, 4)
    await rows.flush()
    await run.save()


async def _extract_archive(run: DecompressRun) -> bool:
    """Extract the next members into staging. At the end, enqueue their transfer."""
    cursor = run.cursor
    run.view.status = "walking and decompressing"
    if not await asyncio.to_thread(queue.resume_chained, _get_stage(run)):  # by a worker that died before its save
        if cursor.boot not in ("", platform().read_boot_id()):  # stored members may have lost their bytes
            cursor = run.cursor = DecompressCursor(
                attempt=cursor.attempt, partial=cursor.partial, rows=cursor.rows, archive_name=cursor.archive_name
            )
        cursor.boot = platform().read_boot_id()
        if await _extract_members(run):
            return True
        await staging.sync(_get_path(run, staging.BODY))
        await _find_source(run)  # a mixture of two versions of the archive must not be transferred
        await run.save()
        await _chain_transfer(run)
    cursor.chained = True
    if cursor.refused:
        entries = "entry is" if cursor.refused == 1 else "entries are"
        raise StorageProblem(f"{cursor.refused} {entries} not unpacked: {'; '.join(cursor.errors)}")
    return False


async def _extract_members(run: DecompressRun) -> bool:
    """Extract the next members into staging. True if there is more."""
    cursor = run.cursor
    began = saved = time.monotonic()
    first = 0.0
    async with _open_archive(run) as archive:
        if not cursor.folders_made:
            await _make_folders(run, archive)
            pass_checkpoint("extract.folders")
        async for index, member, blocks in archive.iter_contents(lambda index, member: _is_next(run, index, member)):
            first = first or time.monotonic()
            with _catch_refusal(run, member):
                await _store_member(run, member, blocks)
                pass_checkpoint("extract.member")
            cursor.position = index + 1
            if time.monotonic() - saved > SAVE_INTERVAL_SECONDS:
                await run.save()
                saved = time.monotonic()
            if not run.has_time() and is_enough(first - began, time.monotonic() - first):
                return True
    return False


def is_enough(skipping: float, work: float) -> bool:
    """True if a step has worked at least as long (seconds) as it took to skip the members before its first.

    A step that ended earlier would spend most of its time on skipping.
    """
    return work >= skipping or platform().ends_late_steps


@contextmanager
def _catch_refusal(run: DecompressRun, member: Member) -> Iterator[None]:
    """Record a member that cannot be stored, and continue with the others."""
    try:
        yield
    except (ArchiveTooLarge, Unreachable):
        raise
    except (BrokenArchive, StorageProblem, BadRequest, AccessDenied) as problem:
        _count_refusal(run, member, problem.message)


def _count_refusal(run: DecompressRun, member: Member, reason: str) -> None:
    run.cursor.refused += 1
    if len(run.cursor.errors) < MAX_NAMED_FAILURES:
        run.cursor.errors.append(f"{member.path}: {reason}")


def _is_next(run: DecompressRun, index: int, member: Member) -> bool:
    return index >= run.cursor.position and _find_target_path(run, member) is not None


async def _make_folders(run: DecompressRun, archive: Archive) -> None:
    """Make the folders and count the refused members: once, before the files are extracted."""
    body = _get_path(run, staging.BODY)
    await staging.make_folder(body)
    run.cursor.refused, run.cursor.errors = 0, []
    has_members = run.spec.inner == "/"
    async for member in archive.iter_members():
        path = _find_target_path(run, member)
        if member.refused:
            if path is not None:
                _count_refusal(run, member, member.refused)
            continue
        has_members = has_members or path is not None
        if path and member.is_dir:
            with _catch_refusal(run, member):
                await staging.make_folder(TreePath(f"{body}/{path}"))
    if not has_members:
        raise EntryNotFound
    run.cursor.folders_made = True


async def _store_member(run: DecompressRun, member: Member, blocks: AsyncIterator[bytes]) -> None:
    upload = Upload(member.size, member.modified or time.time())
    path = f"{staging.BODY}/{_find_target_path(run, member)}"
    run.begin_item(member.path)
    stored = await staging.store(_get_stage(run), path, _limit_bytes(run, blocks), upload)
    run.cursor.bytes_done += stored
    run.cursor.files += 1
    run.end_item()


async def _limit_bytes(run: DecompressRun, blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the blocks. Raise ArchiveTooLarge if all steps together exceed the limit of extracted bytes."""
    done, limit = run.cursor.bytes_done, tree_archives.make_limits(configuration.cached().settings).size
    async for block in blocks:
        done += len(block)
        if limit and done > limit:
            raise ArchiveTooLarge
        if not run.spec.count:
            run.show_progress(done)
        yield block


async def _chain_transfer(run: DecompressRun) -> None:
    """Enqueue the transfer of the extracted files."""
    spec = run.spec
    caller = await authorization.authorize_caller(run.task, Right.DECOMPRESS)
    target_name = _get_target_name(run)
    target = await authorization.resolve_target(caller, spec.target_dir, target_name)
    transfer = TransferSpec(
        source=_get_path(run, staging.BODY), target_dir=spec.target_dir, name=target_name, overwrite=spec.overwrite
    )
    base = archives.base_name(_get_source(run).name)
    path = target.storage_path.path
    name = model.format_upload_name(base, target.storage_path.mount.path, path.parent if target_name else path)
    stage, size = _get_stage(run), run.cursor.bytes_done
    await asyncio.to_thread(queue.chain, "decompress_upload", run.task, stage, name, transfer, size)
    pass_checkpoint("extract.chained")


async def clean(run: DecompressRun, state: State) -> None:
    """Remove files from staging that no transfer needs, and the list unless a retry needs it."""
    await run.flush()
    await _drop_staged(run)
    if run.spec.count and (state is State.SUCCEEDED or run.task.removed):
        await staging.clear(run.task.id)


async def _drop_staged(run: DecompressRun) -> None:
    """Remove the files of an archive from staging that no transfer needs."""
    if run.cursor.partial is not None:
        await drop_partial(run)
    await drop_receipts(run)
    stage = _get_stage(run)
    if not run.cursor.chained and await asyncio.to_thread(queue.find_chained, stage) is None:
        await staging.clear(stage)
    elif run.cursor.cached:
        await staging.remove(stage, ARCHIVE)
