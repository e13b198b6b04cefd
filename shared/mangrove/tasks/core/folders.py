"""Walks through folders over many steps, and the removal of the folders that are empty afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound
from mangrove.drivers.base import Driver, Entry
from mangrove.tasks.core import staging
from mangrove.tasks.core.files import FilePath
from mangrove.tasks.core.model import SpecT, WalkCursor
from mangrove.tasks.core.staging import StagedList
from mangrove.tasks.core.steps import Run
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.journal import Touched

WalkCursorT = TypeVar("WalkCursorT", bound=WalkCursor)
Walk = Callable[[str, str], AsyncGenerator[str, None]]
"""Like `walk_folder`, for a folder's path below the source and the page to continue from."""


async def walk_folders(
    run: Run[SpecT, WalkCursorT], folders: StagedList[str], walk: Walk, count: Callable[[], None]
) -> bool:
    """Continue through a list of folders, which the walk extends. Call `count` after each page.

    Return True if there is more.
    """
    cursor = run.cursor
    while cursor.folders_walked < folders.count:
        for name in await folders.read_rows(cursor.folders_walked):
            async for next_page in walk(name, cursor.next_page):
                cursor.next_page = next_page
                cursor.folders_walked += 0 if next_page else 1
                count()
                if not run.has_time():
                    return True
    return False


async def walk_folder(
    driver: Driver, path: TreePath, start: str, take: Callable[[Sequence[Entry]], Awaitable[None]]
) -> AsyncGenerator[str, None]:
    """Pass the entries of a folder to `take`, from the page that starts at `start`.

    After each page yield the start of the next one, "" at the end. A storage without pages has a single page.
    """
    paged = await driver.find_paged(path)
    if paged is None and start:
        raise EntryChanged("something was mounted in a folder while it was walked")
    if paged is None:
        async for batch in driver.list(path):
            await take(batch)
        yield ""
        return
    while True:
        page = await paged.driver.list_page(paged.path, start)
        await take(page.entries)
        yield page.next_start
        if not page.next_start:
            return
        start = page.next_start


async def remove_folders(
    run: Run[SpecT, WalkCursorT],
    source: FilePath,
    *,
    is_listed: bool,
    may_remove: Callable[[str], Awaitable[bool]],
) -> bool:
    """Remove the empty folders in the run's list, the deepest first. Return True if there is more to do.

    `is_listed`: the list has only some of the folders below `source`.
    """
    cursor = run.cursor
    folders = staging.open_folders(run.task.id, cursor.folder_count)
    left = folders.count if cursor.folders_left is None else cursor.folders_left
    while left:
        start = (left - 1) - (left - 1) % staging.ROWS_PER_FILE
        rows = (await folders.read_rows(start))[: left - start]
        async with journal.change_folders(*_find_changes(source, rows, is_listed)) as change:
            for name in reversed(rows):
                if await may_remove(name):
                    folder = source.child(name)
                    await _remove_empty(folder.driver, folder.path)
                    if isinstance(folder, StoragePath):
                        change.tidy(folder)
                pass_checkpoint("move.tidied")
                left -= 1
                cursor.folders_left = left
                if not run.has_time():
                    return True
    cursor.folders_left = left
    return False


def find_source_changes(source: FilePath, is_folder: bool) -> list[Touched]:
    """Return the folders that a removal changes: the parent and, for a folder, everything below it.

    A removal from staging changes no listing.
    """
    if not isinstance(source, StoragePath):
        return []
    return [Touched(source.parent), *([Touched(source, True)] if is_folder else ())]


def _find_changes(source: FilePath, names: Sequence[str], is_listed: bool) -> list[Touched]:
    if not is_listed or not isinstance(source, StoragePath):
        return find_source_changes(source, True)
    parents = {source.child(name).path.parent for name in names if name}
    return [Touched(source.with_path(parent)) for parent in parents]


async def _remove_empty(driver: Driver, path: TreePath) -> None:
    try:
        if driver.capabilities.remove_empty:
            await driver.remove_empty(path)
            return
        async for batch in driver.list(path):
            if batch:
                return
        if driver.capabilities.remove:
            await driver.remove(path)
    except EntryNotFound:
        pass  # removed together with the folder below it
