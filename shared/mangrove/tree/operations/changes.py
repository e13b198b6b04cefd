"""The verbs that change names: make a folder, rename one, many, or by pattern, remove.

Each verb requires the right its route declared, on the final path of every item, and validates all items before it
touches the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from mangrove.core import deadlines
from mangrove.core.chunked import iterate_chunked
from mangrove.core.deadlines import TimeBudget, unlimited
from mangrove.core.paths import check_existing_name, check_name
from mangrove.core.problems import (
    BadRequest,
    EntryExists,
    EntryNotFound,
    NotSupported,
    OutOfTime,
    StorageForbidden,
    StorageProblem,
)
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess, lookup
from mangrove.tree.listing.browse import explain_folder_failure
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.blind_uploads import choose_path
from mangrove.tree.operations.name_locks import makedirs
from mangrove.tree.operations.plans import check_count, exists


async def mkdir(access: PathAccess) -> None:
    """Make the folder and its missing parents; fine when it is there, EntryExists when a file is in the way."""
    access.parent.require(Right.WRITE)
    if access.is_mount_or_ancestor():
        return
    storage_path = await access.locate("")
    if not storage_path.driver.capabilities.makedirs:
        raise NotSupported
    access, storage_path = await choose_path(access, storage_path, is_folder=True)
    try:
        if not (await lookup(storage_path)).is_dir:
            raise EntryExists
        return
    except EntryNotFound:
        pass
    await check_missing_folders(access, storage_path)
    await makedirs(storage_path)


async def check_missing_folders(access: PathAccess, storage_path: StoragePath) -> None:
    """Refuse what may not be made, among the path and the folders above it that are not there yet."""
    for step, path in zip(storage_path.path.ancestors()[:-1], access.path.ancestors(), strict=False):
        if await exists(storage_path.with_path(step)):
            return
        check_name(step.name)
        access.with_path(path.parent).require(Right.WRITE)


async def remove(folder: PathAccess, names: Sequence[str], budget: TimeBudget | None = None) -> Sequence[str]:
    """Remove entries of a folder with all they hold; what is not there counts as removed.

    With a `budget` it answers the names that are left for a task when time is up. Without one, OutOfTime where a
    request has a limit: what is removed by then is, and the next request goes on.
    """
    if not names:
        raise BadRequest("Empty file names")
    check_count(names)
    folder.require(Right.DELETE)
    names = [*dict.fromkeys(names)]
    async for name in iterate_chunked(names):
        check_existing_name(name)
        check_removal(folder, name)
    storage_path = await folder.locate("")
    if not storage_path.driver.capabilities.remove:
        raise NotSupported
    time_left = budget or unlimited()
    async for position, name in iterate_chunked(enumerate(names)):
        deadlines.check()
        if not time_left.covers(position, len(names)):
            return names[position:]
        try:
            with deadlines.limit(time_left.get_seconds()):
                await remove_entry(folder, storage_path, name)
        except OutOfTime:
            if budget is None:
                raise
            return names[position:]
        except StorageProblem as problem:
            raise problem.with_prefix(f"remove [{name}]") from problem
    return ()


def check_removal(folder: PathAccess, name: str) -> None:
    """StorageForbidden where the caller may not remove an entry; of a hidden one nothing is told."""
    item = folder.child(name)
    if not folder.may_read() or item.is_mount_or_ancestor() or not (item.is_hidden() or _may_remove(item)):
        raise StorageForbidden(f"remove [{name}]: permission denied")


async def remove_entry(folder: PathAccess, parent: StoragePath, name: str) -> None:
    """Remove an entry of the folder `parent` with all it holds, if it is there and not hidden; OutOfTime in the middle
    where time is limited, by storages that remove one after the other."""
    driver, storage_path = parent.driver, parent.child(name)
    if folder.child(name).is_hidden():
        return
    try:
        is_folder = journal.is_logged() and await _is_folder(storage_path)
        async with journal.remove(storage_path, is_folder=is_folder):
            await driver.remove(storage_path.path)
    except EntryNotFound:
        pass  # already gone


async def _is_folder(storage_path: StoragePath) -> bool:
    """Whether a removal that breaks off would leave something below."""
    try:
        found = await lookup(storage_path)
    except EntryNotFound:
        return False
    return found.is_dir and not found.is_link


def _may_remove(item: PathAccess) -> bool:
    return item.may_read() and not item.is_restricted_below(True)


async def remove_empty(folder: PathAccess) -> None:
    """Remove every sub-folder that holds no file, however deep; the folder itself stays. OutOfTime where time is
    limited: what is removed by then is."""
    folder.require(Right.DELETE)
    folder.require_read()
    storage_path = await folder.locate("")
    if not storage_path.driver.capabilities.remove:
        raise NotSupported
    try:
        found = await listings().get(storage_path, refresh=True)
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    async for entry in iterate_chunked(found.entries):
        if entry.is_dir and not entry.is_link:
            await _prune(folder.child(entry.name), storage_path.child(entry.name))


def may_prune(access: PathAccess) -> bool:
    """Whether a folder goes when it is empty: mounts, and folders that the caller may not read or change, stay."""
    return not access.is_mount_or_ancestor() and access.may_read() and access.may_write()


async def _prune(access: PathAccess, storage_path: StoragePath) -> bool:
    """Whether the folder was empty, or became so, and is gone."""
    driver = storage_path.driver
    deadlines.check()
    if not may_prune(access):
        return False
    empty, subfolders = True, []
    try:
        async for batch in driver.list(storage_path.path):
            async for entry in iterate_chunked(batch):
                is_folder = entry.is_dir and not entry.is_link
                empty = empty and is_folder
                subfolders += [entry.name] if is_folder else []
    except EntryNotFound:
        return False  # gone meanwhile, or nothing in it can be shown
    async for name in iterate_chunked(subfolders):
        empty = await _prune(access.child(name), storage_path.child(name)) and empty
    if not empty:
        return False
    async with journal.add(storage_path):
        if driver.capabilities.remove_empty:
            return await driver.remove_empty(storage_path.path)
        await driver.remove(storage_path.path)
    return True
