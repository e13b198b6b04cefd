"""Concurrency limits, in total and per caller; and the limits of the service.

A limit counts over all processes of the computer unless its comment says otherwise.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from mangrove.core import runtime
from mangrove.core.concurrency import PASSWORD_THREADS, KeyedLock, RoundRobinQueue
from mangrove.core.problems import ChunkInFlight, TooMany
from mangrove.core.shared_memory import Counts, Region

POLL_INTERVAL_SECONDS = 0.02  # about, between two checks for units that other processes returned
CHUNK_BYTES = 256 << 20  # in memory, of chunks of uploads
CHUNK_BYTES_PER_USER = 128 << 20
MIN_CHUNK_BYTES = 16 << 20  # a smaller chunk counts as so many: at most 16, 8 per user
CHUNK_WAIT_SECONDS = 10.0
WHOLE_BODY_BYTES = 128 << 20  # in memory, of files that a storage accepts only in one piece
WHOLE_BODY_WAIT_SECONDS = 60.0
SEARCH_CONCURRENCY = 4
SEARCHES_PER_CALLER = 1
SEARCH_WAIT_SECONDS = 20.0
THUMBNAIL_CONCURRENCY = 16
THUMBNAILS_PER_CALLER = 4
THUMBNAIL_WAIT_SECONDS = 30.0
LARGE_REQUEST_CONCURRENCY = 32
LARGE_REQUESTS_PER_CALLER = 4
LARGE_REQUEST_WAIT_SECONDS = 30.0
ARCHIVE_LOOKUP_CONCURRENCY = 8  # each may need a quarter of a GiB, and a core
ARCHIVE_LOOKUPS_PER_CALLER = 2
ARCHIVE_LOOKUP_WAIT_SECONDS = 60.0
ARCHIVE_MEMBER_CONCURRENCY = 16  # files that are sent; a slow client holds the memory for as long
ARCHIVE_MEMBERS_PER_CALLER = 4
ARCHIVE_MEMBER_WAIT_SECONDS = 10.0
SIGN_IN_CONCURRENCY = PASSWORD_THREADS  # per process
MAX_WAITING_SIGN_INS = 256  # per process; at 30 ms each the last one waits a few seconds
SIGN_IN_RETRY_SECONDS = 5.0  # time to process a full queue
REMOTE_SIGN_IN_CONCURRENCY = 16  # per process, of sign-ins that call an identity provider or a directory
REMOTE_SIGN_INS_PER_CALLER = 2
REMOTE_SIGN_IN_WAIT_SECONDS = 10.0
EVENT_STREAM_CONCURRENCY = 200
EVENT_STREAMS_PER_CALLER = 10
EVENT_STREAM_WAIT_SECONDS = 1.0  # a client that opens another one has just closed the last
SHARED_LIMITS = 8  # in the shared memory, with equal parts of it


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits for units."""

    caller: Hashable
    amount: int
    future: asyncio.Future[None]
    is_admitted: bool = False
    """The units are taken; read and written under the lock."""


class Slot:
    """The units of one call, for the time of an `async with` block."""

    __slots__ = ("_amount", "_caller", "_limiter")

    def __init__(self, limiter: ConcurrencyLimiter, caller: Hashable, amount: int) -> None:
        self._limiter = limiter
        self._caller = caller
        self._amount = amount

    async def __aenter__(self) -> None:
        if not self._limiter.try_acquire(self._caller, self._amount):
            await self._limiter.acquire(self._caller, self._amount)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release(self._caller, self._amount)


