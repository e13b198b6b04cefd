"""Operations that create and remove: a folder with its parents, entries with all their content, empty folders.

Each requires the right that its route declared, on the path of every entry, and checks all entries before the first is
changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from mangrove.core import deadlines
from mangrove.core.chunked import iterate_chunked
from mangrove.core.deadlines import TimeBudget, unlimited
from mangrove.core.paths import check_existing_name, check_name, refuse_trash_name
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotSupported,
    OutOfTime,
    StorageForbidden,
    StorageProblem,
)
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.listing import listings
from mangrove.tree.listing.lookups import find_entry
from mangrove.tree.listing.opening import explain_folder_failure
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.free_names import choose_path
from mangrove.tree.operations.name_locks import makedirs
from mangrove.tree.operations.plans import check_count


async def mkdir(access: PathAccess) -> None:
    """Make the folder and its missing parents. Raise EntryExists if a file has one of the paths."""
    access.parent.require(Right.WRITE)
    if access.is_mount_or_ancestor():
        return
    refuse_trash_name(access.path.name)
    storage_path = await access.locate("")
    if not storage_path.driver.capabilities.makedirs:
        raise NotSupported
    access, storage_path = await choose_path(access, storage_path, is_folder=True)
    entry = await find_entry(storage_path)
    if entry is None:
        await check_missing_folders(access, storage_path)
        await makedirs(storage_path)
    elif not entry.is_dir:
        raise EntryExists


async def check_missing_folders(access: PathAccess, storage_path: StoragePath) -> None:
    """Refuse folders that must not be made, among the path and its missing parents."""
    for step, path in zip(storage_path.path.ancestors()[:-1], access.path.ancestors(), strict=False):
        if await find_entry(storage_path.with_path(step)) is not None:
            return
        check_name(step.name)
        access.with_path(path.parent).require(Right.WRITE)


async def remove(folder: PathAccess, names: Sequence[str], budget: TimeBudget | None = None) -> Sequence[str]:
    """Remove entries of a folder with all their content. A missing entry counts as removed.

    With a `budget`, return the names that remain for a task when the time is up. Without it, raise OutOfTime if a
    request has a limit; the next request continues.
    """
    check_count(names)
    folder.require(Right.DELETE)
    names = [*dict.fromkeys(names)]
    async for name in iterate_chunked(names):
        check_existing_name(name)
        check_removal(folder, name)
    storage_folder = await folder.locate("")
    if not storage_folder.driver.capabilities.remove:
        raise NotSupported
    time_left = budget or unlimited()
    async for position, name in iterate_chunked(enumerate(names)):
        deadlines.check()
        if not time_left.covers(position, len(names)):
            return names[position:]
        try:
            with deadlines.limit(time_left.get_seconds()):
                await remove_entry(folder, storage_folder, name)
        except OutOfTime:
            if budget is None:
                raise
            return names[position:]
        except StorageProblem as problem:
            raise problem.with_prefix(f"remove [{name}]") from problem
    return ()


def check_removal(folder: PathAccess, name: str) -> None:
    """Raise StorageForbidden if the caller may not remove an entry. A hidden entry counts as missing."""
    item = folder.child(name)
    may_remove = item.is_hidden() or (item.may_read() and not item.is_restricted_below(True))
    if not folder.may_read() or item.is_mount_or_ancestor() or not may_remove:
        raise StorageForbidden(f"remove [{name}]: permission denied")


async def remove_entry(folder: PathAccess, storage_folder: StoragePath, name: str) -> None:
    """Remove an entry of a folder with all its content, unless it is missing or hidden.

    Storages that remove one entry after the other raise OutOfTime in the middle if the time is limited.
    """
    driver, storage_path = storage_folder.driver, storage_folder.child(name)
    if folder.child(name).is_hidden():
        return
    try:
        is_folder = journal.is_logged() and await _is_folder(storage_path)
        async with journal.remove(storage_path, is_folder=is_folder):
            await driver.discard(storage_path.path)
    except EntryNotFound:
        pass  # already removed


async def _is_folder(storage_path: StoragePath) -> bool:
    """True if an interrupted removal would leave entries below."""
    entry = await find_entry(storage_path)
    return entry is not None and entry.is_dir and not entry.is_link


async def remove_empty(folder: PathAccess) -> None:
    """Remove every subfolder without a file, at any depth; the folder itself stays. Raise OutOfTime in the middle."""
    folder.require(Right.DELETE)
    folder.require_read()
    storage_folder = await folder.locate("")
    if not storage_folder.driver.capabilities.remove:
        raise NotSupported
    try:
        listing = await listings().get(storage_folder, refresh=True)
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    async for entry in iterate_chunked(listing.entries):
        if entry.is_dir and not entry.is_link:
            await _prune(folder.child(entry.name), storage_folder.child(entry.name))


def may_prune(access: PathAccess) -> bool:
    """True if a folder may be removed when it is empty: it is not a mount, and the caller may read and change it."""
    return not access.is_mount_or_ancestor() and access.may_read() and access.may_write()


async def _prune(access: PathAccess, storage_path: StoragePath) -> bool:
    """Remove the folder if it is empty or becomes empty. Return True if it is removed."""
    driver = storage_path.driver
    deadlines.check()
    if not may_prune(access):
        return False
    is_empty, subfolders = True, []
    try:
        async for batch in driver.list(storage_path.path):
            async for entry in iterate_chunked(batch):
                is_folder = entry.is_dir and not entry.is_link
                is_empty = is_empty and is_folder
                subfolders += [entry.name] if is_folder else []
    except EntryNotFound:
        return False  # removed meanwhile, or its entries cannot be shown
    async for name in iterate_chunked(subfolders):
        is_empty = await _prune(access.child(name), storage_path.child(name)) and is_empty
    if not is_empty:
        return False
    async with journal.remove_if_empty(storage_path):
        if driver.capabilities.remove_empty:
            return await driver.remove_empty(storage_path.path)
        await driver.remove(storage_path.path)
    return True
