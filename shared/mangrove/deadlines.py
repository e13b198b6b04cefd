"""How long the request under way may still take: set where a function is called, asked by whoever loops or waits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mangrove.problems import OutOfTime

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
