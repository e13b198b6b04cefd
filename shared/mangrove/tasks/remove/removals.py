"""Tasks that remove: the entries of a list, or all folders below one that hold no file.

What is not there counts as removed, so each of them begins anew after a failure.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial

from mangrove.core import deadlines
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import NotFound, NotSupported, OutOfTime, Problem, StorageProblem, Unreachable
from mangrove.core.slices import in_batches
from mangrove.drivers.base import Driver, Entry, Removes, RemovesEmpty
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, manifest, name_lists
from mangrove.tasks.core.endpoints import Endpoint
from mangrove.tasks.core.specs import TransferCursor
from mangrove.tasks.transfer.batches import KEPT_ERRORS, find_source_changes
from mangrove.tasks.transfer.planning import SAVE_SECONDS, Lists, walk_folder
from mangrove.tasks.transfer.step import TransferRun
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import Located
from mangrove.tree.operations import changes, journal
from mangrove.tree.operations.journal import Touched

AT_ONCE = 16  # entries that are removed side by side


async def plan(run: TransferRun) -> bool:
    """Write down which folders may be empty; the entries of a list are written down already. Whether there is more."""
    if run.cursor.attempt != run.task.attempt:
        run.cursor = TransferCursor(attempt=run.task.attempt)
    if not run.cursor.planned and run.spec.removes == "empty_folders" and await _list_folders(run):
        return True
    run.cursor.planned = True
    return False


async def work(run: TransferRun) -> bool:
    """Remove what is next; whether there is more."""
    folder, located = await _find_folder(run)
    if run.spec.removes == "entries":
        return await _remove_entries(run, folder, located)

    def may_remove(name: str) -> bool:
        return bool(name) and changes.may_prune(folder.with_path(folder.path / name))

    source = Endpoint(located.driver, located.path, located.mount)
    return await remove_folders(run, source, is_listed=True, may_remove=may_remove)


async def _find_folder(run: TransferRun) -> tuple[PathAccess, Located]:
    """The folder in which things are removed; Denied and its like when the owner may not do that any more."""
    caller = await authorization.authorize_caller(run.task, Right.DELETE)
    folder = await authorization.access_path(caller, run.spec.source, run.spec.password)
    folder.require(Right.DELETE)
    located = await folder.require_read().locate()
    if not isinstance(located.driver, Removes):
        raise NotSupported
    return folder, located


async def _list_folders(run: TransferRun) -> bool:
    folder, located = await _find_folder(run)
    lists = Lists.of(run)
    if not lists.folders.count:
        await lists.folders.append("")

    async def walk(name: str, start: str) -> AsyncGenerator[str, None]:
        async def take(entries: Sequence[Entry]) -> None:
            for entry in entries:
                if entry.is_dir and not entry.is_link:
                    await lists.folders.append(f"{name}/{entry.name}".lstrip("/"))

        path = located.path / name if name else located.path
        try:
            if not name or changes.may_prune(folder.with_path(folder.path / name)):
                async for next_page in walk_folder(located.driver, path, start, take):
                    yield next_page
                return
        except NotFound:
            pass  # gone meanwhile, or nothing in it can be shown
        yield ""

    try:
        return await lists.walk(walk)
    finally:
        await lists.flush()


async def _remove_entries(run: TransferRun, folder: PathAccess, located: Located) -> bool:
    cursor, count, saved = run.cursor, run.spec.names, time.monotonic()

    async def remove(name: str) -> Problem | None:
        try:
            changes.check_removal(folder, name)
            await changes.remove_entry(folder, located, name)
        except (Unreachable, OutOfTime):
            raise
        except Problem as problem:
            return problem
        return None

    async for rows in name_lists.read(run.task.id, count, cursor.listed):
        async for batch in in_batches(rows, AT_ONCE):
            try:
                with deadlines.limit(run.seconds_left):
                    problems = await gather_bounded([partial(remove, row.path) for row in batch], AT_ONCE)
            except OutOfTime:
                return True
            for row, problem in zip(batch, problems, strict=True):
                if problem is not None:
                    cursor.failed_count += 1
                    cursor.errors = [*cursor.errors, f"{row.path}: {problem.message}"][:KEPT_ERRORS]
            pass_checkpoint("remove.batch")
            cursor.listed += len(batch)
            run.view.progress = round(cursor.listed / count * 100, 4)
            if not run.has_time():
                return True
            if time.monotonic() - saved > SAVE_SECONDS:
                await run.save()
                saved = time.monotonic()
    if cursor.failed_count:
        raise StorageProblem(f"{cursor.failed_count} of {count} items failed: {'; '.join(cursor.errors)}")
    return False


async def remove_folders(
    run: TransferRun, source: Endpoint, *, is_listed: bool, may_remove: Callable[[str], bool] = lambda _: True
) -> bool:
    """Remove the folders of the plan that are empty, the deepest first; the others stay. Whether there is more.

    `is_listed`: they are only some of those below `source`.
    """
    cursor = run.cursor
    folders = manifest.open_folders(run.task.id, cursor.folder_count)
    left = folders.count if cursor.folders_left is None else cursor.folders_left
    while left:
        start = (left - 1) - (left - 1) % manifest.CHUNK
        rows = (await folders.read_rows(start))[: left - start]
        async with journal.change_folders(*_find_changed(source, rows, is_listed)):
            for name in reversed(rows):
                if may_remove(name):
                    await _remove_empty(source.driver, (source / name).path)
                pass_checkpoint("move.tidied")
                left -= 1
                cursor.folders_left = left
                if not run.has_time():
                    return True
    cursor.folders_left = left
    return False


def _find_changed(source: Endpoint, names: Sequence[str], is_listed: bool) -> list[Touched]:
    """Where the removal of folders changes the source."""
    if not is_listed or source.mount is None:
        return find_source_changes(source, True)
    parents = {(source / name).path.parent for name in names if name}
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
