"""Reads that several concurrent callers share: one at a time per key, for all callers that called before it started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Caller(Generic[Result]):
    read: Callable[[], Awaitable[Result]]
    accepts: Callable[[Result], bool]
    answer: asyncio.Future[Result]


@dataclass(slots=True, eq=False)
class _Queue(Generic[Result]):
    """The callers of one key: `served` by the running read, and `waiting`, who called after it had started."""

    served: list[_Caller[Result]] = field(default_factory=list)
    waiting: list[_Caller[Result]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def promote(self) -> bool:
        """Serve the waiting callers next. Return True if there are any."""
        self.served = [caller for caller in self.waiting if not caller.answer.done()]
        self.waiting = []
        return bool(self.served)

    def is_abandoned(self) -> bool:
        """True if no caller is left."""
        return all(caller.answer.done() for caller in [*self.served, *self.waiting])

    def resolve(self, result: Result) -> None:
        """Return the result to the served callers, and to waiting ones that accept a read that started before their
        call.
        """
        for caller in self.served + [caller for caller in self.waiting if caller.accepts(result)]:
            if not caller.answer.done():
                caller.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        """Raise an error in the served callers."""
        for caller in self.served:
            if not caller.answer.done():
                caller.answer.set_exception(error)

    def cancel(self) -> None:
        """Cancel all remaining callers."""
        for caller in [*self.served, *self.waiting]:
            caller.answer.cancel()


class SharedReads(Generic[Result]):
    """Running reads, by key.

    A failed read raises only in the callers for which it was started. A cancelled caller does not affect the others;
    the read is cancelled with its last caller.
    """

    def __init__(self) -> None:
        self._queues: dict[Hashable, _Queue[Result]] = {}

    async def get(
        self, key: Hashable, read: Callable[[], Awaitable[Result]], accepts: Callable[[Result], bool]
    ) -> Result:
        """Return the result of a `read` that starts after this call, or of a running one if the caller `accepts` it."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
            queue.task = asyncio.create_task(self._run(key, queue))
        queue.waiting.append(_Caller(read, accepts, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            if queue.is_abandoned() and queue.task is not None:
                self._discard(key, queue)
                queue.task.cancel()
            raise

    async def wait(self, seconds: float) -> None:
        """Wait until the running reads have ended, at most `seconds`."""
        if tasks := [queue.task for queue in self._queues.values() if queue.task is not None]:
            await asyncio.wait(tasks, timeout=seconds)

    async def _run(self, key: Hashable, queue: _Queue[Result]) -> None:
        try:
            while queue.promote():
                try:
                    result = await queue.served[0].read()
                except Exception as error:  # any error is raised in the callers that wait for it
                    queue.fail(error)
                else:
                    queue.resolve(result)
        finally:
            self._discard(key, queue)
            queue.cancel()

    def _discard(self, key: Hashable, queue: _Queue[Result]) -> None:
        if self._queues.get(key) is queue:
            del self._queues[key]
