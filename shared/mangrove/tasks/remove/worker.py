"""The machine that removes the entries of a list, or all folders below a folder that do not contain a file.

It restores entries of the trash, too. A missing entry counts as removed, and an id that is not in the trash as
restored, so each run can start again after a failure.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from mangrove.core import deadlines
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import in_batches
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import (
    EntryNotFound,
    NotMounted,
    NotSupported,
    OutOfTime,
    Problem,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import Entry
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, partials, staging
from mangrove.tasks.core.file_copy import CopyMode, copy_file
from mangrove.tasks.core.files import TargetListing
from mangrove.tasks.core.folders import remove_folders, walk_folder, walk_folders
from mangrove.tasks.core.model import SourceVersion, State
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, SAVE_INTERVAL_SECONDS, Run
from mangrove.tasks.remove.declaration import RemoveCursor, RemoveSpec
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import changes
from mangrove.tree.trash import restoring
from mangrove.tree.trash.moving import LargeFile
from mangrove.tree.trash.versions import KeptPath

REMOVAL_CONCURRENCY = 16  # entries

RemoveRun: TypeAlias = Run[RemoveSpec, RemoveCursor]


async def remove(run: RemoveRun) -> bool:
    """Remove the next entries or folders, or restore the next entries. True if there is more."""
    if run.cursor.attempt != run.task.attempt:
        run.cursor = RemoveCursor(attempt=run.task.attempt, partial=run.cursor.partial)
    if run.spec.restores:
        return await _restore_entries(run)
    folder, storage_path = await _find_folder(run)
    if run.spec.count:
        return await _remove_entries(run, folder, storage_path)
    if not run.cursor.planned and await _list_folders(run, folder, storage_path):
        return True
    run.cursor.planned = True

    async def may_remove(name: str) -> bool:
        return bool(name) and changes.may_prune(folder.with_path(folder.path / name))

    return await remove_folders(run, storage_path, is_listed=True, may_remove=may_remove)


async def _find_folder(run: RemoveRun) -> tuple[PathAccess, StoragePath]:
    """Return the folder in which entries are removed.

    Raise AccessDenied or a similar problem if the owner may not remove them any more.
    """
    caller = await authorization.authorize_caller(run.task, Right.DELETE)
    folder = await authorization.access_path(caller, run.spec.folder, run.spec.password)
    folder.require(Right.DELETE)
    storage_path = await folder.require_read().locate()
    if not storage_path.driver.capabilities.remove:
        raise NotSupported
    return folder, storage_path


async def _list_folders(run: RemoveRun, folder: PathAccess, storage_path: StoragePath) -> bool:
    """List the folders below the folder. True if there is more."""
    folders = staging.open_folders(run.task.id, run.cursor.folder_count)
    if not folders.count:
        await folders.append("")

    async def walk(name: str, start: str) -> AsyncGenerator[str, None]:
        async def take(entries: Sequence[Entry]) -> None:
            for entry in entries:
                if entry.is_dir and not entry.is_link:
                    await folders.append(f"{name}/{entry.name}".lstrip("/"))

        path = storage_path.path / name
        try:
            if not name or changes.may_prune(folder.with_path(folder.path / name)):
                async for next_page in walk_folder(storage_path.driver, path, start, take):
                    yield next_page
                return
        except EntryNotFound:
            pass  # it is gone, or its entries cannot be shown
        yield ""

    def count() -> None:
        run.cursor.folder_count = folders.count

    try:
        return await walk_folders(run, folders, walk, count)
    finally:
        await folders.flush()


async def _remove_entries(run: RemoveRun, folder: PathAccess, storage_path: StoragePath) -> bool:
    async def remove_entry(name: str) -> None:
        changes.check_removal(folder, name)
        await changes.remove_entry(folder, storage_path, name)

    return await _change_entries(run, remove_entry)


async def _restore_entries(run: RemoveRun) -> bool:
    """Restore the next entries. Their rights are evaluated with each of them."""
    caller = await authorization.authorize_caller(run.task, Right.DELETE)

    async def restore_entry(id: str) -> None:
        outcome = await restoring.restore(caller, [id], run.spec.overwrite, run.spec.password)
        if outcome.left:
            raise outcome.interruption or OutOfTime
        for _, problem in outcome.failed:
            if not isinstance(problem, EntryNotFound):
                raise problem

    return await _change_entries(run, restore_entry)


async def _change_entries(run: RemoveRun, change: Callable[[str], Awaitable[None]]) -> bool:
    """Change the next entries of the list. True if there is more."""
    cursor, count, saved = run.cursor, run.spec.count, time.monotonic()

    async def change_entry(name: str) -> Problem | None:
        try:
            await change(name)
        except (Unreachable, OutOfTime):
            raise
        except Problem as problem:
            return problem
        return None

    async for rows in staging.read_requested(run.task.id, count, cursor.position):
        async for batch in in_batches(rows, REMOVAL_CONCURRENCY):
            try:
                with deadlines.limit(run.seconds_left):
                    calls = [partial(change_entry, row.path) for row in batch]
                    problems = await gather_bounded(calls, REMOVAL_CONCURRENCY)
            except LargeFile as file:
                await _move_large_file(run, file)
                return True
            except OutOfTime:
                return True
            for row, problem in zip(batch, problems, strict=True):
                if problem is not None:
                    cursor.failed_count += 1
                    cursor.errors = [*cursor.errors, f"{row.path}: {problem.message}"][:MAX_NAMED_FAILURES]
            pass_checkpoint("remove.batch")
            cursor.position += len(batch)
            run.view.progress = round(cursor.position / count * 100, 4)
            run.show_items(cursor.position, count)
            run.begin_item(batch[-1].path)
            if not run.has_time():
                return True
            if time.monotonic() - saved > SAVE_INTERVAL_SECONDS:
                await run.save()
                saved = time.monotonic()
    if cursor.failed_count:
        raise StorageProblem(f"{cursor.failed_count} of {count} items failed: {'; '.join(cursor.errors)}")
    return False


async def clean(run: RemoveRun, state: State) -> None:
    """Remove the parts of an unfinished file, and the lists, unless a retry may need them."""
    with suppress(Problem):  # a function without rights to the bucket leaves the parts to its lifecycle rule
        await partials.abandon_partial(run)
    await partials.drop_receipts(run)
    if run.task.removed or state is State.SUCCEEDED:
        await run.flush()
        await staging.clear(run.task.id)


async def _move_large_file(run: RemoveRun, file: LargeFile) -> None:
    """Copy a file that its storage cannot copy in one call, in parts, and remove it from its old path.

    A step that ends before continues with the next step.
    """
    driver = file.driver
    mount = (await mounts.ready()).by_id.get(driver.context.storage_id)
    if mount is None:
        raise NotMounted
    source, target = KeptPath(driver, file.path, mount), KeptPath(driver, file.target, mount)
    version = SourceVersion.of(await driver.stat(file.path))
    try:
        copied = await copy_file(run, source, target, version, TargetListing(driver), CopyMode(overwrite=True))
    except partials.StepEnded:
        return
    await driver.remove_unchanged(file.path, copied.version)
