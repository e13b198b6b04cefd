"""The event loop in which the workers of this process run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from mangrove.core import runtime

Result = TypeVar("Result")


class WorkerLoop:
    """The event loop in which the workers of this process run: drivers belong to one loop."""

    def __init__(self) -> None:
        self._running: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run workers in `loop`, which runs already."""
        self._running = loop

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run asynchronous work from a worker's thread."""
        if self._running is not None:
            return asyncio.run_coroutine_threadsafe(work, self._running).result()
        if self._own is None:
            self._own = asyncio.new_event_loop()
        return self._own.run_until_complete(work)

    def close(self) -> None:
        """Close the loop that was made here."""
        if self._own is not None:
            self._own.close()


def use_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run the workers of this process in `loop`, which runs already."""
    runtime.get(WorkerLoop).use(loop)


def run_in_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Run asynchronous work from a worker's thread."""
    return runtime.get(WorkerLoop).run(work)
