"""The connections of one storage: opened on demand, shared, reopened after a drop, closed when idle."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, NamedTuple, TypeVar

from mangrove.core.problems import StorageProblem, Unreachable

_ADDRESS = re.compile(r"(\[[\w:.%]+\]|[^\s:/\\@\[\]]+)(?::([0-9]{1,5}))?")


class Address(NamedTuple):
    """A name or an IP address, and a port."""

    host: str
    port: int


def parse_address(text: str, port: int) -> Address:
    """Parse `host`, `host:port`, `IPv6`, `[IPv6]` or `[IPv6]:port`; `port` is the default. Raise StorageProblem."""
    text = text.strip()
    try:
        ipaddress.IPv6Address(text)
        return Address(text, port)
    except ValueError:
        pass
    match = _ADDRESS.fullmatch(text)
    number = int(match[2] or port) if match else 0
    if match is None or not 0 < number < 65536:
        raise StorageProblem(
            f"address has to be a host name or an IP address, and a port after a colon if it is not {port}"
        )
    return Address(match[1].strip("[]"), number)


Connection = TypeVar("Connection")
OPEN_TIMEOUT_SECONDS = 10.0  # for opening a connection, including the sign-in
RETRY_AFTER_SECONDS = 1.0  # after a failure to open one, during which other callers fail immediately
WAIT_TIMEOUT_SECONDS = 20.0  # for a caller to wait while all are in use
IDLE_TIMEOUT_SECONDS = 300.0  # after which an unused connection is closed
CHECK_AFTER_SECONDS = 5.0  # without use, after which a connection is checked before it is used again
CHECK_TIMEOUT_SECONDS = 3.0  # for the check
CLOSE_TIMEOUT_SECONDS = 3.0


async def _pass_check(_: object) -> bool:
    return True


class _Slot(Generic[Connection]):
    """One connection, which may still be opening, and the number of its users."""

    def __init__(self, opening: asyncio.Task[Connection], now: float) -> None:
        self.opening = opening
        self.users = 0
        self.used_at = now
        self.is_new = True
        self.is_dropped = False

    @property
    def connection(self) -> Connection | None:
        """Return the connection; None while it opens and after a failure."""
        task = self.opening
        return task.result() if task.done() and not task.cancelled() and task.exception() is None else None


class ConnectionPool(Generic[Connection]):
    """At most `limit` connections, each for `sharing` concurrent users.

    `open` raises StorageProblem; `close` may raise anything; `is_open` tells, without waiting, if a connection is
    usable; `check` asks the server if one that was unused for a while still is. The pool belongs to one event loop;
    connections of an earlier loop, as of a function, are dropped.
    """

    def __init__(
        self,
        open: Callable[[], Awaitable[Connection]],
        close: Callable[[Connection], Awaitable[object]],
        is_open: Callable[[Connection], bool],
        check: Callable[[Connection], Awaitable[bool]] = _pass_check,
        *,
        limit: int,
        sharing: int = 1,
    ) -> None:
        self._open = open
        self._close = close
        self._is_open = is_open
        self._check = check
        self._limit = limit
        self._sharing = sharing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forget()

    def _forget(self) -> None:
        self._slots: list[_Slot[Connection]] = []
        self._turns = asyncio.Semaphore(self._limit * self._sharing)
        self._closing: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        # until when the last failure is raised without another attempt
        self._failure: tuple[float, StorageProblem] | None = None

    @property
    def size(self) -> int:
        """The number of connections that are open or opening."""
        return len(self._slots)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """Yield an open connection; the caller translates its failures.

        Raise Unreachable if none can be opened, or none becomes free in time.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._forget()
        turns = self._turns
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_SECONDS):
                await turns.acquire()
        except TimeoutError:
            raise Unreachable("all connections to the storage are in use") from None
        try:
            slot, connection = await self._enter(loop)
            try:
                yield connection
            finally:
                self._leave(slot)
        finally:
            turns.release()

    async def _enter(self, loop: asyncio.AbstractEventLoop) -> tuple[_Slot[Connection], Connection]:
        while True:
            slot = self._find() or self._add(loop)
            slot.users += 1
            try:
                connection = await asyncio.shield(slot.opening)
                if await self._is_alive(slot, connection):
                    return slot, connection
            except BaseException:
                self._leave(slot)
                raise
            slot.is_dropped = True
            self._leave(slot)

    def _find(self) -> _Slot[Connection] | None:
        """Return the connection with the fewest users, if it has room for another; of several the last one opened."""
        free = [slot for slot in reversed(self._slots) if slot.users < self._sharing]
        return min(free, key=lambda slot: slot.users, default=None)

    def _add(self, loop: asyncio.AbstractEventLoop) -> _Slot[Connection]:
        if self._failure is not None:
            until, problem = self._failure
            if loop.time() < until:
                raise type(problem)(str(problem))
            self._failure = None
        slot = _Slot(loop.create_task(self._open_in_time()), loop.time())
        slot.opening.add_done_callback(self._note_failure)
        self._slots.append(slot)
        return slot

    async def _open_in_time(self) -> Connection:
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_SECONDS):
                return await self._open()
        except TimeoutError:
            raise Unreachable("no connection within the time allowed") from None

    def _note_failure(self, opening: asyncio.Task[Connection]) -> None:
        problem = None if opening.cancelled() else opening.exception()
        if isinstance(problem, StorageProblem):
            self._failure = (opening.get_loop().time() + RETRY_AFTER_SECONDS, problem)

    async def _is_alive(self, slot: _Slot[Connection], connection: Connection) -> bool:
        if slot.is_dropped or not self._is_open(connection):
            return False
        now = asyncio.get_running_loop().time()
        if slot.is_new or slot.users > 1 or now - slot.used_at < CHECK_AFTER_SECONDS:
            return True
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                return await self._check(connection)
        except (StorageProblem, TimeoutError):
            return False

    def _leave(self, slot: _Slot[Connection]) -> None:
        slot.users -= 1
        slot.is_new = False
        connection = slot.connection
        if slot.opening.done() and (connection is None or not self._is_open(connection)):
            slot.is_dropped = True
        if slot.is_dropped and slot in self._slots:
            self._slots.remove(slot)
        loop = slot.opening.get_loop()
        slot.used_at = loop.time()
        if slot.is_dropped and not slot.users and connection is not None:
            self._close_later(connection, loop)
        elif self._timer is None and loop is self._loop:
            self._timer = loop.call_later(IDLE_TIMEOUT_SECONDS, self._close_idle, loop)

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were unused for IDLE_TIMEOUT_SECONDS; repeat while there are connections."""
        self._timer = None
        self.close_unused(IDLE_TIMEOUT_SECONDS - 1)
        if self._slots:
            self._timer = loop.call_later(IDLE_TIMEOUT_SECONDS / 4, self._close_idle, loop)

    def close_unused(self, seconds: float = 0.0) -> None:
        """Close the connections that were unused for so long."""
        for slot in [slot for slot in self._slots if not slot.users]:
            connection, loop = slot.connection, slot.opening.get_loop()
            if connection is not None and loop.time() - slot.used_at >= seconds:
                self._slots.remove(slot)
                self._close_later(connection, loop)

    def _close_later(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        closing = loop.create_task(self._close_in_time(connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _close_in_time(self, connection: Connection) -> None:
        with suppress(Exception):  # after any error the connection is not used again
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._close(connection)

    async def close(self) -> None:
        """Close all; those in use end with their work. Never raises."""
        if self._loop is not asyncio.get_running_loop():
            self._forget()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.is_dropped = True
            connection = slot.connection
            if connection is None:
                slot.opening.cancel()
            elif not slot.users:
                self._close_later(connection, self._loop)
        if self._closing:
            await asyncio.wait(list(self._closing))
