"""Names that one change at a time may take or replace, where the storage itself cannot refuse a taken one.

Where the driver can (`can_refuse_existing`), nothing here costs anything. Elsewhere every change that creates or
replaces a name holds it, those that overwrite too: what they stored must not be replaced by one that looked before.
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
from mangrove.records.files import holds
from mangrove.records.files.holds import Beat
from mangrove.records.store.base import RecordConflict
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal

RENEW_SECONDS = 1.5
HOLD_SECONDS = 5.0  # a holder that could not renew for so long stops
TAKEOVER_SECONDS = 8.0  # a hold that was not renewed for so long has no holder any more
WAIT_SECONDS = 15.0  # for a name
POLL_SECONDS = 0.05  # between two looks at a name that another process holds

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Hold:
    """Names that are held together. `limit` ends the work under it before they may be somebody else's."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._holder = token_hex(12)
        self._asked: list[str] = []
        self._taken: list[str] = []
        self._locks = AsyncExitStack()
        self._renewing: asyncio.Task[None] | None = None

    async def take(self, *places: StoragePath) -> None:
        """Wait until all these names are held; InUse after WAIT_SECONDS."""
        names = await _identify(places)
        self._renewing = asyncio.create_task(self._renew())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for name in names:
                    await self._locks.enter_async_context(limits().names.hold(name))
                for some in _split(names):
                    await self._take_some(some)
        except TimeoutError:
            raise InUse from None

    async def _take_some(self, names: Sequence[str]) -> None:
        """All in one call where nobody holds any; else one after the other."""
        if len(names) > 1:
            self._asked += names
            if await _run(holds.take_all, names, self._holder):
                self._taken += names
                return
            del self._asked[-len(names) :]  # it took none
        for name in names:
            await self._take(name)

    async def _take(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        seen: Beat | None = None
        since = loop.time()
        self._asked.append(name)
        while not await _run(holds.take, name, self._holder, seen if loop.time() - since > TAKEOVER_SECONDS else None):
            found = await _run(holds.find, name)
            if found != seen:
                seen, since = found, loop.time()
            await asyncio.sleep(POLL_SECONDS)
        self._taken.append(name)

    async def _renew(self) -> None:
        """Renew what is held; the work ends when that fails for HOLD_SECONDS, at once when a name was lost."""
        loop = asyncio.get_running_loop()
        while not self._limit.expired():
            began = loop.time()
            try:
                for names in _split(self._taken):
                    await _run(holds.renew, names, self._holder)
                end = began + HOLD_SECONDS
            except RecordsUnavailable:
                end = self._limit.when() or began
            except RecordConflict:
                end = began
            if not self._limit.expired():
                self._limit.reschedule(end)
            await asyncio.sleep(RENEW_SECONDS)

    async def release(self) -> None:
        """Give up what is held or was asked for."""
        if self._renewing is not None:
            self._renewing.cancel()
        if not self._limit.expired():
            self._limit.reschedule(None)
        if self._renewing is not None:
            await asyncio.wait([self._renewing])
        try:
            for names in _split(self._asked):
                await _run(holds.release, names, self._holder)
        except RecordsUnavailable:
            pass  # what was done is done, and nobody renews the hold
        finally:
            await self._locks.aclose()


async def _run(function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
    """Run a call to the records in a thread, to its end: what comes late would undo what was done after it."""
    return await finish_despite_cancel(asyncio.to_thread(function, *args))


def _split(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many together as one call takes."""
    return (names[start : start + holds.MOST] for start in range(0, len(names), holds.MOST))


async def _identify(places: Sequence[StoragePath]) -> list[str]:
    """The names that stand for entries in the records, the same through whichever storage they are reached; in the one
    order in which everybody takes them.

    Two spellings that some storages take for one share a name.
    """
    folders: dict[tuple[int, TreePath], set[str]] = {}
    found: set[str] = set()
    for place in places:
        key = id(place.driver), place.path.parent
        if key not in folders:
            folders[key] = await _identify_folder(place)
        texts = (normalize("NFC", f"{folder}/{place.path.name}".casefold()) for folder in folders[key])
        found.update(sha256(text.encode()).hexdigest() for text in texts)
    return sorted(found)


async def _identify_folder(storage_path: StoragePath) -> set[str]:
    """The names of the folder that an entry is in."""
    if storage_path.driver.capabilities.identify:
        try:
            return set(await storage_path.driver.identify(storage_path.path.parent)) or {_name_folder(storage_path)}
        except EntryNotFound:
            pass  # there is nothing yet that has another name
    return {_name_folder(storage_path)}


def _name_folder(storage_path: StoragePath) -> str:
    return f"{storage_path.mount.path}:{storage_path.path.parent}"


@asynccontextmanager
async def _open_hold() -> AsyncIterator[Hold]:
    """A hold of no names yet, given up at the end; RecordsUnavailable when it could not be kept."""
    limit = asyncio.timeout(None)
    try:
        async with limit:
            hold = Hold(limit)
            try:
                yield hold
            finally:
                await finish_despite_cancel(hold.release())
    except TimeoutError:
        if not limit.expired():
            raise
        raise RecordsUnavailable("a name that was to be changed could not be held any longer, try again") from None


@asynccontextmanager
async def lock_name(target: StoragePath, *sources: StoragePath, overwrite: bool = True) -> AsyncIterator[None]:
    """Keep all others from a name while it is changed, and from those that vanish for it (`sources`).

    Without `overwrite`, EntryExists when something has it. Nothing of this where the driver refuses a taken name by
    itself. InUse when another change lasts too long; RecordsUnavailable, and the change is broken off, when the hold is
    lost.
    """
    if await target.driver.can_refuse_existing():
        yield
        return
    async with _open_hold() as hold:
        await hold.take(target, *sources)
        if not overwrite:
            await _check_free(target)
        yield


async def _check_free(storage_path: StoragePath) -> None:
    try:
        await storage_path.driver.stat(storage_path.path)
    except EntryNotFound:
        return
    raise EntryExists


async def write(storage_path: StoragePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
    """Store a body; EntryExists unless `upload.overwrite`. The change begins, and the name is held, at the body's end:
    a slow sender keeps nobody from it, since a driver stores nothing before."""
    driver = storage_path.driver
    change = journal.add(storage_path)
    async with AsyncExitStack() as stack:
        stack.push_async_exit(change.__aexit__)
        hold = None if await driver.can_refuse_existing() else await stack.enter_async_context(_open_hold())

        async def begin_at_end() -> AsyncIterator[bytes]:
            async for chunk in body:
                yield chunk
            await change.begin()
            if hold is not None:
                await hold.take(storage_path)
                if not upload.overwrite:
                    await _check_free(storage_path)

        entry = await driver.write(storage_path.path, begin_at_end(), upload)
        change.set_entry(entry)
        return entry


async def makedirs(storage_path: StoragePath, *, in_bulk: bool = False) -> None:
    """Make a folder and its missing parents, each name held; EntryExists when a file is in the way.

    NotSupported by a storage without folders. The root is always there. `in_bulk`: one of many that a task makes.
    """
    driver = storage_path.driver
    if not driver.capabilities.makedirs:
        raise NotSupported
    if storage_path.path == "/":
        return
    is_whole = await driver.can_refuse_existing()  # the storage makes all of them
    is_logged = journal.is_logged()
    steps = [storage_path.path] if is_whole and not is_logged else await _find_missing(storage_path)
    is_new = is_logged and (len(steps) > 1 or not await _exists(storage_path))
    async with journal.make_folders(storage_path, steps if is_new else (), in_bulk=in_bulk):
        if is_whole:
            await driver.makedirs(storage_path.path)
            return
        for step in reversed(steps):
            async with lock_name(storage_path.with_path(step)):
                await driver.makedirs(step)


async def _find_missing(storage_path: StoragePath) -> list[TreePath]:
    """The folder and, upwards, those above it that are not there."""
    steps = [storage_path.path]
    while steps[-1].parent != "/" and not await _exists(storage_path.with_path(steps[-1].parent)):
        steps.append(steps[-1].parent)
    return steps


async def _exists(storage_path: StoragePath) -> bool:
    try:
        await _check_free(storage_path)
    except EntryExists:
        return True
    return False
