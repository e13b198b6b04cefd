"""Additions to asyncio: a round-robin queue, a lock per key, threads for computing, uninterruptible work."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Generic, TypeVar, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

from mangrove.core import runtime

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

PASSWORD_THREADS = max(2, (os.cpu_count() or 2) // 2)  # a hash needs 19 MiB and a core for about 30 ms


async def finish_despite_cancel(work: Awaitable[Result]) -> Result:
    """Return the result of `work`, which is shielded from a cancellation of the caller.

    A cancelled call waits for the end of the work, then raises CancelledError: resources of the work can be released
    after that.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                pass  # cancelled once more: the work still has to end
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not report it
        raise


async def gather_all(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """Return the results of all works. The first failure is raised after the others have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def gather_bounded(works: Sequence[Callable[[], Awaitable[Result]]], concurrency: int) -> list[Result]:
    """Return the results of all works, of which `concurrency` run at a time.

    The first failure is raised after the others have ended.
    """
    limit = asyncio.Semaphore(concurrency)

    async def run(work: Callable[[], Awaitable[Result]]) -> Result:
        async with limit:
            return await work()

    return await gather_all(map(run, works))


class RoundRobinQueue(Generic[Item]):
    """Waiting items, in a line for each caller.

    The next item is of the caller with the fewest active units; of several such callers, of the one that was served
    least recently. It is not thread-safe.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, OrderedDict[Item, None]] = OrderedDict()  # the next turn first
        self._active: Counter[Hashable] = Counter()
        self.active = 0  # units of all callers

    def add(self, caller: Hashable, item: Item, *, first: bool = False) -> None:
        """Append an item to the line of its caller, or prepend it."""
        line = self._waiting.setdefault(caller, OrderedDict())
        line[item] = None
        if first:
            line.move_to_end(item, last=False)

    def discard(self, caller: Hashable, item: Item) -> bool:
        """Remove an item from its line. Return False if it does not wait."""
        line = self._waiting.get(caller, OrderedDict())
        if item not in line:
            return False
        del line[item]
        if not line:
            del self._waiting[caller]
        return True

    def find_next(self, is_allowed: Callable[[Item], bool] = lambda item: True) -> Item | None:
        """Return the first item of the caller whose turn it is; callers without an allowed item are skipped."""
        first_items = ((caller, next(iter(line))) for caller, line in self._waiting.items())
        allowed = [(caller, item) for caller, item in first_items if is_allowed(item)]
        if not allowed:
            return None
        return min(allowed, key=lambda pair: self._active[pair[0]])[1]

    def take(self, caller: Hashable, item: Item, amount: int = 1) -> None:
        """Remove an item from its line. Its caller gets the last turn, and `amount` more active units."""
        self._waiting.move_to_end(caller)
        self.discard(caller, item)
        self.begin(caller, amount)

    def begin(self, caller: Hashable, amount: int = 1) -> None:
        """Count units of a caller that are active from now on."""
        self._active[caller] += amount
        self.active += amount

    def end(self, caller: Hashable, amount: int = 1) -> None:
        """Count units of a caller that are not active any more."""
        self.active -= amount
        self._active[caller] -= amount
        if not self._active[caller]:
            del self._active[caller]

    def count_active(self, caller: Hashable) -> int:
        """Return the number of active units of a caller."""
        return self._active[caller]

    def count_waiting(self, caller: Hashable) -> int:
        """Return the number of items in the line of a caller."""
        return len(self._waiting.get(caller, ()))

    def find_longest_line(self) -> tuple[Hashable, Item]:
        """Return the caller with the most items, and the last item of its line."""
        caller = max(self._waiting, key=self.count_waiting)
        return caller, next(reversed(self._waiting[caller]))

    def should_yield(self, caller: Hashable) -> bool:
        """True if an active item of the caller should make room for another caller: for one without an active item,
        or with fewer even after that.
        """
        count = self._active[caller]
        return any(
            not self._active[other] or self._active[other] + 1 < count for other in self._waiting if other != caller
        )

    def is_waiting(self, caller: Hashable, item: Item) -> bool:
        """True if the item is in the line of the caller."""
        return item in self._waiting.get(caller, ())

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[Item]:
        """Yield the waiting items, approximately in their order."""
        turns = [iter(line) for line in self._waiting.values()]
        while turns:
            rest = []
            for turn in turns:
                item = next(turn, None)
                if item is not None:
                    yield item
                    rest.append(turn)
            turns = rest


class KeyedLock:
    """A lock for each key, as long as something holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key while the context lasts."""
        lock = self._locks.get(key) or self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield


class ComputePool:
    """Threads for computing that takes a few milliseconds per call.

    One thread is enough for calls that hold the interpreter: two would not be faster.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._executor = ThreadPoolExecutor(threads, name)  # which starts no thread before the first call

    async def run(self, function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        """Return the result of a call in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def close(self) -> None:
        """End the threads when their calls have ended."""
        self._executor.shutdown(wait=False)


class ComputePools:
    """The pools of a process. Calls of one pool do not wait for those of another."""

    def __init__(self) -> None:
        self.batches = ComputePool("batches")  # work on many entries, see `chunked`
        self.patterns = ComputePool("patterns")  # of clients: a hostile one takes ten times as long
        self.zip_decryption = ComputePool("zip-decryption")  # in Python
        self.secretbox = ComputePool("secretbox")  # PyNaCl holds the interpreter
        self.passwords = ComputePool("passwords", PASSWORD_THREADS)  # argon2 does not hold it

    def close(self) -> None:
        """End all threads."""
        for pool in vars(self).values():
            pool.close()


def compute_pools() -> ComputePools:
    """Return the pools of this process."""
    return runtime.get(ComputePools)
