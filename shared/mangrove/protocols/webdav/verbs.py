"""The changing methods of WebDAV, on the tree. Rights and rules are those of the tree's own operations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from mangrove.core import deadlines
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    AccessDenied,
    EntryExists,
    EntryNotFound,
    NameConflict,
    NotAFolder,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers.base import Entry, Upload
from mangrove.identity.rights import Caller, Right
from mangrove.protocols.sessions import ProtocolSession
from mangrove.protocols.webdav.bodies import LockRequest, PropertyChange, RepeatableBody
from mangrove.protocols.webdav.errors import DavProblem, PreconditionFailed
from mangrove.protocols.webdav.locking import (
    Conditions,
    forget,
    is_nothing_locked,
    release,
    require_unlocked,
    require_writer,
    take,
)
from mangrove.protocols.webdav.properties import PROTECTED, format_element, format_propstat
from mangrove.records import webdav_properties
from mangrove.records.tasks.model import Task
from mangrove.records.webdav_locks import Lock
from mangrove.records.webdav_properties import PropertyQuotaExceeded
from mangrove.tasks import submit
from mangrove.tree import access as accesses
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import changes, strict_operations, uploads
from mangrove.tree.operations.plans import TransferRequest

WAIT_SECONDS = 900.0  # for a copy or move between storages; after that it continues without its request
LOCKS_FRESH_SECONDS = 1.0  # for which locks that were read are recent enough to store a file
MAX_REPEATABLE_BYTES = 128 << 10  # of a body that is kept until the file is stored
LEFT_SECONDS = 3.0  # of a function's time, for the answer that the task continues


@dataclass(frozen=True, slots=True)
class DavRequest:
    """One request of a signed-in user.

    `password`: for folders that have one, which guests send as their own; `caller`: with the right that the method
    declares.
    """

    session: ProtocolSession
    password: str
    caller: Caller
    conditions: Conditions

    @property
    def right(self) -> Right:
        """The right that the method declares."""
        return self.caller.declared_right

    async def at(self, path: str, right: Right | None = None) -> PathAccess:
        """Return a path below the caller's base path, for a method that needs `right`."""
        caller = self.caller if right is None else await self.session.make_caller(right)
        return await accesses.at(caller, path, self.password)


async def _require_parent(access: PathAccess) -> None:
    """Raise 409 unless the parent folder exists."""
    if not access.parent.may_read():
        return  # the caller must not learn what exists there
    try:
        await entries.require_folder(access.parent)
    except (EntryNotFound, NotAFolder):
        raise DavProblem(409, "the parent folder does not exist") from None


async def put(
    dav: DavRequest, access: PathAccess, old: Entry | None, body: AsyncIterator[bytes], upload: Upload,
    *, is_new: bool = False,
) -> Entry:  # fmt: skip
    """Store a file and return it. `upload.overwrite` is False if it must be a new one.

    `is_new`: as in `uploads.write`.
    """
    access.parent.require(Right.WRITE)
    if access.path == access.base or (old is not None and old.is_dir):
        raise EntryExists("a folder has this address")
    if not upload.overwrite:
        strict_operations.refuse_hidden(access)
    await _require_parent(access)
    await dav.conditions.require(access)
    paths = [access] if old else [access, access.parent]
    await require_unlocked(dav.conditions, *paths)
    guarded = _require_unlocked_at_end(dav, body, paths)
    return await uploads.write(access, guarded, upload, overwrite=upload.overwrite, hashes={}, is_new=is_new)


async def put_new(dav: DavRequest, access: PathAccess, body: RepeatableBody, upload: Upload) -> Entry | None:
    """Store a small file at once where nothing is, in one call of the storage, and return it.

    Return None if the path has to be looked up first, with the body rewound: something may be there, or a lock.
    """
    is_small = upload.size is not None and upload.size <= MAX_REPEATABLE_BYTES
    if is_small and not dav.conditions.lists and not access.is_mount_or_ancestor() and access.may_read():
        try:
            if await uploads.refuses_existing(access) and await is_nothing_locked():
                return await put(dav, access, None, body, replace(upload, overwrite=False), is_new=True)
        except NameConflict:
            pass
    body.rewind()
    return None


async def _require_unlocked_at_end(
    dav: DavRequest, body: AsyncIterator[bytes], paths: Sequence[PathAccess]
) -> AsyncIterator[bytes]:
    """Yield the body. Raise LockedResource at its end if the path was locked while a slow body was received."""
    began = time.monotonic()
    async for chunk in body:
        yield chunk
    if time.monotonic() - began > LOCKS_FRESH_SECONDS:
        await require_unlocked(dav.conditions, *paths)


