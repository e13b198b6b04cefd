"""The machine that copies: uploads, copies and moves between storages.

Plan lists the entries, Move copies them in order, Settle writes how the task ended. Plan also moves entries that a
storage can move itself. Every step evaluates the rights of the owner again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from mangrove.core.chunked import in_batches
from mangrove.core.problems import EntryNotFound, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.tasks.core import authorization, files, partials, staging
from mangrove.tasks.core.folders import remove_folders, walk_folder, walk_folders
from mangrove.tasks.core.model import DELETE_POLICIES, ManifestEntry, State
from mangrove.tasks.core.partials import drop_receipts
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.core.staging import ManifestLost, StagedList
from mangrove.tasks.core.steps import SAVE_INTERVAL_SECONDS
from mangrove.tasks.transfer import parts
from mangrove.tasks.transfer.batches import copy_entries
from mangrove.tasks.transfer.declaration import TransferCursor
from mangrove.tasks.transfer.step import TransferRoute, TransferRun, find_route, open_entries, open_step
from mangrove.tasks.transfer.storage_moves import find_mover, move_within
from mangrove.tree.access import PathAccess

MAX_PLANNED_BATCH = 128  # entries between two checks of the time


@contextmanager
def _forget_lost_plan(run: TransferRun) -> Iterator[None]:
    """Fail the task if the lists are lost; its next run plans again. Entries that were copied count as copied then."""
    try:
        yield
    except ManifestLost:
        _forget_plan(run)
        raise


def _forget_plan(run: TransferRun) -> None:
    run.cursor = TransferCursor(partial=run.cursor.partial)


async def plan(run: TransferRun) -> bool:
    """List every entry below the source, each folder before its content. Return True if there are more folders."""
    if run.cursor.planned and run.cursor.attempt != run.task.attempt:
        _plan_retry(run)
        if run.cursor.has_unlisted_folder or not await _are_lists_whole(run):
            _forget_plan(run)
    if run.cursor.planned:
        return False
    route = await find_route(run)
    if not run.cursor.entry_count:
        run.view.status = "getting src object"
        if route.access is None:
            await authorization.make_target_folder(route.target)
    with _forget_lost_plan(run):
        return await write_lists(run, route)


def _plan_retry(run: TransferRun) -> None:
    """Make the next run of a planned task copy the failed entries, then the remaining ones."""
    cursor = run.cursor
    cursor.attempt = run.task.attempt
    if cursor.position >= cursor.entry_count and cursor.failed_count:
        cursor.round += 1
        cursor.entry_count, cursor.position, cursor.failed_count = cursor.failed_count, 0, 0
    cursor.errors = []


async def _are_lists_whole(run: TransferRun) -> bool:
    """True if all rows of a plan that remain to be read are in staging."""
    cursor, id = run.cursor, run.task.id
    left = cursor.folder_count if cursor.folders_left is None else cursor.folders_left
    try:
        await open_entries(run, cursor.round, cursor.entry_count).check(cursor.position)
        await open_entries(run, cursor.round + 1, cursor.failed_count).check(0)
        if run.task.kind == "move":
            await staging.open_folders(id, left).check(0)
    except ManifestLost:
        return False
    return True


@dataclass(slots=True)
class Lists:
    """The lists that a plan writes."""

    run: TransferRun
    entries: StagedList[ManifestEntry]
    folders: StagedList[str]
    total: int
    """Bytes, as far as sizes are known."""
    saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, run: TransferRun) -> Lists:
        """Return the lists up to the rows that the cursor counts."""
        id, cursor = run.task.id, run.cursor
        entries = staging.open_entries(id, 0, cursor.entry_count)
        return cls(run, entries, staging.open_folders(id, cursor.folder_count), cursor.total)

    async def add(self, row: ManifestEntry) -> None:
        """Add an entry; a folder is also walked through."""
        await self.entries.append(row)
        if row.is_dir:
            await self.folders.append(row.path)
        else:
            self.total += row.size or 0

    def count(self) -> None:
        """Count all rows so far in the cursor. After a failure, later rows are written again."""
        cursor = self.run.cursor
        cursor.entry_count, cursor.folder_count, cursor.total = self.entries.count, self.folders.count, self.total

    async def flush(self) -> None:
        """Store the rows."""
        await self.entries.flush()
        await self.folders.flush()

    async def save(self) -> None:
        """Count the rows; at intervals, store them and the cursor."""
        self.count()
        if time.monotonic() - self.saved > SAVE_INTERVAL_SECONDS:
            await self.flush()
            await self.run.save()
            self.saved = time.monotonic()


async def write_lists(run: TransferRun, route: TransferRoute) -> bool:
    """Write the lists, from the position of the cursor on. Return True if there is more."""
    cursor = run.cursor
    lists = Lists.of(run)
    if run.spec.selection in ("entry", "files") and not cursor.entry_count and not cursor.folder_count:
        row = ManifestEntry.of("", await _find_source(route))
        if not row.is_dir:
            cursor.only_entry, cursor.entry_count, cursor.total = row, 1, row.size or 0
            return _end_plan(run)
        await (lists.folders.append("") if route.is_flat else lists.add(row))
        lists.count()
    try:
        if cursor.listed < run.spec.count and await _plan_requested(run, route, lists):
            return True
        if await walk_folders(run, lists.folders, partial(_walk_folder, route, lists), lists.count):
            return True
    finally:
        await lists.flush()
    return _end_plan(run)


async def _find_source(route: TransferRoute) -> Entry:
    entry = await route.source.driver.stat(route.source.path)
    if route.access is not None and route.source.path == "/" and not route.is_flat:
        raise StorageProblem("the root of a storage cannot be carried")
    return entry


def _end_plan(run: TransferRun) -> bool:
    run.view.total_bytes = run.cursor.total
    run.show_items(run.cursor.position, run.cursor.entry_count)
    run.cursor.planned, run.cursor.attempt = True, run.task.attempt
    return False


async def _plan_requested(run: TransferRun, route: TransferRoute, lists: Lists) -> bool:
    """Continue with the list of the request: let the storage move the entries that it can move itself, and list the
    rest. Return True if there is more.
    """
    cursor, count = run.cursor, run.spec.count
    is_movable = run.task.kind == "move" and find_mover(route, run.spec.is_rename) is not None
    async for rows in staging.read_requested(run.task.id, count, cursor.listed):
        async for batch in in_batches(rows, MAX_PLANNED_BATCH):
            for row in await move_within(route, batch, run.spec.is_rename) if is_movable else batch:
                await _add_requested(run, route, row, lists)
            cursor.listed += len(batch)
            if is_movable:
                run.view.progress = round(cursor.listed / count * 100, 4)
            await lists.save()
            if not run.has_time():
                return cursor.listed < count
    return False


async def _add_requested(run: TransferRun, route: TransferRoute, row: ManifestEntry, lists: Lists) -> None:
    """List an entry of the request. A folder is listed as it is now, since a worker may have moved it and died."""
    if not row.is_dir:
        await lists.add(row)
        return
    refusal = await route.find_refusal(row.path)
    present = None if refusal is not None else await files.find(route.source.child(row.path))
    if present is None and refusal is None and run.task.kind == "move":
        moved = await files.find(route.find_target(row.path))
        if moved is not None and moved.is_dir:
            return
    # an entry that is gone or refused is not walked through: it fails by name in its turn
    run.cursor.has_unlisted_folder |= present is None
    await lists.add(row._replace(is_dir=False) if present is None else ManifestEntry.of(row.path, present))


async def _walk_folder(route: TransferRoute, lists: Lists, name: str, start: str) -> AsyncGenerator[str, None]:
    """List the entries of a folder that the caller may see, from the page that begins at `start`; see `walk_folder`."""
    access = route.access.child(name) if route.access is not None and name else route.access
    if access is not None and name and (access.is_mount_or_ancestor() or (route.is_flat and not _may_empty(access))):
        yield ""
        return
    visible = access.make_visibility_filter() if access is not None else None

    async def take(entries: Sequence[Entry]) -> None:
        rows = [
            ManifestEntry.of(f"{name}/{entry.name}".lstrip("/"), entry)
            for entry in entries
            if not entry.is_link and (visible is None or visible.passes(entry))
        ]
        if route.is_flat:
            await _gather_files(route, rows, lists)
            return
        for row in rows:
            await lists.add(row)

    async for next_page in walk_folder(route.source.driver, route.source.child(name).path, start, take):
        yield next_page


def _may_empty(access: PathAccess) -> bool:
    """True if the caller may remove files from a folder."""
    return access.may_read() and access.may_write()


async def _gather_files(route: TransferRoute, rows: Sequence[ManifestEntry], lists: Lists) -> None:
    """Move files out of their folder, as far as the storage can do that itself.

    List the other files, and the folders to walk through.
    """
    files_left = [
        row for row in rows if not row.is_dir and route.find_target(row.path).path != route.source.child(row.path).path
    ]
    for row in await move_within(route, files_left, False):
        await lists.add(row)
    for row in rows:
        if row.is_dir:
            await lists.folders.append(row.path)


async def move(run: TransferRun) -> bool:
    """Copy the next entries. True if there is more to copy or, after a move, if there are folders to remove."""
    route, cursor = await find_route(run), run.cursor
    run.view.status = "uploading"
    with _forget_lost_plan(run):
        if not cursor.planned:
            raise ManifestLost  # with nothing to copy the task would appear to have succeeded
        if run.task.kind == "move":
            await run.flush()  # once a source is gone, it cannot be planned again
        if cursor.handed:
            await parts.take_over(run)
        if parts.is_to_be_shared(run):
            parts.hand_out(run)
            return True
        if await copy_entries(await open_step(run, route)):
            return True
        if cursor.failed_count:
            failures = "; ".join(cursor.errors)
            raise StorageProblem(f"{cursor.failed_count} of {cursor.entry_count} items failed: {failures}")
        return run.task.kind == "move" and not route.is_flat and await _remove_folders(run, route)


async def _remove_folders(run: TransferRun, route: TransferRoute) -> bool:
    """Remove the folders that a move has emptied. Return True if there is more."""
    cursor = run.cursor
    if cursor.folder_count and cursor.folders_left != 0:
        with suppress(EntryNotFound):  # another change has advanced it already
            await files.sync(route.target.storage_path)  # also folders without a file

    async def may_remove(name: str) -> bool:
        await route.require_kept_rules(name)
        return True

    return await remove_folders(run, route.source, is_listed=route.is_listed, may_remove=may_remove)


async def clean(run: TransferRun, state: State) -> None:
    """Drop the parts of an unfinished file, and remove the lists and the staged bytes.

    Staged bytes are removed if the policy requires it or if no retry is possible, lists also after a success.
    """
    spec, cursor = run.spec, run.cursor
    lists = set() if cursor.only_entry is not None else {run.task.id}
    staged = {spec.source.split("/")[1]} if KINDS[run.task.kind].is_staged else set()
    removed_ids: set[str] = set()
    if run.task.removed or state in DELETE_POLICIES.get(spec.delete_policy, ()):
        removed_ids = lists | staged
    elif state is State.SUCCEEDED:
        removed_ids = lists - staged
    if cursor.partial is not None or removed_ids:
        await run.flush()
    await partials.abandon_partial(run)
    await parts.abandon_parts(run)
    await drop_receipts(run)
    for id in removed_ids:
        await staging.clear(id)
