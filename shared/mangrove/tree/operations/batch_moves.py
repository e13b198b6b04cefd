"""Files that are moved within a storage in batches, so that its trash keeps those that they replace together."""

from __future__ import annotations

from collections.abc import Sequence

from mangrove.core.problems import NotSupported, StorageProblem
from mangrove.drivers.base import Driver
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.trash.keeping import TrashDriver

MAX_FILES_PER_BATCH = 100  # whose intents are one transaction


async def can_replace_together(driver: Driver) -> bool:
    """True if a batch is faster than one file after the other."""
    return isinstance(driver, TrashDriver) and await driver.can_replace_together()


async def replace(
    pairs: Sequence[tuple[StoragePath, StoragePath]], *, stops: bool = False
) -> list[StorageProblem | None]:
    """Move files of one storage in their order, replacing files. Return the problem of each.

    `stops`: end after the first failure, with the results up to it. Raise NotSupported for a storage without a trash.
    """
    driver = pairs[0][0].driver
    if not isinstance(driver, TrashDriver):
        raise NotSupported
    async with journal.move_files(pairs) as change:
        results = await driver.replace_by_moves([(source.path, target.path) for source, target in pairs], stops=stops)
        moved = {index: file for index, file in enumerate(results) if not isinstance(file, StorageProblem)}
        change.set_moved_files(moved)
    return [result if isinstance(result, StorageProblem) else None for result in results]
