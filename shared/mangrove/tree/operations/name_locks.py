"""Locks of names that one change at a time may create or replace, for storages that cannot refuse a taken name
themselves.

They cost nothing if the driver can (`can_refuse_existing`). Otherwise every change that creates or replaces a name
locks it. Changes that overwrite do so, too: a change that checked the name before must not replace their file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from secrets import token_hex
from typing import TypeVar, TypeVarTuple, Unpack
from unicodedata import normalize

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, InUse, NotSupported, RecordsUnavailable
from mangrove.drivers.base import Entry, Upload
from mangrove.records import name_locks
from mangrove.records.name_locks import Heartbeat
from mangrove.records.store.base import RecordConflict
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal

RENEWAL_INTERVAL_SECONDS = 1.5
LEASE_SECONDS = 5.0  # after which the work under a lock that could not be renewed is stopped
TAKEOVER_SECONDS = 8.0  # after which a lock that was not renewed belongs to a dead process
WAIT_SECONDS = 15.0  # for a name
POLL_INTERVAL_SECONDS = 0.05  # between two checks of a name that another process has locked

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class NameLock:
    """Names that are locked together."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit  # ends the work under the lock before another process can take the names
        self._holder = token_hex(12)
        self._requested: list[str] = []
        self._taken: list[str] = []
        self._locks = AsyncExitStack()  # within this process
        self._renewing: asyncio.Task[None] | None = None

    async def take(self, *storage_paths: StoragePath) -> None:
        """Wait until all these names are locked. Raise InUse after WAIT_SECONDS."""
        names = await _identify(storage_paths)
        self._renewing = asyncio.create_task(self._renew())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for name in names:
                    await self._locks.enter_async_context(limits().names.hold(name))
                for batch in _split(names):
                    await self._take_batch(batch)
        except TimeoutError:
            raise InUse from None

    async def _take_batch(self, names: Sequence[str]) -> None:
        """Lock all names in one call if they are free, otherwise one after the other."""
        if len(names) > 1:
            self._requested += names
            if await _run(name_locks.acquire_all, names, self._holder):
                self._taken += names
                return
            del self._requested[-len(names) :]  # none was locked
        for name in names:
            await self._take(name)

    async def _take(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        heartbeat: Heartbeat | None = None
        seen_at = loop.time()
        self._requested.append(name)
        while not await _run(
            name_locks.acquire, name, self._holder, heartbeat if loop.time() - seen_at > TAKEOVER_SECONDS else None
        ):
            latest = await _run(name_locks.find, name)
            if latest != heartbeat:
                heartbeat, seen_at = latest, loop.time()
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
        self._taken.append(name)

    async def _renew(self) -> None:
        """Renew the names. The work ends if that fails for LEASE_SECONDS, and immediately if a name was lost."""
        loop = asyncio.get_running_loop()
        while not self._limit.expired():
            began_at = loop.time()
            try:
                for names in _split(self._taken):
                    await _run(name_locks.send_heartbeat, names, self._holder)
                end = began_at + LEASE_SECONDS
            except RecordsUnavailable:
                end = self._limit.when() or began_at
            except RecordConflict:
                end = began_at
            if not self._limit.expired():
                self._limit.reschedule(end)
            await asyncio.sleep(RENEWAL_INTERVAL_SECONDS)

    async def release(self) -> None:
        """Release all names that are locked or were requested."""
        if self._renewing is not None:
            self._renewing.cancel()
        if not self._limit.expired():
            self._limit.reschedule(None)
        if self._renewing is not None:
            await asyncio.wait([self._renewing])
        try:
            for names in _split(self._requested):
                await _run(name_locks.release, names, self._holder)
        except RecordsUnavailable:
            pass  # the work is done, and nothing renews the lock
        finally:
            await self._locks.aclose()


async def _run(function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
    """Run a call to the records in a thread, until it ends: a late one would undo a later call."""
    return await finish_despite_cancel(asyncio.to_thread(function, *args))


def _split(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split names into batches for one call each."""
    return (
        names[start : start + name_locks.MAX_NAMES_PER_CALL]
        for start in range(0, len(names), name_locks.MAX_NAMES_PER_CALL)
    )


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
async def _open_lock() -> AsyncIterator[NameLock]:
    """Yield a lock without names, and release it at the end. Raise RecordsUnavailable if it was lost."""
    limit = asyncio.timeout(None)
    try:
        async with limit:
            lock = NameLock(limit)
            try:
                yield lock
            finally:
                await finish_despite_cancel(lock.release())
    except TimeoutError:
        if not limit.expired():
            raise
        raise RecordsUnavailable("a name that was to be changed could not be held any longer, try again") from None


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
    async with _open_lock() as lock:
        await lock.take(target, *sources)
        if not overwrite:
            await _check_free(target)
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
        lock = None if await driver.can_refuse_existing() else await stack.enter_async_context(_open_lock())

        async def begin_at_end() -> AsyncIterator[bytes]:
            async for chunk in body:
                yield chunk
            await change.begin()
            if lock is not None:
                await lock.take(storage_path)
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