async def mkcol(dav: DavRequest, access: PathAccess) -> None:
    """Make one folder. Raise EntryExists if the path is taken, 409 without the parent folder."""
    access.parent.require(Right.WRITE)
    if await entries.exists(access):
        raise EntryExists
    await _require_parent(access)
    await dav.conditions.require(access)
    await require_unlocked(dav.conditions, access, access.parent)
    await strict_operations.mkdir(access)


async def delete(dav: DavRequest, access: PathAccess) -> None:
    """Remove a file, or a folder with all its content. Remove nothing if the folder contains a lock of another user."""
    access.parent.require(Right.DELETE)
    await entries.stat(access)
    if access.path == access.base or access.is_mount_or_ancestor():
        raise StorageForbidden
    await dav.conditions.require(access)
    await _remove(dav, access)


async def _remove(dav: DavRequest, access: PathAccess) -> None:
    held = await require_unlocked(dav.conditions, access, is_deep=True)
    await require_unlocked(dav.conditions, access.parent)
    await changes.remove(access.parent, [access.path.name])
    await forget(held)
    await _forget_properties(access)


async def _forget_properties(access: PathAccess) -> None:
    mount, inner = access.find_mount()
    await asyncio.to_thread(webdav_properties.remove, mount.storage.id, inner)


@dataclass(frozen=True, slots=True)
class Transfer:
    """The request of COPY or MOVE.

    `is_shallow`: a folder without its content; `seconds`: time to wait for a task.
    """

    path: str
    destination: str
    overwrite: bool
    is_shallow: bool = False
    seconds: float = WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """The result of a COPY or MOVE.

    `is_new`: nothing was at the destination before; not `is_done`: it continues as a task.
    """

    is_new: bool
    is_done: bool = True


async def copy(dav: DavRequest, transfer: Transfer) -> CopyOutcome:
    """Copy to another path: within the request, or between two storages by a task that it waits for."""
    source = await dav.at(transfer.path)
    entry = await entries.stat(source)
    target, is_new = await _prepare(dav, transfer, source, entry)
    if entry.is_dir and transfer.is_shallow:
        await strict_operations.mkdir(await dav.at(transfer.destination, Right.WRITE))
        await _copy_properties(dav, source, target, is_deep=False)
        return CopyOutcome(is_new)
    tasks = await submit.transfer(TransferRequest.of_entry(Right.COPY, source, target, transfer.overwrite))
    is_done = await _wait(tasks, transfer.seconds)
    if is_done:
        await _copy_properties(dav, source, target)
    return CopyOutcome(is_new, is_done)


async def _wait(tasks: Sequence[Task], seconds: float) -> bool:
    """True if the task is done. Raise StorageProblem if it failed."""
    seconds = min(seconds, deadlines.get_remaining() - LEFT_SECONDS)
    return not tasks or await submit.wait(tasks[0], seconds)  # there is only one task per entry


async def move(dav: DavRequest, transfer: Transfer) -> CopyOutcome:
    """Move to another path, as `copy`. In one folder it needs the right to rename, else the right to move."""
    is_same_folder = (await dav.at(transfer.path)).path.parent == (await dav.at(transfer.destination)).path.parent
    dav = replace(dav, caller=await dav.session.make_caller(Right.RENAME if is_same_folder else Right.MOVE))
    source = await dav.at(transfer.path)
    source.parent.require(dav.right)
    entry = await entries.stat(source)
    if source.path == source.base or source.is_mount_or_ancestor():
        raise StorageForbidden
    held = await require_unlocked(dav.conditions, source, is_deep=True)
    await require_unlocked(dav.conditions, source.parent)
    target, is_new = await _prepare(dav, transfer, source, entry)
    if is_same_folder:
        tasks = await submit.rename(source, target.path.name, transfer.overwrite)
    else:
        tasks = await submit.transfer(TransferRequest.of_entry(Right.MOVE, source, target, transfer.overwrite))
    is_done = await _wait(tasks, transfer.seconds)
    if is_done:
        await forget(held)
        await _move_properties(source, target)
    return CopyOutcome(is_new, is_done)


async def _prepare(dav: DavRequest, transfer: Transfer, source: PathAccess, entry: Entry) -> tuple[PathAccess, bool]:
    """Return the free destination.

    An existing folder, or the entry that a folder replaces, is removed first; everything that can be refused is refused
    before.
    """
    target = await dav.at(transfer.destination)
    if target.path == source.path:
        raise AccessDenied("source and destination are the same")
    if target.path == target.base or target.is_mount_or_ancestor():
        raise StorageForbidden
    if target.path.within(source.path) or source.path.within(target.path):
        raise DavProblem(409 if entry.is_dir else 403, "source and destination contain each other")
    target.parent.require(dav.right)
    await _require_parent(target)
    if not transfer.overwrite:
        strict_operations.refuse_hidden(target)
    old = await entries.find_known(target)
    await dav.conditions.require(source)
    await require_unlocked(dav.conditions, target, is_deep=old is not None)
    if old is None:
        await require_unlocked(dav.conditions, target.parent)
        return target, True
    if not transfer.overwrite:
        raise PreconditionFailed("the destination exists")
    if old.is_dir or entry.is_dir:
        await _make_room(dav, transfer.destination, source, target)
    return target, False


