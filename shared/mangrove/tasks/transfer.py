"""The machine that copies: uploads, copies and moves between storages.

Plan writes down what there is to copy, Move copies it in order, Settle says how it ended. The rights of the owner are
looked up anew by every slice.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mangrove.checkpoints import pass_checkpoint
from mangrove.drivers.base import Driver, Entry, Removes, RemovesEmpty
from mangrove.drivers.paging import ListsPages
from mangrove.paths import TreePath
from mangrove.problems import NotFound, StorageProblem
from mangrove.site import snapshot
from mangrove.tasks import authorization, manifest, partials, staging, transfer_parts
from mangrove.tasks.batches import (
    TransferRun,
    TransferSlice,
    copy_batch,
    find_source_changes,
    note_batch,
    split_batches,
)
from mangrove.tasks.endpoints import TargetListing
from mangrove.tasks.file_copy import CopyMode
from mangrove.tasks.kinds import DELETE_POLICIES, State
from mangrove.tasks.listed import plan_list
from mangrove.tasks.manifest import Manifest, ManifestLost
from mangrove.tasks.part_receipts import drop_receipts
from mangrove.tasks.partials import OutOfTime
from mangrove.tasks.routes import TransferRoute, find_route
from mangrove.tasks.specs import ManifestEntry, TransferCursor
from mangrove.tree import journal, mounts
from mangrove.tree.journal import Touched
from mangrove.tree.mounts import Located, select_mount

SAVE_SECONDS = 2.0


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


@dataclass(slots=True)
class _Plan:
    """The lists that a plan fills; `total` bytes, as far as sizes are known."""

    run: TransferRun
    entries: Manifest[ManifestEntry]
    folders: Manifest[str]
    total: int
    saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, run: TransferRun) -> _Plan:
        """The lists as far as the cursor counts them."""
        id, cursor = run.task.id, run.cursor
        entries = manifest.open_entries(id, 0, cursor.entry_count)
        return cls(run, entries, manifest.open_folders(id, cursor.folder_count), cursor.total)

    async def add(self, path: str, entry: Entry) -> None:
        """Write an entry down."""
        await self.entries.append(ManifestEntry.of(path, entry))
        if entry.is_dir:
            await self.folders.append(path)
        else:
            self.total += entry.size or 0

    def count(self) -> None:
        """All that was written down so far belongs to the plan; what comes after that is written down anew after a
        failure."""
        cursor = self.run.cursor
        cursor.entry_count, cursor.folder_count, cursor.total = self.entries.count, self.folders.count, self.total

    async def flush(self) -> None:
        """Store what was written down."""
        await self.entries.flush()
        await self.folders.flush()

    async def save(self) -> None:
        """Count, and now and then have the record know it."""
        self.count()
        if time.monotonic() - self.saved > SAVE_SECONDS:
            await self.flush()
            await self.run.save()
            self.saved = time.monotonic()


async def write_manifest(run: TransferRun, route: TransferRoute) -> bool:
    """Write down what is below the source of `route`, from where the cursor says; whether there is more."""
    cursor = run.cursor
    lists = _Plan.of(run)
    if not run.spec.names and not cursor.entry_count:
        entry = await _find_source(route)
        if not entry.is_dir:
            cursor.only_entry, cursor.entry_count, cursor.total = ManifestEntry.of("", entry), 1, entry.size or 0
            return _end_plan(run)
        await lists.add("", entry)
        lists.count()
    try:
        if cursor.listed < run.spec.names and await plan_list(run, route, lists):
            return True
        while cursor.folders_walked < lists.folders.count:
            for name in await lists.folders.read_rows(cursor.folders_walked):
                async for next_page in _walk_folder(route, name, lists, cursor.next_page):
                    cursor.next_page = next_page
                    cursor.folders_walked += 0 if next_page else 1
                    lists.count()
                    if not run.has_time():
                        return True
    finally:
        await lists.flush()
    return _end_plan(run)


async def _find_source(route: TransferRoute) -> Entry:
    """The one entry that is to be carried."""
    entry = await route.source.driver.stat(route.source.path)
    if route.access is not None and route.source.path == "/":
        raise StorageProblem("the root of a storage cannot be carried")
    return entry


def _end_plan(run: TransferRun) -> bool:
    run.view.total_bytes = run.cursor.total
    run.cursor.planned, run.cursor.attempt = True, run.task.attempt
    return False


async def _walk_folder(route: TransferRoute, name: str, lists: _Plan, start: str) -> AsyncGenerator[str, None]:
    """Write down what a folder holds and the caller may see, from the page that begins at `start`. Yields after each
    page where the next one begins, "" at the end; a storage without pages has one."""
    access = route.access.child(name) if route.access is not None and name else route.access
    visible = access.make_visibility_filter() if access is not None else None
    driver, path = route.source.driver, (route.source / name).path

    async def add(entries: Sequence[Entry]) -> None:
        for entry in entries:
            if not entry.is_link and (visible is None or visible.passes(entry)):
                await lists.add(f"{name}/{entry.name}".lstrip("/"), entry)

    if access is not None and name and access.is_mount_or_ancestor():
        yield ""
        return
    if not isinstance(driver, ListsPages):
        async for batch in driver.list(path):
            await add(batch)
        yield ""
        return
    while True:
        page = await driver.list_page(path, start)
        await add(page.entries)
        yield page.next_start
        if not page.next_start:
            return
        start = page.next_start


async def move(run: TransferRun) -> bool:
    """Copy what is next; more while there is something left and, after a move, folders to remove."""
    route, cursor = await find_route(run), run.cursor
    run.view.status = "uploading"
    if cursor.partial is not None and not cursor.partial.storage:  # of a record of the time before it named its storage
        cursor.partial.storage = partials.remember_storage(route.target.mount)
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
        if await copy_on(await open_slice(run, route)):
            return True
        if cursor.failed_count:
            failures = "; ".join(cursor.errors)
            raise StorageProblem(f"{cursor.failed_count} of {cursor.entry_count} items failed: {failures}")
        return run.task.kind == "move" and await _remove_folders(run, route)


async def open_slice(run: TransferRun, route: TransferRoute) -> TransferSlice:
    """What is moved is durable at the target before it goes, whatever the setting for copies and uploads says."""
    spec, is_move, driver = run.spec, run.task.kind == "move", route.target.endpoint.driver
    settings = snapshot.current().settings
    mode = CopyMode(
        route.overwrite, spec.keep_existing, is_move or settings.is_durable, verify=is_move and settings.verify_moves
    )
    failed = transfer_parts.open_failed(run, run.cursor)
    is_direct = not spec.keep_existing and await driver.can_refuse_existing()
    return TransferSlice(run, route, failed, TargetListing(driver), mode, is_direct)


async def copy_on(work: TransferSlice) -> bool:
    """Copy what is next, until the slice is over; whether there is more. What the cursor counts is as durable at the
    target as it is to be."""
    run, cursor = work.run, work.run.cursor
    entries = open_entries(run, cursor.round, cursor.entry_count)
    while rows := await entries.read_rows(cursor.position):
        for batch in split_batches(rows):
            try:
                async with note_batch(work, batch):
                    done = await copy_batch(work, batch)
            except OutOfTime:
                return True
            pass_checkpoint("move.batch")
            cursor.position += done
            is_over = done < len(batch) or not run.has_time()
            if is_over or time.monotonic() - work.saved > SAVE_SECONDS:
                await work.save()
            if is_over:
                return True
    run.show_progress(cursor.bytes_done)
    return False


async def _remove_folders(run: TransferRun, route: TransferRoute) -> bool:
    """Remove the folders that a move has emptied, the deepest first; what is not empty stays. Whether there is more."""
    cursor = run.cursor
    folders = manifest.open_folders(run.task.id, cursor.folder_count)
    left = folders.count if cursor.folders_left is None else cursor.folders_left
    if left:
        with suppress(NotFound):  # what was moved is moved on already
            await route.target.endpoint.sync()  # also folders that hold no file
    while left:
        start = (left - 1) - (left - 1) % manifest.CHUNK
        rows = (await folders.read_rows(start))[: left - start]
        async with journal.change_folders(*_find_tidied(route, rows)):
            for name in reversed(rows):
                await _remove_empty(route.source.driver, (route.source / name).path)
                pass_checkpoint("move.tidied")
                left -= 1
                cursor.folders_left = left
                if not run.has_time():
                    return True
    cursor.folders_left = left
    return False


def _find_tidied(route: TransferRoute, names: Sequence[str]) -> list[Touched]:
    """Where the removal of folders changes the source."""
    source = route.source
    if not route.listed or source.mount is None:
        return find_source_changes(source, True)
    parents = {(source / name).path.parent for name in names}
    return [Touched(Located(source.driver, parent, source.mount)) for parent in parents]


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
    """Drop the parts of an unfinished file. What is staged goes when its policy says so, or no retry is possible; the
    lists go with it, and when nothing is left to be retried."""
    spec, partial = run.spec, run.cursor.partial
    if partial is not None and not partial.storage:  # as in `move`
        mount, _ = select_mount(await mounts.ready(), TreePath(spec.target_dir))
        partial.storage = partials.remember_storage(mount)
    lists = set() if run.cursor.only_entry is not None else {run.task.id}
    brought = {spec.staged.split("/")[1]} if spec.staged else set()
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
