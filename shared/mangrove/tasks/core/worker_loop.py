"""The event loop in which the worker functions run, and the handlers of scheduled functions.

It imports no machines of tasks, which functions without them need not have at their start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mangrove.core import runtime
from mangrove.core.telemetry import name_invocation

Result = TypeVar("Result")


class WorkerLoop:
    """The event loop in which the workers of this process run: drivers belong to a single loop."""

    def __init__(self) -> None:
        self._running: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run workers in `loop`, which is running."""
        self._running = loop

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run asynchronous work from a worker's thread."""
        if self._running is not None:
            return asyncio.run_coroutine_threadsafe(work, self._running).result()
        if self._own is None:
            self._own = asyncio.new_event_loop()
        return self._own.run_until_complete(work)

    def close(self) -> None:
        """Close the loop if this object created it."""
        if self._own is not None:
            self._own.close()


def use_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run the workers of this process in `loop`, which is running."""
    runtime.get(WorkerLoop).use(loop)


def run_in_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Run asynchronous work from a worker's thread."""
    return runtime.get(WorkerLoop).run(work)


def make_scheduled(work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[dict[str, Any], Any], None]:
    """Return the handler of a function that a schedule calls."""

    def handler(event: dict[str, Any], context: Any) -> None:
        run_in_loop(work())

    return name_invocation(handler)
