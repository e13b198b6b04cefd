"""The end of a process of the service: what asks for it, and how long it may take."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from mangrove.core import runtime
from mangrove.core.telemetry import AccessLog

GRACE_SECONDS = 5  # for requests in progress when the service stops
END_SECONDS = 5.0  # for everything that follows
CHILDREN_SECONDS = GRACE_SECONDS + END_SECONDS + 1  # until the parent kills the processes that it forked
ENGINE_SECONDS = 6.0  # for the records engine, afterwards


class StopRequest:
    """A request to end this process: SIGTERM or SIGINT.

    `obey` raises SystemExit, and so does the signal itself until `defer` is called. The request is kept, because Python
    ignores an exception that a signal raises in the functions which run before and after a fork.
    """

    def __init__(self) -> None:
        self.is_made = False
        self._is_deferred = False

    def listen(self) -> None:
        """Handle the signals. A shell makes processes in the background ignore SIGINT."""
        signal.signal(signal.SIGTERM, self._receive)
        signal.signal(signal.SIGINT, self._receive)

    def defer(self) -> None:
        """Only record requests from now on, until `obey` is called. The caller has to look at `is_made`."""
        self._is_deferred = True

    def obey(self) -> None:
        """Raise SystemExit from now on as soon as there is a request, and now if there was one."""
        self._is_deferred = False
        if self.is_made:
            sys.exit(0)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self.is_made:
            self.is_made = True
            end_within(CHILDREN_SECONDS + ENGINE_SECONDS)
        if not self._is_deferred:
            sys.exit(0)


def end_process() -> NoReturn:
    """End this process at once. A thread that still waits for a storage must not delay the end."""
    runtime.get(AccessLog).close()
    sys.stderr.flush()
    os._exit(0)


def end_within(seconds: float) -> None:
    """End the process after a time if it has not ended by then. Otherwise it would wait for a thread that hangs."""
    timer = threading.Timer(seconds, _end_late)
    timer.daemon = True
    timer.start()


def _end_late() -> None:
    print("mangrove: ending without the threads that still hang", file=sys.stderr, flush=True)
    end_process()  # the records engine ends with its parent
