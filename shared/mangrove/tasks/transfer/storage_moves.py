"""Entries of a transfer that their storage moves itself: files that replace files together, the others one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from mangrove.core.chunked import in_batches
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import Problem, Unreachable
from mangrove.drivers.base import Entry
from mangrove.tasks.core.model import ManifestEntry
from mangrove.tasks.transfer.step import TransferRoute
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import batch_moves, journal
from mangrove.tree.operations.name_locks import lock_name

MOVE_CONCURRENCY = 16  # entries that are moved one by one

Mover = Callable[..., Awaitable[Entry | None]]
Ends = tuple[StoragePath, StoragePath]


def find_mover(route: TransferRoute, is_rename: bool) -> Mover | None:
    """Return the method that moves an entry within its storage, None if there is none."""
    driver = route.source.driver
    if driver is not route.target.storage_path.driver:
        return None
    if is_rename:
        return driver.rename if driver.capabilities.rename else None
    return driver.move if driver.capabilities.move else None


async def move_within(route: TransferRoute, rows: Sequence[ManifestEntry], is_rename: bool) -> Sequence[ManifestEntry]:
    """Let the storage move entries. Return those that it did not move.

    The copy that follows for these succeeds or reports the reason.
    """
    mover, source = find_mover(route, is_rename), route.source
    if mover is None or not isinstance(source, StoragePath):
        return rows
    is_batching = not is_rename and route.overwrite and await batch_moves.can_replace_together(source.driver)
    together: dict[int, Ends] = {}
    alone: dict[int, Ends] = {}
    for index, row in enumerate(rows):
        group = together if is_batching and not row.is_dir else alone
        group[index] = source.child(row.path), route.find_target(row.path)
    moved = await _replace(route, rows, together)
    moves = [partial(_move, route, mover, rows[index], ends) for index, ends in alone.items()]
    moved |= dict(zip(alone, await gather_bounded(moves, MOVE_CONCURRENCY), strict=True))
    return [row for index, row in enumerate(rows) if not moved.get(index)]


async def _replace(
    route: TransferRoute, rows: Sequence[ManifestEntry], together: Mapping[int, Ends]
) -> dict[int, bool]:
    """Move files together. Return for each index True if its file was moved."""
    moved: dict[int, bool] = {}
    async for batch in in_batches([*together], batch_moves.MAX_FILES_PER_BATCH):
        indexes = [index for index in batch if await route.find_refusal(rows[index].path) is None]
        if not indexes:
            continue
        try:
            problems = await batch_moves.replace([together[index] for index in indexes])
        except Unreachable:
            raise
        except Problem:
            continue  # the copies that follow find out which files were moved
        for index, problem in zip(indexes, problems, strict=True):
            if isinstance(problem, Unreachable):
                raise problem
            moved[index] = problem is None
    return moved


async def _move(route: TransferRoute, mover: Mover, row: ManifestEntry, ends: Ends) -> bool:
    source, target = ends
    if await route.find_refusal(row.path) is not None:
        return False
    try:
        async with (
            journal.move(source, target, is_folder=row.is_dir, replaces=route.overwrite),
            lock_name(target, source, overwrite=route.overwrite),
        ):
            await mover(source.path, target.path, overwrite=route.overwrite)
    except Unreachable:
        raise
    except Problem:
        return False
    return True
