"""The time that the present request may still take. The caller of a function sets it; loops and waits read it."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager
from contextvars import ContextVar

from mangrove.core.context_variables import set_in_context
from mangrove.core.problems import OutOfTime

REQUEST_WORK_SECONDS = 20.0  # for work in a request that a task could do as well
TASK_REQUEST_MARGIN_SECONDS = 6.0  # of the time of a function, for enqueueing that task
PACE_SAMPLE_SECONDS = 2.0  # after which the pace of an operation is known

_end: ContextVar[float] = ContextVar("end", default=math.inf)  # of time.monotonic


def limit(seconds: float) -> AbstractContextManager[None]:
    """Limit the context, and everything that it starts, to so many seconds, or to fewer if fewer were left."""
    return set_in_context(_end, min(_end.get(), time.monotonic() + seconds))


def get_remaining() -> float:
    """Return the seconds that are left, below 0 after the end, `math.inf` without a limit."""
    return _end.get() - time.monotonic()


def check(seconds: float = 0.0) -> None:
    """Raise OutOfTime unless more than `seconds` are left."""
    if get_remaining() <= seconds:
        raise OutOfTime


class TimeBudget:
    """The time for an operation on many items in a request. A task does the items that it does not reach."""

    def __init__(self, seconds: float = REQUEST_WORK_SECONDS) -> None:
        if seconds < math.inf:
            seconds = min(seconds, get_remaining() - TASK_REQUEST_MARGIN_SECONDS)
        self._end = time.monotonic() + seconds
        self._began: float | None = None

    def get_seconds(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(self._end - time.monotonic(), 0.0)

    def covers(self, done: int, count: int) -> bool:
        """True if all of `count` items will be done in time, at the pace of the items that are `done`.

        The first call is for `done` = 0. An operation that would be late ends early, and its task is enqueued.
        """
        now = time.monotonic()
        if self._began is None:
            self._began = now
        spent = now - self._began
        if not done or spent < PACE_SAMPLE_SECONDS:
            return now < self._end
        return now + spent / done * (count - done) < self._end


def unlimited() -> TimeBudget:
    """Return a budget that never ends, for operations that no task continues."""
    return TimeBudget(math.inf)
