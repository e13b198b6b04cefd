"""A lock on names: in this process, and in the records by a lease that is renewed while the work lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_hex
from typing import TypeVar, TypeVarTuple, Unpack

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.limits import limits
from mangrove.core.problems import InUse, RecordsUnavailable
from mangrove.records import name_locks
from mangrove.records.name_locks import Heartbeat
from mangrove.records.store.base import RecordConflict

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

    async def take(self, names: Sequence[str]) -> None:
        """Wait until all these names are locked, which every caller names in the same order.

        Raise InUse after WAIT_SECONDS.
        """
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


@asynccontextmanager
async def open_lock() -> AsyncIterator[NameLock]:
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
