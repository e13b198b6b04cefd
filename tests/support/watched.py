"""The service with a watch on its event loop: `python -m tests.support.watched serve …` notes every slow callback.

What counts is the time the loop's own thread computes in one callback: a busy machine does not make that longer. What
collections of garbage take of it does not count: they hold up every thread, whichever allocates when one is due. Each
line of the file that WATCH names is the milliseconds, the callback, and where it was after half of the limit.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import uvicorn

from mangrove.standalone.__main__ import main

WATCH = "MANGROVE_TEST_WATCH"
LIMIT = 0.05  # seconds


class WatchedLoop(asyncio.SelectorEventLoop):
    """An event loop that times whatever it calls."""

    def __init__(self) -> None:
        super().__init__()
        self.file = open(os.environ[WATCH], "a", buffering=1)  # noqa: SIM115 - as long as the process
        self.thread = threading.get_ident()
        self.began: float | None = None
        self.place = ""
        self.collecting = 0.0  # seconds that this thread has collected garbage
        gc.callbacks.append(self._time_collection)
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        """Note where the loop is when a callback has run for half of the limit."""
        while True:
            time.sleep(LIMIT / 5)
            began = self.began
            if began is not None and not self.place and time.perf_counter() - began > LIMIT / 2:
                frame = sys._current_frames()[self.thread]
                places = [f"{step.filename[-40:]}:{step.lineno}" for step in traceback.extract_stack(frame)[-8:]]
                if self.began == began:
                    self.place = " < ".join(reversed(places))

    def _time_collection(self, phase: str, info: object) -> None:
        if threading.get_ident() == self.thread:
            self.collecting += time.thread_time() * (1 if phase == "stop" else -1)

    def watch(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """The callback, timed."""

        def call(*arguments: Any) -> Any:
            self.place = ""
            self.began = time.perf_counter()
            began = time.thread_time() - self.collecting
            try:
                return callback(*arguments)
            finally:
                seconds = time.thread_time() - self.collecting - began
                self.began = None
                if seconds > LIMIT:
                    self.file.write(f"{seconds * 1000:.0f} ms {describe(callback)} at {self.place or '?'}\n")

        return call

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon(self.watch(callback), *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_at(when, self.watch(callback), *args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon_threadsafe(self.watch(callback), *args, context=context)

    def _add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:
        return super()._add_reader(fd, self.watch(callback), *args)  # type: ignore[misc]

    def _add_writer(self, fd: Any, callback: Any, *args: Any) -> Any:
        return super()._add_writer(fd, self.watch(callback), *args)  # type: ignore[misc]


def describe(callback: Any) -> str:
    owner = getattr(callback, "__self__", None)
    return repr(owner.get_coro() if isinstance(owner, asyncio.Task) else callback)[:200]


class WatchedConfig(uvicorn.Config):
    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        return WatchedLoop


if __name__ == "__main__":
    uvicorn.Config = WatchedConfig  # type: ignore[misc]
    sys.exit(main())
