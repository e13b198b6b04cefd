"""The machine that extracts an archive: Plan reads its list of members, Extract stores them in staging, Settle cleans
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
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import Entry, Upload
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, file_copy, model, queue, staging
from mangrove.tasks.core.file_copy import CopyMode
from mangrove.tasks.core.files import FilePath, TargetListing
from mangrove.tasks.core.model import SourceVersion, State
from mangrove.tasks.core.partials import StepEnded, drop_partial, drop_receipts
from mangrove.tasks.core.staging import StagedPath
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, SAVE_INTERVAL_SECONDS, Run
from mangrove.tasks.decompress.declaration import DecompressCursor, DecompressSpec
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.operations import archives as tree_archives
from mangrove.tree.operations.archives import ArchiveFile

STEP_SECONDS = 60.0  # in the standalone service; long, since a step may have to skip all members before its first
ARCHIVE = "archive"  # the name of the archive in staging

DecompressRun: TypeAlias = Run[DecompressSpec, DecompressCursor]


async def plan(run: DecompressRun) -> bool:
    """Check that the archive can be read, and sum up its members.

    Copy it into staging first if the specification requires that.
    """
    if run.cursor.attempt != run.task.attempt:
        run.cursor = DecompressCursor(attempt=run.task.attempt)
    if await asyncio.to_thread(queue.find_chained, run.task) is not None:
        return False  # the transfer may have removed the members by now
    run.view.status = "getting src object"
    source, entry = await _find_source(run)
    if run.spec.cache_full and not run.cursor.cached:
        try:
            await _cache(run, source, entry)
        except StepEnded:
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


def _get_path(run: DecompressRun, name: str) -> TreePath:
    """Return the path in staging of a file of this run."""
    return staging.get_path(queue.get_stage(run.task), name)


async def _find_source(run: DecompressRun) -> tuple[FilePath, Entry]:
    """Return the archive.

    Raise AccessDenied or a similar problem if the owner can no longer read it, StorageProblem if it has changed since
    the work started.
    """
    spec = run.spec
    caller = await authorization.authorize_caller(run.task, Right.DECOMPRESS)
    await authorization.resolve_target(caller, spec.target_dir, spec.name)
    source = (await authorization.access_path(caller, spec.source, spec.password)).require_read()
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
    name = TreePath(run.spec.source).name
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
    """Extract the next members into staging. At the end, enqueue their transfer."""
    cursor = run.cursor
    run.view.status = "walking and decompressing"
    if not await asyncio.to_thread(queue.resume_chained, run.task):  # by a worker that died before it could save that
        if cursor.boot not in ("", platform().read_boot_id()):  # stored members may have lost their bytes
            cursor = run.cursor = DecompressCursor(attempt=cursor.attempt, partial=cursor.partial)
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
    stored = await staging.store(queue.get_stage(run.task), path, _limit_bytes(run, blocks), upload)
    run.cursor.bytes_done += stored
    run.cursor.files += 1


async def _limit_bytes(run: DecompressRun, blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the blocks. Raise ArchiveTooLarge if all steps together exceed the limit of extracted bytes."""
    done, limit = run.cursor.bytes_done, tree_archives.make_limits(configuration.cached().settings).size
    async for block in blocks:
        done += len(block)
        if limit and done > limit:
            raise ArchiveTooLarge
        run.show_progress(done)
        yield block


async def _chain_transfer(run: DecompressRun) -> None:
    """Enqueue the transfer of the extracted files."""
    spec = run.spec
    caller = await authorization.authorize_caller(run.task, Right.DECOMPRESS)
    target = await authorization.resolve_target(caller, spec.target_dir, spec.name)
    transfer = TransferSpec(
        source=_get_path(run, staging.BODY), target_dir=spec.target_dir, name=spec.name, overwrite=spec.overwrite
    )
    base = archives.base_name(TreePath(spec.source).name)
    path = target.storage_path.path
    name = model.format_upload_name(base, target.storage_path.mount.path, path.parent if spec.name else path)
    await asyncio.to_thread(queue.chain, "decompress_upload", run.task, name, transfer, run.cursor.bytes_done)
    pass_checkpoint("extract.chained")


async def clean(run: DecompressRun, state: State) -> None:
    """Remove files from staging that no transfer needs."""
    stage = queue.get_stage(run.task)
    await run.flush()
    if run.cursor.partial is not None:
        await drop_partial(run)
    await drop_receipts(run)
    if not run.cursor.chained and await asyncio.to_thread(queue.find_chained, run.task) is None:
        await staging.clear(stage)
    elif run.cursor.cached:
        await staging.remove(stage, ARCHIVE)