async def _make_room(dav: DavRequest, destination: str, source: PathAccess, target: PathAccess) -> None:
    source.require_export(dav.right is not Right.COPY)
    if not target.parent.may_replace(target):
        raise AccessDenied
    target.require_import()
    await _remove(dav, await dav.at(destination, Right.DELETE))


async def _copy_properties(dav: DavRequest, source: PathAccess, target: PathAccess, is_deep: bool = True) -> None:
    mount, inner = source.find_mount()
    other, path = target.find_mount()
    user_id = dav.session.user_id
    if is_deep:
        await asyncio.to_thread(webdav_properties.copy, mount.storage.id, inner, other.storage.id, path, user_id)
    else:
        values = await asyncio.to_thread(webdav_properties.get, mount.storage.id, inner)
        await asyncio.to_thread(webdav_properties.put, other.storage.id, path, values, user_id)


async def _move_properties(source: PathAccess, target: PathAccess) -> None:
    mount, inner = source.find_mount()
    other, path = target.find_mount()
    await asyncio.to_thread(webdav_properties.move, mount.storage.id, inner, other.storage.id, path)


async def proppatch(dav: DavRequest, access: PathAccess, steps: Sequence[PropertyChange]) -> str:
    """Store properties of an entry, all of them or none, and return the `propstat` elements of the answer."""
    require_writer(access)
    await entries.stat(access)
    try:
        mount, inner = access.find_mount()
    except StorageProblem:
        raise StorageForbidden("no storage holds this folder") from None
    await dav.conditions.require(access)
    await require_unlocked(dav.conditions, access)
    names = list(dict.fromkeys(step.name for step in steps))
    refused = [name for name in names if name in PROTECTED]
    if refused:
        others = [name for name in names if name not in PROTECTED]
        failed = format_propstat(
            [format_element(name) for name in refused], "403 Forbidden", "cannot-modify-protected-property"
        )
        dependent = [format_element(name) for name in others]
        return failed + (format_propstat(dependent, "424 Failed Dependency") if others else "")
    try:
        await _store(mount.storage.id, inner, steps, dav.session.user_id)
    except PropertyQuotaExceeded as problem:
        return format_propstat([format_element(name) for name in names], "507 Insufficient Storage", text=str(problem))
    return format_propstat([format_element(name) for name in names], "200 OK")


async def _store(storage_id: int, inner: TreePath, steps: Sequence[PropertyChange], user_id: int) -> None:
    """Apply the steps of a PROPPATCH. Raise PropertyQuotaExceeded."""
    values = dict(await asyncio.to_thread(webdav_properties.get, storage_id, inner))
    for step in steps:
        if step.element is None:
            values.pop(step.name, None)
        else:
            values[step.name] = step.element
    await asyncio.to_thread(webdav_properties.put, storage_id, inner, values, user_id)


async def lock(
    dav: DavRequest, access: PathAccess, lock_request: LockRequest, is_deep: bool, seconds: int
) -> tuple[Lock, bool]:
    """Return a new lock, and True if the caller saw nothing at the path. Then an empty file is made for it."""
    require_writer(access)
    strict_operations.refuse_hidden(access)
    await dav.conditions.require(access)
    is_new = await entries.find_known(access) is None
    if is_new:
        await _require_parent(access)
        await require_unlocked(dav.conditions, access.parent)
    taken = await take(access, lock_request, is_deep, seconds, dav.conditions.prefix)
    if is_new:
        try:
            await _make_empty_file(access)
        except NameConflict:
            is_new = False  # another request was faster
        except BaseException:
            await asyncio.shield(release(access, taken.token))
            raise
    return taken, is_new


async def _make_empty_file(access: PathAccess) -> None:
    """Make the file of a lock, unless an entry that the caller may not see has its name."""
    if access.may_read() or (await uploads.allow(access))[0].path == access.path:
        upload = Upload(0, time.time(), overwrite=False)
        await uploads.write(access, _iterate_nothing(), upload, overwrite=False, hashes={})


async def _iterate_nothing() -> AsyncIterator[bytes]:
    return
    yield b""
