"""Locks of names that one change at a time may create or replace, for storages that cannot refuse a taken name
themselves.

They cost nothing if the driver can (`can_refuse_existing`). Otherwise every change that creates or replaces a name
locks it. Changes that overwrite do so, too: a change that checked the name before must not replace their file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from unicodedata import normalize

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported
from mangrove.drivers.base import Entry, Upload
from mangrove.tree.lock_leases import open_lock
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal


async def _identify(storage_paths: Sequence[StoragePath]) -> list[str]:
    """Return the names of entries in the records, sorted: every process locks them in this order.

    An entry has the same name through every storage. Spellings that some storages do not distinguish share a name.
    """
    folders: dict[tuple[int, TreePath], set[str]] = {}
    names: set[str] = set()
    for storage_path in storage_paths:
        key = id(storage_path.driver), storage_path.path.parent
        if key not in folders:
            folders[key] = await _identify_folder(storage_path)
        texts = (normalize("NFC", f"{folder}/{storage_path.path.name}".casefold()) for folder in folders[key])
        names.update(sha256(text.encode()).hexdigest() for text in texts)
    return sorted(names)


async def _identify_folder(storage_path: StoragePath) -> set[str]:
    """Return the names of the folder of an entry."""
    name = f"{storage_path.mount.path}:{storage_path.path.parent}"
    if storage_path.driver.capabilities.identify:
        try:
            return set(await storage_path.driver.identify(storage_path.path.parent)) or {name}
        except EntryNotFound:
            pass  # no existing entry has another name
    return {name}


@asynccontextmanager
async def lock_name(target: StoragePath, *sources: StoragePath, overwrite: bool = True) -> AsyncIterator[None]:
    """Lock a name while it is changed, and the names that disappear with it (`sources`). Without `overwrite`, raise
    EntryExists if the name is taken.

    If the driver refuses a taken name itself, it does nothing. Raise InUse if another change takes too long. If the
    lock is lost, interrupt the change and raise RecordsUnavailable.
    """
    if await target.driver.can_refuse_existing():
        yield
        return
    async with open_lock() as lock:
        await lock.take(await _identify([target, *sources]))
        if not overwrite:
            await _check_free(target)
        yield


@asynccontextmanager
async def lock_new_folder(storage_path: StoragePath) -> AsyncIterator[None]:
    """Lock a name for callers that make a folder and must know that they made it, whatever the storage can refuse.

    It is another lock than that of `lock_name`, which the change itself takes.
    """
    async with open_lock() as lock:
        names = await _identify([storage_path])
        await lock.take(sorted(sha256(f"new folder:{name}".encode()).hexdigest() for name in names))
        yield


async def _exists(storage_path: StoragePath) -> bool:
    try:
        await storage_path.driver.stat(storage_path.path)
    except EntryNotFound:
        return False
    return True


async def _check_free(storage_path: StoragePath) -> None:
    if await _exists(storage_path):
        raise EntryExists


async def write(storage_path: StoragePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
    """Store a body. Raise EntryExists unless `upload.overwrite`.

    The change starts, and the name is locked, at the end of the body: a driver stores nothing before, and a slow client
    does not block the name.
    """
    driver = storage_path.driver
    change = journal.add(storage_path)
    async with AsyncExitStack() as stack:
        stack.push_async_exit(change.__aexit__)
        lock = None if await driver.can_refuse_existing() else await stack.enter_async_context(open_lock())

        async def begin_at_end() -> AsyncIterator[bytes]:
            async for chunk in body:
                yield chunk
            await change.begin()
            if lock is not None:
                await lock.take(await _identify([storage_path]))
                if not upload.overwrite:
                    await _check_free(storage_path)

        entry = await driver.write(storage_path.path, begin_at_end(), upload)
        change.set_entry(entry)
        return entry


async def makedirs(storage_path: StoragePath, *, in_bulk: bool = False) -> None:
    """Make a folder and its missing parents, with each name locked.

    Raise EntryExists if a file has one of the paths, NotSupported for a storage without folders. `in_bulk`: one of many
    that a task makes.
    """
    driver = storage_path.driver
    if not driver.capabilities.makedirs:
        raise NotSupported
    if storage_path.path == "/":
        return  # it always exists
    makes_parents = await driver.can_refuse_existing()
    is_logged = journal.is_logged()
    steps = [storage_path.path] if makes_parents and not is_logged else await _find_missing(storage_path)
    is_new = is_logged and (len(steps) > 1 or not await _exists(storage_path))
    async with journal.make_folders(storage_path, steps if is_new else (), in_bulk=in_bulk):
        if makes_parents:
            await driver.makedirs(storage_path.path)
            return
        for step in reversed(steps):
            async with lock_name(storage_path.with_path(step)):
                await driver.makedirs(step)


async def _find_missing(storage_path: StoragePath) -> list[TreePath]:
    """Return the folder and, upwards, its missing parents."""
    steps = [storage_path.path]
    while steps[-1].parent != "/" and not await _exists(storage_path.with_path(steps[-1].parent)):
        steps.append(steps[-1].parent)
    return steps
