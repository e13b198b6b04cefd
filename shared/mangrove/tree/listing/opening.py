"""The storage's own listing of a folder, with failures in the words of `fs/list`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mangrove.core.problems import EntryNotFound, NotAFolder, Problem, StorageProblem, StorageUnavailable
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import listings
from mangrove.tree.listing.lookups import look_up
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.mounts import Mount, StoragePath

Result = TypeVar("Result")


async def use_storage(
    access: PathAccess, has_virtual: bool, use: Callable[[StoragePath], Awaitable[Result]]
) -> Result | None:
    """Return what `use` reads of a folder's storage. Return None if there are only virtual folders.

    A failure has the words of a listing.
    """
    has_virtual = has_virtual or access.path in access.tree.table.ancestors
    if has_virtual and not access.tree.table.find_mounts(access.path):
        return None
    mount, inner = access.find_mount("")
    direct_lookup = False
    try:
        storage_path = StoragePath(await mount.get_driver(), inner, mount)
        direct_lookup = storage_path.driver.config.direct_lookup
        return await use(storage_path)
    except StorageProblem as problem:
        if has_virtual:
            return None
        raise _explain_failure(problem, direct_lookup) from problem


def _explain_failure(problem: StorageProblem, direct_lookup: bool) -> Problem:
    """Return a listing's failure in the words that clients compare."""
    explained: Problem = problem
    if isinstance(problem, EntryNotFound):
        explained = problem.with_prefix("failed get dir: failed to get obj" if direct_lookup else "failed get dir")
    elif not isinstance(problem, NotAFolder | StorageUnavailable):
        explained = problem.with_prefix("failed to list objs")
    return explained.with_prefix("failed get objs")


def explain_folder_failure(access: PathAccess, problem: StorageProblem) -> Problem:
    """Return a failure to list the folder in the words of `fs/list`."""
    driver = access.find_mount()[0].driver
    return _explain_failure(problem, driver is not None and driver.config.direct_lookup)


async def open_pages(access: PathAccess, has_virtual: bool) -> CachedFolder | PagedFolder | None:
    """Return the storage's listing, in pages if it supports them. Return None if there are only virtual folders."""
    return await use_storage(access, has_virtual, _open_pages)


async def _open_pages(storage_path: StoragePath) -> CachedFolder | PagedFolder:
    folder = await listings().open(storage_path, in_pages=True)
    if isinstance(folder, CachedFolder):
        await folder.entries.read_details()
    return folder


async def check_folder(access: PathAccess) -> None:
    """Raise the failure of `list_folder` if the path is not a folder that can be listed, without listing it."""
    access.require_read()
    await use_storage(access, bool(access.find_virtual_folders()), _check_folder)


async def _check_folder(storage_path: StoragePath) -> None:
    if storage_path.mount.has_failed:
        await listings().get(storage_path)  # it may work nevertheless
    elif storage_path.path != "/" and not (await look_up(storage_path, to_show=True)).is_dir:
        raise NotAFolder


def exclude_names(virtual: dict[str, Mount], folder: CachedFolder) -> dict[str, Mount]:
    """Return the virtual folders whose names the storage's own listing does not have."""
    return {name: mount for name, mount in virtual.items() if folder.find(name) is None}