class ConcurrencyLimiter:
    """`limit` units, of which one caller has at most `per_caller`; waiting callers take turns.

    A caller at its own limit does not block others. With `counts`, the units of all processes of the computer count: a
    unit that another process returns is noticed within POLL_INTERVAL_SECONDS, and a process that has more than its part
    leaves the next unit to others. It is safe to use from the event loops of several threads, except with `counts`.
    """

    def __init__(
        self,
        refusal: str,  # the message of TooMany
        limit: int,
        per_caller: int,
        *,
        wait_seconds: float | None = None,  # for units; None for no limit
        max_waiting: int | None = None,  # calls; above it the last call of the caller with the most is refused
        retry_seconds: float | None = None,  # for the Retry-After of a refusal, `wait_seconds` if None
        counts: Counts | None = None,
    ) -> None:
        self.limit = limit
        self.per_caller = min(per_caller, limit)
        self._refusal = refusal
        self._wait_seconds = wait_seconds
        self._max_waiting = max_waiting
        self._retry_after = math.ceil(retry_seconds or wait_seconds or 1)
        self._queue: RoundRobinQueue[_Waiter] = RoundRobinQueue()
        self._counts = counts if counts is not None and counts.processes > 1 else None
        self._part = limit if self._counts is None else max(1, limit // self._counts.processes)
        self._lock = threading.Lock()  # held for a calculation, never during a wait
        self._poll: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    def hold(self, caller: Hashable, amount: int = 1) -> Slot:
        """Return a context that has `amount` units, at most `per_caller`.

        Entering it raises TooMany if they are not free in time, or if too many calls wait.
        """
        return Slot(self, caller, min(amount, self.per_caller))

    def try_acquire(self, caller: Hashable, amount: int = 1) -> bool:
        """Take units and return True if they are free and no call waits for them."""
        with self._lock:
            return not self._queue and not self._leaves_to_others(caller) and self._admit(caller, amount)

    async def acquire(self, caller: Hashable, amount: int = 1) -> None:
        """Take units when it is the turn of the caller. Raise TooMany as `hold` does."""
        waiter = _Waiter(caller, amount, asyncio.get_running_loop().create_future())
        with self._lock:
            self._enqueue(waiter)
            self._admit_waiting()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await waiter.future
        except TimeoutError:
            self._withdraw(waiter)
            raise self._make_refusal() from None
        except BaseException:
            self._withdraw(waiter)
            raise

    def release(self, caller: Hashable, amount: int = 1) -> None:
        """Return units."""
        with self._lock:
            self._queue.end(caller, amount)
            if self._counts is not None:
                self._counts.add(None, -amount)
                self._counts.add(caller, -amount)
            if self._queue:
                self._admit_waiting()

    def count_active(self) -> int:
        """Return the number of units in use, in all processes that share the limit."""
        return self._queue.active if self._counts is None else self._counts.read_all(None)

    def _make_refusal(self) -> TooMany:
        return TooMany(self._refusal, retry_after=self._retry_after)

    def _enqueue(self, waiter: _Waiter) -> None:
        if self._max_waiting is not None and len(self._queue) >= self._max_waiting:
            self._refuse_longest_line(waiter.caller)
        self._queue.add(waiter.caller, waiter)
        self._count_waiting(waiter, 1)

    def _refuse_longest_line(self, caller: Hashable) -> None:
        """Refuse the last call of the caller with the longest line. Raise TooMany if that is this caller."""
        longest, waiter = self._queue.find_longest_line()
        if self._queue.count_waiting(longest) <= self._queue.count_waiting(caller) + 1:
            raise self._make_refusal()
        self._queue.discard(longest, waiter)
        self._count_waiting(waiter, -1)
        _settle(waiter.future, self._make_refusal())

    def _withdraw(self, waiter: _Waiter) -> None:
        """Remove a call that has stopped waiting."""
        with self._lock:
            if self._queue.discard(waiter.caller, waiter):
                self._count_waiting(waiter, -1)
        if waiter.is_admitted:
            self.release(waiter.caller, waiter.amount)

    def _count_waiting(self, waiter: _Waiter, amount: int) -> None:
        if self._counts is not None:
            for key in (_WAITING, (_WAITING, waiter.caller)):
                self._counts.add(key, amount)

    def _has_room(self, caller: Hashable, amount: int) -> bool:
        """True if the limit of the caller allows so many more units."""
        count = self._queue.count_active(caller) + amount
        return count <= self.per_caller and (
            self._counts is None or count + self._counts.read_others(caller) <= self.per_caller
        )

    def _admit(self, caller: Hashable, amount: int) -> bool:
        """Take units and return True if they are free."""
        queue, counts = self._queue, self._counts
        if queue.active + amount > self.limit or not self._has_room(caller, amount):
            return False
        if counts is not None:
            if queue.active + amount + counts.read_others(None) > self.limit:
                return False
            counts.add(None, amount)
            counts.add(caller, amount)
            if counts.read_all(None) > self.limit or counts.read_all(caller) > self.per_caller:
                counts.add(None, -amount)  # another process took them at this moment
                counts.add(caller, -amount)
                return False
        queue.begin(caller, amount)
        return True

    def _leaves_to_others(self, caller: Hashable) -> bool:
        """True if another process waits, and this process has its part or the other waits for this caller."""
        counts = self._counts
        if counts is None or not counts.read_others(_WAITING):
            return False
        return self._queue.active >= self._part or counts.read_others((_WAITING, caller)) > 0

    def _admit_waiting(self, *, is_poll: bool = False) -> None:
        """Give free units to the calls whose turn it is."""
        queue = self._queue
        while (waiter := queue.find_next(lambda item: self._has_room(item.caller, item.amount))) is not None:
            if not is_poll and self._leaves_to_others(waiter.caller):
                break
            if not self._admit(waiter.caller, waiter.amount):
                break
            queue.take(waiter.caller, waiter, 0)
            self._count_waiting(waiter, -1)
            waiter.is_admitted = True
            _settle(waiter.future)
        if queue and self._counts is not None:
            self._schedule_poll()

    def _schedule_poll(self) -> None:
        if self._poll is not None and not self._poll[0].is_closed():
            return
        loop = asyncio.get_running_loop()
        self._poll = loop, loop.call_later(POLL_INTERVAL_SECONDS * random.uniform(0.5, 1.5), self._retry)

    def _retry(self) -> None:
        """Admit waiting calls, since another process may have returned units."""
        with self._lock:
            self._poll = None
            self._admit_waiting(is_poll=True)


_WAITING = "waiting"


def _settle(future: asyncio.Future[None], problem: TooMany | None = None) -> None:
    """Resume a call in its own event loop, unless that is closed."""

    def settle() -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(None)
        else:
            future.set_exception(problem)

    loop = future.get_loop()
    if loop.is_closed():
        return
    if asyncio.get_running_loop() is loop:
        settle()
    else:
        loop.call_soon_threadsafe(settle)


class ChunksInFlight:
    """The chunks that are being stored, by session, in all processes of this computer."""

    def __init__(self) -> None:
        self._numbers: dict[str, set[int]] = {}
        self._counts = Counts(Region.CHUNKS)

    @contextmanager
    def hold(self, id: str, number: int) -> Iterator[None]:
        """Count a chunk while it is stored. Raise ChunkInFlight if another request is storing the same one."""
        numbers = self._numbers.setdefault(id, set())
        if number in numbers:
            raise ChunkInFlight
        numbers.add(number)
        self._count(id, number, 1)  # before the others are read: of two concurrent requests, neither stores it
        try:
            if all(self._counts.read_others(key) for key in _list_keys(id, number)):
                raise ChunkInFlight
            yield
        finally:
            self._count(id, number, -1)
            numbers.discard(number)
            if not numbers:
                self._numbers.pop(id, None)

    def has(self, id: str) -> bool:
        """True if a chunk of the session is being stored."""
        return id in self._numbers or self._counts.read_others(id) > 0

    def _count(self, id: str, number: int, amount: int) -> None:
        for key in (id, *_list_keys(id, number)):
            self._counts.add(key, amount)


def _list_keys(id: str, number: int) -> Sequence[Hashable]:
    """Return two keys of a chunk. Another chunk hardly ever shares the counters of both."""
    return (id, number), (number, id)


class Limits:
    """The limiters of this process, and its locks by key."""

    def __init__(self) -> None:
        self.chunk_bytes = _share(0, "chunks are received", CHUNK_BYTES, CHUNK_BYTES_PER_USER, CHUNK_WAIT_SECONDS)
        self.whole_body_bytes = _share(
            1, "uploads are held in memory", WHOLE_BODY_BYTES, WHOLE_BODY_BYTES, WHOLE_BODY_WAIT_SECONDS, when=""
        )
        self.searches = _share(2, "searches", SEARCH_CONCURRENCY, SEARCHES_PER_CALLER, SEARCH_WAIT_SECONDS)
        self.thumbnails = _share(
            3, "thumbnails are made", THUMBNAIL_CONCURRENCY, THUMBNAILS_PER_CALLER, THUMBNAIL_WAIT_SECONDS
        )
        self.large_requests = _share(
            4, "large requests are handled", LARGE_REQUEST_CONCURRENCY, LARGE_REQUESTS_PER_CALLER,
            LARGE_REQUEST_WAIT_SECONDS,
        )  # fmt: skip
        self.archive_lookups = _share(
            5, "archives are looked into", ARCHIVE_LOOKUP_CONCURRENCY, ARCHIVE_LOOKUPS_PER_CALLER,
            ARCHIVE_LOOKUP_WAIT_SECONDS,
        )  # fmt: skip
        self.archive_members = _share(
            6, "files of archives are sent", ARCHIVE_MEMBER_CONCURRENCY, ARCHIVE_MEMBERS_PER_CALLER,
            ARCHIVE_MEMBER_WAIT_SECONDS,
        )  # fmt: skip
        self.event_streams = _share(
            7, "streams of events", EVENT_STREAM_CONCURRENCY, EVENT_STREAMS_PER_CALLER, EVENT_STREAM_WAIT_SECONDS
        )
        self.sign_ins = ConcurrencyLimiter(
            "too many sign-ins at the same time, try again later",
            SIGN_IN_CONCURRENCY, SIGN_IN_CONCURRENCY,
            max_waiting=MAX_WAITING_SIGN_INS, retry_seconds=SIGN_IN_RETRY_SECONDS,
        )  # fmt: skip
        self.remote_sign_ins = ConcurrencyLimiter(
            "too many sign-ins at the same time, try again later",
            REMOTE_SIGN_IN_CONCURRENCY, REMOTE_SIGN_INS_PER_CALLER, wait_seconds=REMOTE_SIGN_IN_WAIT_SECONDS,
        )  # fmt: skip
        self.chunks = ChunksInFlight()
        self.task_requests = KeyedLock()  # by owner: one request at a time enqueues many tasks
        self.configuration_writes = threading.Lock()  # each raises the same number
        self.names = KeyedLock()  # of files that this process changes: one of the waiting callers asks the records


def _share(
    number: int, what: str, limit: int, per_caller: int, wait_seconds: float, when: str = " at once"
) -> ConcurrencyLimiter:
    """Return a limiter of all processes of this computer together."""
    counts = Counts(Region.LIMITS, number, SHARED_LIMITS)
    refusal = f"too many {what}{when}, try again later"
    return ConcurrencyLimiter(refusal, limit, per_caller, wait_seconds=wait_seconds, counts=counts)


def limits() -> Limits:
    """Return the limits of this process."""
    return runtime.get(Limits)
