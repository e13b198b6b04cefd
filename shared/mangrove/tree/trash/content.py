"""The kept entries of a storage in its hidden folder: their paths, their deletion, and the repair of their records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem, StorageProblem
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.part_names import TRASH_FOLDER
from mangrove.records import trash
from mangrove.records.trash import TrashEntry
from mangrove.tree.trash.claims import claim_deletions


def get_folder(entry: TrashEntry) -> TreePath:
    """Return the folder that contains only the entry."""
    return TRASH_FOLDER / entry.id


def get_path(entry: TrashEntry) -> TreePath:
    """Return the path of an entry in the hidden folder."""
    return get_folder(entry) / TreePath(entry.path).name


def read_option(driver: Driver, name: str) -> int:
    """Return a numeric option of a driver, 0 if the driver does not have it."""
    value = getattr(driver.options, name, 0)
    return value if isinstance(value, int) else 0


def keeps_versions(driver: Driver, record: TrashEntry) -> bool:
    """True if the content of an entry is in the versions of its bucket, not in the hidden folder."""
    return driver.capabilities.versions and not record.is_moved


async def is_gone(driver: Driver, path: TreePath) -> bool:
    """True if a storage proves that a path has no entry."""
    try:
        await driver.stat(path)
    except EntryNotFound:
        return True
    except StorageProblem:
        pass  # the storage cannot tell
    return False


async def is_content_gone(driver: Driver, record: TrashEntry) -> bool:
    """True if a storage proves that the content of an entry is not in the trash any more."""
    if not keeps_versions(driver, record):
        return await is_gone(driver, get_path(record))
    try:
        return not await driver.find_removed(TreePath(record.path), record.removed)
    except StorageProblem:
        return False


async def settle(driver: Driver, record: TrashEntry) -> None:
    """Update the record of an entry to the state of the storage: the entry is in the trash, or it is not."""
    if keeps_versions(driver, record):
        was_removed = await driver.find_removed(TreePath(record.path), record.removed)
        if was_removed:
            await asyncio.to_thread(trash.finish, record)
        else:
            await asyncio.to_thread(trash.forget, [record])
        return
    try:
        await driver.stat(get_path(record))
    except EntryNotFound:
        await driver.remove(get_folder(record))
        await asyncio.to_thread(trash.forget, [record])
        return
    if await has_both_paths(driver, record):
        await driver.remove(get_folder(record))
        await asyncio.to_thread(trash.forget, [record])
    else:
        await asyncio.to_thread(trash.finish, record)


async def try_to_settle(driver: Driver, record: TrashEntry) -> None:
    """Settle as `settle`. If that fails, the clean-up does it later."""
    with suppress(Problem):
        await settle(driver, record)


async def has_both_paths(driver: Driver, record: TrashEntry) -> bool:
    """True if a file of the trash is also at its old path, because its removal or replacement did not happen."""
    if record.is_dir or not (record.is_moved or driver.capabilities.identify):
        return False
    try:
        if record.is_moved:
            return have_same_content(await driver.stat(get_path(record)), await driver.stat(TreePath(record.path)))
        return bool(await driver.identify(get_path(record)) & await driver.identify(TreePath(record.path)))
    except EntryNotFound:
        return False


def have_same_content(first: Entry, second: Entry) -> bool:
    """True if the validators of the storage prove that two files have the same bytes."""
    return bool(first.etag) and (first.etag, first.size) == (second.etag, second.size)


async def delete(driver: Driver, records: Sequence[TrashEntry]) -> None:
    """Delete kept entries permanently, but for those that are being restored."""
    if not records:
        return
    problems = await claim_deletions(records)
    pass_checkpoint("trash.deleting")
    deleted: list[TrashEntry] = []
    try:
        for record in [record for record, problem in zip(records, problems, strict=True) if problem is None]:
            await delete_content(driver, record)
            deleted.append(record)
    finally:
        await asyncio.to_thread(trash.forget, deleted)


async def delete_content(driver: Driver, record: TrashEntry) -> None:
    """Delete the bytes of a kept entry. Raise OutOfTime if a storage that removes entries one by one takes long."""
    if keeps_versions(driver, record):
        await driver.purge_removed(TreePath(record.path), record.removed)
    else:
        await driver.remove(get_folder(record))
