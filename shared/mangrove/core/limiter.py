"""A limit of concurrency for all callers together and for each of them."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from types import TracebackType

from mangrove.core.concurrency import RoundRobinQueue
from mangrove.core.problems import TooMany
from mangrove.core.shared_memory import Counts

POLL_SECONDS = 0.02  # between two looks at what other processes gave back, about


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits for `amount` units; `is_admitted` once they are its own, seen under the lock."""

    caller: Hashable
    amount: int
    future: asyncio.Future[None]
    is_admitted: bool = False


class Slot:
    """The units of one call while an `async with` block lasts."""

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
    """`limit` units, of which one caller has at most `per_caller`; the callers that wait take turns.

    A caller that waits for a unit of its own does not hold up others. With `counts`, the units of all processes of the
    machine count: a unit that another process gives back is noticed within POLL_SECONDS, and a process that has more
    than its part lets others have the next one. Safe to use from the event loops of several threads, except with
    `counts`.
    """

    def __init__(
        self,
        refusal: str,  # the message of TooMany
        limit: int,
        per_caller: int,
        *,
        wait_seconds: float | None = None,  # for units; None for no limit
        max_waiting: int | None = None,  # calls; of more, the caller with the most is refused its last one
        retry_seconds: float | None = None,  # that a refused client is told, `wait_seconds` if None
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
        self._lock = threading.Lock()  # held for a calculation, never while something waits
        self._poll: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    def hold(self, caller: Hashable, amount: int = 1) -> Slot:
        """Return a context with `amount` units, at most all that a caller may have.

        TooMany on entering it when they are not free in time, or too many calls wait.
        """
        return Slot(self, caller, min(amount, self.per_caller))

    def try_acquire(self, caller: Hashable, amount: int = 1) -> bool:
        """Take units if they are free and nobody waits for them."""
        with self._lock:
            return not self._queue and not self._leaves_to_others(caller) and self._admit(caller, amount)

    async def acquire(self, caller: Hashable, amount: int = 1) -> None:
        """Take units when it is the turn of the caller; TooMany."""
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
        """Give units back."""
        with self._lock:
            self._queue.end(caller, amount)
            if self._counts is not None:
                self._counts.add(None, -amount)
                self._counts.add(caller, -amount)
            if self._queue:
                self._admit_waiting()

    def _make_refusal(self) -> TooMany:
        return TooMany(self._refusal, retry_after=self._retry_after)

    def _enqueue(self, waiter: _Waiter) -> None:
        if self._max_waiting is not None and len(self._queue) >= self._max_waiting:
            self._refuse_longest_line(waiter.caller)
        self._queue.add(waiter.caller, waiter)
        self._count_waiting(waiter, 1)

    def _refuse_longest_line(self, caller: Hashable) -> None:
        """Refuse the last call of the caller with the most; TooMany when that is this one."""
        longest, waiter = self._queue.find_longest_line()
        if self._queue.count_waiting(longest) <= self._queue.count_waiting(caller) + 1:
            raise self._make_refusal()
        self._queue.discard(longest, waiter)
        self._count_waiting(waiter, -1)
        _settle(waiter.future, self._make_refusal())

    def _withdraw(self, waiter: _Waiter) -> None:
        """Forget a call that does not wait any more."""
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
        """True if the caller may have so many more for itself."""
        count = self._queue.count_active(caller) + amount
        return count <= self.per_caller and (
            self._counts is None or count + self._counts.read_others(caller) <= self.per_caller
        )

    def _admit(self, caller: Hashable, amount: int) -> bool:
        """Take units if they are free."""
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
        """True if other processes wait for units of which this process has its part, or for those of the caller."""
        counts = self._counts
        if counts is None or not counts.read_others(_WAITING):
            return False
        return self._queue.active >= self._part or counts.read_others((_WAITING, caller)) > 0

    def _admit_waiting(self, *, is_poll: bool = False) -> None:
        """Give what is free to those whose turn it is."""
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
        self._poll = loop, loop.call_later(POLL_SECONDS * random.uniform(0.5, 1.5), self._look)

    def _look(self) -> None:
        """Admit those who wait, since another process may have given something back."""
        with self._lock:
            self._poll = None
            self._admit_waiting(is_poll=True)


_WAITING = "waiting"


def _settle(future: asyncio.Future[None], problem: TooMany | None = None) -> None:
    """Wake a call in its own event loop, unless that has ended."""

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
