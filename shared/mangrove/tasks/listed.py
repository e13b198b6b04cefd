"""Tasks over a list of names: one record and one execution, however many names a request has.

Plan goes through the list: what the storage moves or renames by itself is done there, everything else is written down
to be copied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from mangrove.checkpoints import pass_checkpoint
from mangrove.concurrency import gather_bounded
from mangrove.drivers.base import Entry, Moves, Renames
from mangrove.problems import Problem, Unreachable
from mangrove.slices import in_batches
from mangrove.tasks import name_lists
from mangrove.tasks.batches import TransferRun
from mangrove.tasks.name_lists import ListedEntry
from mangrove.tasks.routes import TransferRoute
from mangrove.tree import journal
from mangrove.tree.mounts import Located
from mangrove.tree.names import hold_name

AT_ONCE = 16  # entries that a storage moves side by side
BATCH = 128  # entries between two looks at the time


class WritesDown(Protocol):
    """Where Plan writes down what is to be copied."""

    async def add(self, path: str, entry: Entry) -> None:
        """Write an entry down."""
        ...

    async def save(self) -> None:
        """Have the record know what was written down so far, now and then."""
        ...


async def plan_list(run: TransferRun, route: TransferRoute, lists: WritesDown) -> bool:
    """Go on with the list: move what the storage moves by itself, write down everything else; whether there is more."""
    cursor, count = run.cursor, run.spec.names
    is_quick = run.task.kind == "move" and _find_verb(route, run.spec.is_rename) is not None
    async for rows in name_lists.read(run.task.id, count, cursor.listed):
        async for batch in in_batches(rows, BATCH):
            moved = [False] * len(batch)
            if is_quick:
                works = [partial(_move_at_once, route, row, run.spec.is_rename) for row in batch]
                moved = await gather_bounded(works, AT_ONCE)
                pass_checkpoint("list.moved")
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
            journal.change(here, there, are_folders=row.is_dir),
            hold_name(there, here, overwrite=route.overwrite),
        ):
            await verb(source.path, target.path, overwrite=route.overwrite)
    except Unreachable:
        raise
    except Problem:
        return False
    return True


async def _write_down(run: TransferRun, route: TransferRoute, row: ListedEntry, lists: WritesDown) -> None:
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
