"""The machine that copies: uploads, copies and moves between storages.

Plan writes down what there is to copy, Move copies it in order, Settle says how it ended. The rights of the owner are
looked up anew by every step.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.problems import EntryNotFound, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.tasks.core import authorization, manifest, partials, staging
from mangrove.tasks.core.endpoints import TargetListing
from mangrove.tasks.core.file_copy import CopyMode
from mangrove.tasks.core.folders import remove_folders, walk_folder, walk_folders
from mangrove.tasks.core.kinds import DELETE_POLICIES, State
from mangrove.tasks.core.manifest import Manifest, ManifestLost
from mangrove.tasks.core.partials import StepEnded, drop_receipts
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.core.steps import SAVE_INTERVAL_SECONDS
from mangrove.tasks.transfer import parts as transfer_parts
from mangrove.tasks.transfer.batches import copy_batch, get_batch_size, note_batch, split_batches
from mangrove.tasks.transfer.declaration import TransferCursor
from mangrove.tasks.transfer.planning import Lists, gather_files, plan_list
from mangrove.tasks.transfer.routes import TransferRoute, find_route
from mangrove.tasks.transfer.step import RampUpLimiter, TransferRun, TransferStep
from mangrove.tree.access import PathAccess


@contextmanager
def _forget_lost_plan(run: TransferRun) -> Iterator[None]:
    """When the lists are lost, the task fails and its next run plans anew; what is copied by then counts as copied."""
    try:
        yield
    except ManifestLost:
        _forget_plan(run)
        raise


def _forget_plan(run: TransferRun) -> None:
    run.cursor = TransferCursor(partial=run.cursor.partial)


async def plan(run: TransferRun) -> bool:
    """Write down every entry below the source, folders before what they hold; more while there are folders left."""
    if run.cursor.planned and run.cursor.attempt != run.task.attempt:
        _plan_retry(run)
        if not await _are_lists_whole(run):
            _forget_plan(run)
    if run.cursor.planned:
        return False
    route = await find_route(run)
    if not run.cursor.entry_count:
        run.view.status = "getting src object"
        if route.access is None:
            await authorization.make_target_folder(route.target)
    with _forget_lost_plan(run):
        return await write_manifest(run, route)


def _plan_retry(run: TransferRun) -> None:
    """The next run of a planned task: what failed, then what was not reached."""
    cursor = run.cursor
    cursor.attempt = run.task.attempt
    if cursor.position >= cursor.entry_count and cursor.failed_count:
        cursor.round += 1
        cursor.entry_count, cursor.position, cursor.failed_count = cursor.failed_count, 0, 0
    cursor.errors = []


async def _are_lists_whole(run: TransferRun) -> bool:
    """Whether all that is still to be read of a plan is in staging."""
    cursor, id = run.cursor, run.task.id
    left = cursor.folder_count if cursor.folders_left is None else cursor.folders_left
    try:
        await open_entries(run, cursor.round, cursor.entry_count).check(cursor.position)
        await open_entries(run, cursor.round + 1, cursor.failed_count).check(0)
        if run.task.kind == "move":
            await manifest.open_folders(id, left).check(0)
    except ManifestLost:
        return False
    return True


def open_entries(run: TransferRun, round: int, count: int) -> Manifest[ManifestEntry]:
    """What is copied in a round."""
    return manifest.open_entries(run.task.id, round, count, run.cursor.only_entry)


async def write_manifest(run: TransferRun, route: TransferRoute) -> bool:
    """Write down what is below the source of `route`, from where the cursor says; whether there is more."""
    cursor = run.cursor
    lists = Lists.of(run)
    if run.spec.selection in ("entry", "files") and not cursor.entry_count and not cursor.folder_count:
        entry = await _find_source(route)
        if not entry.is_dir:
            cursor.only_entry, cursor.entry_count, cursor.total = ManifestEntry.of("", entry), 1, entry.size or 0
            return _end_plan(run)
        await (lists.folders.append("") if route.is_flat else lists.add("", entry))
        lists.count()
    try:
        if cursor.listed < run.spec.count and await plan_list(run, route, lists):
            return True
        if await walk_folders(run, lists.folders, partial(_walk_folder, route, lists), lists.count):
            return True
    finally:
        await lists.flush()
    return _end_plan(run)


async def _find_source(route: TransferRoute) -> Entry:
    """The one entry that is to be carried."""
    entry = await route.source.driver.stat(route.source.path)
    if route.access is not None and route.source.path == "/" and not route.is_flat:
        raise StorageProblem("the root of a storage cannot be carried")
    return entry


def _end_plan(run: TransferRun) -> bool:
    run.view.total_bytes = run.cursor.total
    run.cursor.planned, run.cursor.attempt = True, run.task.attempt
    return False


async def _walk_folder(route: TransferRoute, lists: Lists, name: str, start: str) -> AsyncGenerator[str, None]:
    """Write down what a folder holds and the caller may see, from the page that begins at `start`; as `walk_folder`."""
    access = route.access.child(name) if route.access is not None and name else route.access
    if access is not None and name and (access.is_mount_or_ancestor() or (route.is_flat and not _may_empty(access))):
        yield ""
        return
    visible = access.make_visibility_filter() if access is not None else None

    async def take(entries: Sequence[Entry]) -> None:
        rows = [
            (f"{name}/{entry.name}".lstrip("/"), entry)
            for entry in entries
            if not entry.is_link and (visible is None or visible.passes(entry))
        ]
        if route.is_flat:
            await gather_files(route, rows, lists)
            return
        for path, entry in rows:
            await lists.add(path, entry)

    async for next_page in walk_folder(route.source.driver, (route.source / name).path, start, take):
        yield next_page


def _may_empty(access: PathAccess) -> bool:
    """Whether the caller may take files away from a folder."""
    return access.may_read() and access.may_write()


async def move(run: TransferRun) -> bool:
    """Copy what is next; more while there is something left and, after a move, folders to remove."""
    route, cursor = await find_route(run), run.cursor
    run.view.status = "uploading"
    with _forget_lost_plan(run):
        if not cursor.planned:
            raise ManifestLost  # with nothing to copy the task would seem to have succeeded
        if run.task.kind == "move":
            await run.write_kept()  # once a source is gone, it cannot be planned anew
        if cursor.handed:
            await transfer_parts.take_over(run)
        if transfer_parts.is_to_be_shared(run):
            transfer_parts.hand_out(run)
            return True
        if await copy_on(await open_step(run, route)):
            return True
        if cursor.failed_count:
            failures = "; ".join(cursor.errors)
            raise StorageProblem(f"{cursor.failed_count} of {cursor.entry_count} items failed: {failures}")
        is_to_tidy = run.task.kind == "move" and not route.is_flat
        return is_to_tidy and await _remove_folders(run, route)


async def open_step(run: TransferRun, route: TransferRoute) -> TransferStep:
    """What is moved is durable at the target before it goes, whatever the setting for copies and uploads says."""
    spec, is_move, driver = run.spec, run.task.kind == "move", route.target.endpoint.driver
    settings = configuration.cached().settings
    mode = CopyMode(
        route.overwrite, spec.keep_existing, is_move or settings.is_durable, verify=is_move and settings.verify_moves
    )
    failed = transfer_parts.open_failed(run, run.cursor)
    is_direct = not spec.keep_existing and await driver.can_refuse_existing()
    lanes = RampUpLimiter(settings.small_file_threads_num)
    return TransferStep(run, route, failed, TargetListing(driver), mode, is_direct, lanes)


async def copy_on(work: TransferStep) -> bool:
    """Copy what is next, until the step is over; whether there is more. What the cursor counts is as durable at the
    target as it is to be."""
    run, cursor = work.run, work.run.cursor
    entries = open_entries(run, cursor.round, cursor.entry_count)
    while rows := await entries.read_rows(cursor.position):
        for batch in split_batches(rows, get_batch_size(work)):
            try:
                async with note_batch(work, batch) as change:
                    done = await copy_batch(work, batch, change)
            except StepEnded:
                return True
            pass_checkpoint("move.batch")
            cursor.position += done
            is_over = done < len(batch) or not run.has_time()
            if is_over or time.monotonic() - work.saved > SAVE_INTERVAL_SECONDS:
                await work.save()
            if is_over:
                return True
    run.show_progress(cursor.bytes_done)
    return False


async def _remove_folders(run: TransferRun, route: TransferRoute) -> bool:
    """Remove the folders that a move has emptied. Whether there is more."""
    cursor = run.cursor
    if cursor.folder_count and cursor.folders_left != 0:
        with suppress(EntryNotFound):  # what was moved is moved on already
            await route.target.endpoint.sync()  # also folders that hold no file
    return await remove_folders(run, route.source, is_listed=route.listed)


async def clean(run: TransferRun, state: State) -> None:
    """Drop the parts of an unfinished file. What is staged goes when its policy says so, or no retry is possible; the
    lists go with it, and when nothing is left to be retried."""
    spec, partial = run.spec, run.cursor.partial
    lists = set() if run.cursor.only_entry is not None else {run.task.id}
    brought = {spec.source.split("/")[1]} if KINDS[run.task.kind].is_staged else set()
    needless: set[str] = set()
    if run.task.removed or state in DELETE_POLICIES.get(spec.delete_policy, ()):
        needless = lists | brought
    elif state is State.SUCCEEDED:
        needless = lists - brought
    if partial is not None or needless:
        await run.write_kept()
    await partials.abandon_partial(run)
    await transfer_parts.abandon_parts(run)
    await drop_receipts(run)
    for id in needless:
        await staging.clear(id)
