"""The machine that packs files: Plan lists them, Pack makes the archive and stores it, Settle cleans up.

The archive is stored in staging, part by part. After each part the cursor has the next file and its next byte, so at
most one part is repeated after a worker died. An interrupted Plan begins again, since it only lists entries; a finished
one is not repeated within a run, since a second archive of the same files may have other bytes.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TypeAlias

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem
from mangrove.identity.rights import Right
from mangrove.tasks.compress.declaration import CompressCursor, CompressSpec
from mangrove.tasks.compress.packing_step import ArchiveParts, PackingStep, find_archive, list_packed, open_parts
from mangrove.tasks.compress.selections import SELECTION
from mangrove.tasks.core import authorization, file_copy, staging
from mangrove.tasks.core.file_copy import CopyMode
from mangrove.tasks.core.files import TargetListing
from mangrove.tasks.core.model import SourceVersion, State
from mangrove.tasks.core.partials import StepEnded, abandon_partial, drop_receipts
from mangrove.tasks.core.steps import Run
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import journal
from mangrove.tree.operations.packing import ListedTooSlowly, PackLimits, find_root, walk
from mangrove.tree.sharing.downloads import reopen

STEP_SECONDS = 10.0  # on a standalone service; long, because each step ends a part

CompressRun: TypeAlias = Run[CompressSpec, CompressCursor]


async def plan(run: CompressRun) -> bool:
    """List the entries to pack, once in each run of the task."""
    before = run.cursor
    if before.is_planned and before.attempt == run.task.attempt:
        return False
    run.cursor = CompressCursor(attempt=run.task.attempt, partial=before.partial, has_receipts=before.has_receipts)
    await abandon_partial(run)  # of an earlier run
    run.view.status = "listing"
    root, names = await _find_selection(run)
    await _check_target(run)
    bounds, rows = PackLimits(root.tree.settings), list_packed(run.task.id, 0)
    async with aclosing(walk(root, names)) as batches:
        async for batch in batches:
            bounds.add(batch)
            for packed in batch:
                await rows.append(packed)
            if platform().ends_late_steps and not run.has_time():
                raise ListedTooSlowly("it takes too long to list what is to be packed: pack less at once")
    await rows.flush()
    run.cursor.entry_count, run.cursor.is_planned = rows.count, True
    run.view.total_bytes = bounds.size
    return False


async def _find_selection(run: CompressRun) -> tuple[PathAccess, list[str]]:
    """Return the folder of the selection and the names in it, as the owner may read them now."""
    spec = run.spec
    folder, names = await _find_root(run)
    if not spec.count:
        return folder, names
    return folder, [row.path async for rows in staging.read_requested(run.task.id, spec.count, 0) for row in rows]


async def _check_target(run: CompressRun) -> None:
    """Raise AccessDenied or another Problem if the owner may not store the archive."""
    spec = run.spec
    if spec.target_dir:
        caller = await authorization.authorize_caller(run.task, Right.WRITE)
        refusal = (await authorization.resolve_target(caller, spec.target_dir, spec.name)).find_refusal("")
        if refusal is not None:
            raise refusal


async def pack(run: CompressRun) -> bool:
    """Make the next parts of the archive, then store it. Return True if more work is left."""
    await _check_target(run)
    try:
        if not run.cursor.is_packed:
            run.view.status = "packing"
            await _make_archive(run, await open_parts(run))
        if run.spec.target_dir:
            run.view.status = "storing"
            await _store(run)
    except StepEnded:
        return True
    cursor = run.cursor
    if cursor.failed_count and run.spec.target_dir:
        text = "; ".join(cursor.errors)
        raise StorageProblem(f"{cursor.failed_count} of {cursor.entry_count} items failed: {text}")
    return False


async def _make_archive(run: CompressRun, parts: ArchiveParts) -> None:
    async def authorize() -> PathAccess:
        root, _ = await _find_root(run)
        return root

    await PackingStep(run, parts, authorize).run_to_end()
    run.cursor.is_packed = True
    await run.save()
    pass_checkpoint("compress.packed")


async def _find_root(run: CompressRun) -> tuple[PathAccess, list[str]]:
    """Return the folder of the selection, and the names if they are not in a list; none for all its entries."""
    spec = run.spec
    if spec.share:
        folder = await reopen(TreePath(spec.source_dir), spec.share)
        assert folder.share is not None
        return folder, list(folder.share.roots)
    caller = await authorization.authorize_caller(run.task, Right.WRITE if spec.target_dir else Right.READ)
    folder = await authorization.access_path(caller, spec.source_dir, spec.password)
    return (folder, []) if spec.count else find_root(folder.require_read())


async def _store(run: CompressRun) -> None:
    """Copy the archive into its folder of the tree. Raise EntryExists if the name is taken, StepEnded."""
    spec = run.spec
    caller = await authorization.authorize_caller(run.task, Right.WRITE)
    target = await authorization.resolve_target(caller, spec.target_dir, spec.name)
    await authorization.make_target_folder(target)
    source, path = await find_archive(run), target.storage_path
    version = SourceVersion.of(await source.driver.stat(source.path))
    mode = CopyMode(overwrite=False, durable=configuration.cached().settings.is_durable)
    async with journal.add(path):
        await file_copy.copy_file(run, source, path, version, TargetListing(path.driver), mode)
    pass_checkpoint("compress.stored")


async def clean(run: CompressRun, state: State) -> None:
    """Remove the files in staging, except the names for a retry and an archive that stays there.

    The visitor of a share link, who does not see the task, learns of its failure by the end of the link to the archive.
    """
    await run.flush()
    await abandon_partial(run)
    await drop_receipts(run)
    is_stored = state is State.SUCCEEDED and bool(run.spec.target_dir)
    if run.task.removed or is_stored:
        await staging.clear(run.task.id)
    elif state is not State.SUCCEEDED:
        await staging.remove(run.task.id, run.spec.name)
        if run.spec.share:
            await staging.remove(run.task.id, SELECTION)
