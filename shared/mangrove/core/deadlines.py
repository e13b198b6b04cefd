"""How long the request under way may still take: set where a function is called, asked by whoever loops or waits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mangrove.core.problems import OutOfTime

_end: ContextVar[float] = ContextVar("end", default=math.inf)  # as time.monotonic says


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """What is done inside, and what it starts, has so many seconds, or fewer where it had fewer already."""
    token = _end.set(min(_end.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _end.reset(token)


def get_remaining() -> float:
    """Seconds, below 0 when they are over; `math.inf` where nothing limits them."""
    return _end.get() - time.monotonic()


def check(seconds: float = 0.0) -> None:
    """OutOfTime unless there is more time left than that."""
    if get_remaining() <= seconds:
        raise OutOfTime


VERB_SECONDS = 20.0  # that a request may work on what a task could do as well
MARGIN_SECONDS = 6.0  # of a function's time that are left for opening that task
LOOK_SECONDS = 2.0  # after which the pace of a verb is known


class Budget:
    """The time in which a verb does many things at once; what it does not reach is for a task."""

    def __init__(self, seconds: float = VERB_SECONDS) -> None:
        given = min(seconds, get_remaining() - MARGIN_SECONDS) if seconds < math.inf else math.inf
        self._end = time.monotonic() + given
        self._began: float | None = None

    def get_seconds(self) -> float:
        """What is left of it, not less than 0."""
        return max(self._end - time.monotonic(), 0.0)

    def covers(self, done: int, count: int) -> bool:
        """Whether all of `count` things will be done in time, at the pace of those that are `done`; first asked when
        none is. What will not is not begun: its task is opened early."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        spent = now - self._began
        if not done or spent < LOOK_SECONDS:
            return now < self._end
        return now + spent / done * (count - done) < self._end


def unlimited() -> Budget:
    """For who has no task to go on with the rest: what asks for the time itself ends such a verb."""
    return Budget(math.inf)
