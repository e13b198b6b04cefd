"""Tasks over a list of names: one record and one execution, however many names a request has.

Plan goes through the list: what the storage moves or renames by itself is done there, everything else is written down
to be copied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import Problem, Unreachable
from mangrove.core.slices import in_batches
from mangrove.drivers.base import Entry, Moves, Renames
from mangrove.tasks.core import name_lists
from mangrove.tasks.core.name_lists import ListedEntry
from mangrove.tasks.transfer.planning import Lists
from mangrove.tasks.transfer.routes import TransferRoute
from mangrove.tasks.transfer.step import TransferRun
from mangrove.tree.mounts import Located
from mangrove.tree.operations import journal
from mangrove.tree.operations.names import hold_name

AT_ONCE = 16  # entries that a storage moves side by side
BATCH = 128  # entries between two looks at the time


async def plan_list(run: TransferRun, route: TransferRoute, lists: Lists) -> bool:
    """Go on with the list: move what the storage moves by itself, write down everything else; whether there is more."""
    cursor, count = run.cursor, run.spec.count
    is_quick = run.task.kind == "move" and _find_verb(route, run.spec.is_rename) is not None
    async for rows in name_lists.read(run.task.id, count, cursor.listed):
        async for batch in in_batches(rows, BATCH):
            moved = [False] * len(batch)
            if is_quick:
                works = [partial(_move_at_once, route, row, run.spec.is_rename) for row in batch]
                moved = await gather_bounded(works, AT_ONCE)
            for row, is_moved in zip(batch, moved, strict=True):
                if not is_moved:
                    await _write_down(run, route, row, lists)
            cursor.listed += len(batch)
            if is_quick:
                run.view.progress = round(cursor.listed / count * 100, 4)
            await lists.save()
            if not run.has_time():
                return cursor.listed < count
    return False


Verb = Callable[..., Awaitable[None]]


def _find_verb(route: TransferRoute, is_rename: bool) -> Verb | None:
    """What moves an entry within its storage; None where there is no such thing."""
    driver = route.source.driver
    if driver is not route.target.endpoint.driver:
        return None
    if is_rename:
        return driver.rename if isinstance(driver, Renames) else None
    return driver.move if isinstance(driver, Moves) else None


async def _move_at_once(route: TransferRoute, row: ListedEntry, is_rename: bool) -> bool:
    """Whether the storage has moved it. Where it has not, the copying that follows finds a way, or says why not."""
    verb = _find_verb(route, is_rename)
    source, target = route.source / row.path, route.find_target(row.path)
    if verb is None or source.mount is None or target.mount is None or route.find_refusal(row.path) is not None:
        return False
    there, here = Located(target.driver, target.path, target.mount), Located(source.driver, source.path, source.mount)
    try:
        async with (
            journal.move(here, there, is_folder=row.is_dir, replaces=route.overwrite),
            hold_name(there, here, overwrite=route.overwrite),
        ):
            await verb(source.path, target.path, overwrite=route.overwrite)
    except Unreachable:
        raise
    except Problem:
        return False
    return True


async def gather_files(route: TransferRoute, found: Sequence[tuple[str, Entry]], lists: Lists) -> None:
    """Take files away from their folders as far as the storage moves them by itself; the others are written down, and
    the folders, to be walked through."""
    files = [ListedEntry.of(path, entry) for path, entry in found if not entry.is_dir]
    files = [row for row in files if route.find_target(row.path).path != (route.source / row.path).path]
    moved = await gather_bounded([partial(_move_at_once, route, row, False) for row in files], AT_ONCE)
    for row, is_moved in zip(files, moved, strict=True):
        if not is_moved:
            await lists.add(row.path, Entry(row.path, row.size, row.modified, False, etag=row.etag))
    for path, entry in found:
        if entry.is_dir:
            await lists.folders.append(path)


async def _write_down(run: TransferRun, route: TransferRoute, row: ListedEntry, lists: Lists) -> None:
    """Write an entry down to be copied; a folder as it is now, since it is gone where a worker moved it and died."""
    entry = Entry(row.path, row.size, row.modified, row.is_dir, etag=row.etag)
    if not row.is_dir:
        await lists.add(row.path, entry)
        return
    refusal = route.find_refusal(row.path)
    found = None if refusal is not None else await (route.source / row.path).find()
    if found is None and refusal is None and run.task.kind == "move":
        moved = await route.find_target(row.path).find()
        if moved is not None and moved.is_dir:
            return
    # what is not there, or may not be taken, is none to be walked through: it fails by name when it is its turn
    await lists.add(row.path, found or entry._replace(is_dir=False))
