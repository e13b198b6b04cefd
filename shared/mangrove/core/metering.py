"""The bytes that work in flight has passed, so that the progress of long work does not wait for its end."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Literal

from mangrove.core.context_variables import set_in_context

Stage = Literal["copied", "received", "sent"]


class ByteMeter:
    """A count of the bytes that a piece of work has passed, at most `size`.

    Bytes may pass several stages, such as a bandwidth limit and the copy itself: the stage that is farthest counts.
    One thread at a time counts a stage, and any may read it.
    """

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._stages: Counter[Stage] = Counter()

    def add(self, count: int, stage: Stage = "copied") -> None:
        """Count bytes that have passed a stage."""
        self._stages[stage] += count

    def clear(self) -> None:
        """Forget all bytes: they count elsewhere now."""
        self._stages = Counter()

    @property
    def bytes(self) -> int:
        """The bytes that have passed."""
        count = max(self._stages.copy().values(), default=0)
        return count if self._size is None else min(count, self._size)


_meter: ContextVar[ByteMeter | None] = ContextVar("meter", default=None)


def use(meter: ByteMeter) -> AbstractContextManager[None]:
    """Have the work of this context count its bytes in `meter`."""
    return set_in_context(_meter, meter)


def get_meter() -> ByteMeter:
    """Return the meter of this context, or one that no caller reads."""
    return _meter.get() or ByteMeter()
