"""The restoration of entries of the trash, in one step or file by file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from mangrove.core import deadlines
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import iterate_chunked
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.deadlines import TimeBudget, unlimited
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, OutOfTime, Problem
from mangrove.drivers.base import Driver
from mangrove.identity.rights import Caller, Right
from mangrove.records import trash
from mangrove.records.trash import TrashEntry
from mangrove.tree import access as tree_access
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import find_entry
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import changes, journal
from mangrove.tree.operations.free_names import list_free_names
from mangrove.tree.operations.name_locks import lock_name, makedirs
from mangrove.tree.trash.claims import GONE, claim_restore
from mangrove.tree.trash.content import get_folder, get_path, is_content_gone, keeps_versions, try_to_settle
from mangrove.tree.trash.entries import TrashItem, TrashResult, check_rights, find_items
from mangrove.tree.trash.moving import MoveInterrupted, move_content


async def restore(
    caller: Caller, ids: Sequence[str], overwrite: bool, password: str, budget: TimeBudget | None = None
) -> TrashResult:
    """Move entries back to their original paths. Create missing folders.

    If a name is taken, the entry gets a number, or with `overwrite` replaces the existing entry. A failure of an entry
    does not stop the others. With a `budget`, return the entries that remain for a task when the time is up.
    """
    outcome = TrashResult()
    time_left = budget or unlimited()
    items = await find_items(caller, ids, password, outcome)
    async for position, item in iterate_chunked(enumerate(items)):
        try:
            if not time_left.covers(position, len(items)):
                raise OutOfTime
            with deadlines.limit(time_left.get_seconds()):
                outcome.done.append((item.id, await _restore(caller, item, overwrite, password)))
        except OutOfTime as problem:
            outcome.left += items[position:]
            outcome.interruption = problem
            break
        except Problem as problem:
            outcome.failed.append((item.id, problem))
    return outcome


async def _restore(caller: Caller, item: TrashItem, overwrite: bool, password: str) -> TreePath:
    """Restore an entry, and return its path in the tree."""
    check_rights(item)
    writer = replace(caller, declared_right=Right.WRITE)
    folder = await tree_access.at(writer, item.access.path.parent, password, confined=False)
    folder.require(Right.WRITE)
    storage_path = StoragePath(await item.mount.get_driver(), TreePath(item.entry.path), item.mount)
    async with claim_restore(item.entry):
        try:
            return await _restore_claimed(item, folder, storage_path, overwrite)
        except Problem:
            if not item.entry.is_moved:  # otherwise the next request continues
                await try_to_settle(storage_path.driver, item.entry)
            raise


async def _restore_claimed(item: TrashItem, folder: PathAccess, storage_path: StoragePath, overwrite: bool) -> TreePath:
    if storage_path.path.parent != "/":
        await changes.check_missing_folders(folder, storage_path.parent)
        await makedirs(storage_path.parent)
    name = storage_path.path.name
    target_path = await _find_begun_target(item.entry)
    if target_path:
        await _move_back(item.entry, storage_path.with_path(target_path), overwrite=True)
        return item.mount.path / target_path
    if overwrite and folder.may_replace(folder.child(name)):
        await _make_free(item, storage_path)
        await _move_back(item.entry, storage_path, overwrite=True)
        return item.access.path
    for free_name in list_free_names(name, item.entry.is_dir):
        target = folder.child(free_name)
        if target.is_mount_or_ancestor() or not target.may_read():
            continue
        try:
            await _move_back(item.entry, storage_path.parent.child(free_name), overwrite=False)
            return target.path
        except EntryExists:
            pass  # try the next name
    raise EntryExists


async def _find_begun_target(entry: TrashEntry) -> TreePath | None:
    """Return the path to which an earlier request or task step has begun to move an entry file by file."""
    target = await asyncio.to_thread(trash.find_restore_target, entry) if entry.is_moved else ""
    return TreePath(target) if target else None


async def _make_free(item: TrashItem, storage_path: StoragePath) -> None:
    """Move the entry at the target into the trash, unless a file replaces a file in one step."""
    present = await find_entry(storage_path)
    is_in_one_step = not storage_path.driver.capabilities.versions and not item.entry.is_moved
    if present is not None and (present.is_dir or item.entry.is_dir or not is_in_one_step):
        await changes.remove_entry(item.access.parent, storage_path.parent, storage_path.path.name)


async def _move_back(entry: TrashEntry, target: StoragePath, *, overwrite: bool) -> None:
    """Move an entry out of the trash: intent, move, record. Raise EntryExists if the name is taken."""
    async with (
        journal.restore(target, is_folder=entry.is_dir),
        lock_name(target, overwrite=overwrite),
    ):
        if entry.is_moved:
            await _move_file_by_file(entry, target, overwrite)
            return
        pass_checkpoint("trash.restoring")
        await finish_despite_cancel(_move(entry, target, overwrite))


async def _move_file_by_file(entry: TrashEntry, target: StoragePath, overwrite: bool) -> None:
    """Move an entry out of the trash, or continue. Raise OutOfTime in the middle."""
    if not overwrite and await find_entry(target) is not None:
        raise EntryExists
    await asyncio.to_thread(trash.begin_move, entry, str(target.path))
    pass_checkpoint("trash.restoring")
    try:
        await move_content(target.driver.unwrap(), get_path(entry), target.path)
    except EntryNotFound:
        await _forget_gone(entry, target.driver)
    await _forget_restored(entry, target.driver)


async def _move(entry: TrashEntry, target: StoragePath, overwrite: bool) -> None:
    driver = target.driver
    try:
        if keeps_versions(driver, entry):
            await driver.restore_removed(TreePath(entry.path), target.path, entry.removed)
        else:
            await driver.move(get_path(entry), target.path, overwrite=overwrite)
    except EntryNotFound:
        await _forget_gone(entry, driver)
    await _forget_restored(entry, driver)


async def _forget_gone(entry: TrashEntry, driver: Driver) -> NoReturn:
    """Forget an entry that could not be found, if its content is gone, and raise the problem to report."""
    if await is_content_gone(driver, entry):
        await asyncio.to_thread(trash.forget, [entry])
        raise EntryNotFound(GONE)
    raise MoveInterrupted


async def _forget_restored(entry: TrashEntry, driver: Driver) -> None:
    pass_checkpoint("trash.restored")
    if not keeps_versions(driver, entry):
        await driver.remove(get_folder(entry))
    await asyncio.to_thread(trash.forget, [entry])
