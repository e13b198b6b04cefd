"""The versions of a file: those that its storage keeps by itself, or those that the trash keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, BadRequest, EntryNotFound, NotAFile, NotSupported
from mangrove.drivers.base import Driver, StoredVersion
from mangrove.identity.rights import Right
from mangrove.records import trash
from mangrove.records.trash import TrashEntry
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import find_entry
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.name_locks import lock_name
from mangrove.tree.trash.content import get_path, settle
from mangrove.tree.trash.keeping import MAX_VERSIONS_PER_FILE

MAX_ID_LENGTH = 1024  # characters, as S3 allows
LATEST = "latest"  # the id of the current file of a storage whose versions are in the trash


class KeptPath(StoragePath):
    """The path of a version inside its storage. Callers cannot name this path."""

    __slots__ = ()

    def __post_init__(self) -> None:
        pass


async def list_versions(access: PathAccess) -> Sequence[StoredVersion]:
    """Return the versions of a file, the newest first. Raise EntryNotFound for no file, NotAFile for a folder."""
    storage_path = await access.require_read().locate("")
    driver = storage_path.driver
    present = await find_entry(storage_path)
    if present is not None and present.is_dir:
        raise NotAFile
    if driver.capabilities.versions:
        versions = await driver.list_versions(storage_path.path)
    else:
        latest = present and StoredVersion(LATEST, present.size, present.modified, True, False)
        versions = [*([latest] if latest else ()), *map(_describe, await _list_kept(storage_path))]
    if not versions:
        raise EntryNotFound
    return versions


async def _list_kept(storage_path: StoragePath) -> Sequence[TrashEntry]:
    storage_id, path = storage_path.mount.storage.id, str(storage_path.path)
    return await asyncio.to_thread(trash.list_versions, storage_id, path, MAX_VERSIONS_PER_FILE)


def _describe(entry: TrashEntry) -> StoredVersion:
    return StoredVersion(entry.id, None if entry.size < 0 else entry.size, entry.modified, False, False)


async def restore_version(access: PathAccess, id: str) -> None:
    """Make a version the current file. Keep the replaced file as a version. Raise EntryNotFound."""
    folder = access.parent
    folder.require(Right.WRITE)
    access.require_read()
    if access.is_mount_or_ancestor() or not folder.may_replace(access):
        raise AccessDenied
    storage_path = await access.locate("")
    record = await _find_version(storage_path, id)
    async with journal.add(storage_path), lock_name(storage_path):
        if record is None:
            await storage_path.driver.restore_version(storage_path.path, id)
        else:
            await _restore_kept(storage_path, record)


async def _find_version(storage_path: StoragePath, id: str) -> TrashEntry | None:
    """Return the record of a version, None for a version that the storage keeps. Raise EntryNotFound."""
    if not id or len(id) > MAX_ID_LENGTH:
        raise BadRequest(f"the id of a version has from 1 to {MAX_ID_LENGTH} characters")
    if storage_path.driver.capabilities.versions:
        if id not in {version.id for version in await storage_path.driver.list_versions(storage_path.path)}:
            raise EntryNotFound
        return None
    storage_id = storage_path.mount.storage.id
    record = await asyncio.to_thread(trash.find_version, storage_id, str(storage_path.path), id)
    if record is None:
        raise EntryNotFound
    return record


async def _restore_kept(storage_path: StoragePath, record: TrashEntry) -> None:
    """Copy a version to the path of its file. Move it if the storage cannot copy by itself."""
    driver, path = storage_path.driver, storage_path.path
    try:
        await driver.copy(get_path(record), path, overwrite=True)
    except NotSupported:
        await driver.move(get_path(record), path, overwrite=True)
        await settle(driver, record)


async def find_version(storage_path: StoragePath, id: str) -> StoragePath:
    """Return the path at which a version of a file can be read. Raise EntryNotFound."""
    record = await _find_version(storage_path, id)
    driver: Driver = storage_path.driver
    path: TreePath = storage_path.path
    if record is None:
        return KeptPath(driver.view_version(path, id), path, storage_path.mount)
    return KeptPath(driver, get_path(record), storage_path.mount)
