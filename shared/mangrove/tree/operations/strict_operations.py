"""Operations that refuse what other operations do implicitly, for protocols that require it.

A new folder needs an existing parent and a free name, and only an empty folder is removed. `changes` and `transfers` do
the work and apply rights and rules.
"""

from __future__ import annotations

from mangrove.core.problems import AccessDenied, EntryExists, NameConflict, NotAFile, NotSupported, StorageForbidden
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import changes, journal, name_locks, transfers
from mangrove.tree.operations.plans import TransferRequest


class NotEmpty(EntryExists):
    """The folder to remove has an entry, visible or not."""

    text = "the folder is not empty"


class HiddenName(NameConflict):
    """The name has to be free and is hidden from the caller, who does not learn if it is taken."""

    text = "the name is hidden here, and cannot be used for something new"


def refuse_hidden(access: PathAccess) -> None:
    """Raise HiddenName for a hidden path that has to be free. A new entry could get another name there."""
    if access.is_hidden():
        raise HiddenName


async def mkdir(access: PathAccess) -> None:
    """Make one folder. Raise EntryNotFound without its parent, EntryExists if the name is taken, HiddenName.

    Of several callers, one makes it: programs use folders as locks.
    """
    access.parent.require(Right.WRITE)
    refuse_hidden(access)
    if access.parent.may_read():  # otherwise the caller would learn what exists
        await entries.require_folder(access.parent)
    await _require_free(access)
    async with name_locks.lock_new_folder(await access.locate("")):
        await _require_free(access)
        await changes.mkdir(access)


async def _require_free(access: PathAccess) -> None:
    if await entries.exists(access):
        raise EntryExists


async def remove_file(access: PathAccess) -> None:
    """Remove one file. Raise EntryNotFound, or NotAFile for a folder."""
    access.parent.require(Right.DELETE)
    if (await entries.stat(access)).is_dir:
        raise NotAFile
    await changes.remove(access.parent, [access.path.name])


async def remove_folder(access: PathAccess) -> None:
    """Remove one empty folder. Raise EntryNotFound, NotAFolder or NotEmpty."""
    access.parent.require(Right.DELETE)
    if access.is_mount_or_ancestor():
        raise StorageForbidden
    await entries.require_folder(access)
    if access.is_restricted_below(True):
        raise AccessDenied
    storage_path = await access.locate("")
    driver = storage_path.driver
    if not driver.capabilities.remove:
        raise NotSupported
    async for batch in driver.list(storage_path.path):
        if batch:
            raise NotEmpty
    async with journal.remove(storage_path, is_folder=True):
        if not driver.capabilities.remove_empty:
            await driver.remove(storage_path.path)
        elif not await driver.remove_empty(storage_path.path):
            raise NotEmpty


async def rename(source: PathAccess, target: PathAccess, overwrite: bool) -> None:
    """Rename or move an entry within its storage. It requires the right to rename, to move, or both.

    Raise EntryExists or NameConflict if the name is taken and must not be replaced, HiddenName, NotSupported between
    storages, which only a task can do.
    """
    if source.path == target.path:
        await entries.stat(source)
        return
    if source.path.parent == target.path.parent:
        await transfers.rename(source, target.path.name, overwrite)
        return
    target.parent.require(Right.MOVE)
    refuse_hidden(target)
    if await transfers.transfer(TransferRequest.of_entry(Right.MOVE, source, target, overwrite)):
        raise NotSupported("only a task can do this")


async def set_modified(access: PathAccess, modified: float) -> None:
    """Set the modification time (seconds since the epoch). Raise NotSupported if the storage cannot."""
    access.parent.require(Right.WRITE)
    access.require_read()
    if not access.may_write():
        raise AccessDenied
    if access.is_mount_or_ancestor():
        raise NotSupported
    storage_path = await access.locate("")
    if not storage_path.driver.capabilities.set_modified:
        raise NotSupported
    async with journal.add(storage_path) as change:
        change.set_entry(await storage_path.driver.set_modified(storage_path.path, modified))
