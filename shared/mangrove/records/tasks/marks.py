"""How many rows of a list of tasks there are up to some of them, so that a page far down is not counted out."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.tasks.keys import Status

SPACING = 50  # rows from one mark to the next
OTHERS_SECONDS = 2.0  # the same of a list that another process may have changed
COUNTED_ANEW = 2000  # rows of such a list that are rather counted at once
CHANGED_SECONDS = 30.0  # that marks are kept of a list that changes: what was miscounted meanwhile is counted anew


class ListName(NamedTuple):
    """The tasks of a kind and status, of one owner or (None) of all."""

    kind: str
    status: Status
    owner: int | None


class Mark(NamedTuple):
    """There are `position` rows up to the one that is ordered at `key`, that one included; "" and 0: the beginning.
    `version`: of all marks, when it was counted."""

    key: str
    position: int
    version: int


@dataclass(slots=True)
class _Marks:
    """Of one list: `positions[n]` rows are there up to the one that is ordered at `keys[n]`, that one included."""

    made: float = field(default_factory=time.monotonic)
    changed: bool = False
    others: int = field(default_factory=lambda: _count_others())
    keys: list[str] = field(default_factory=lambda: [""])
    positions: list[int] = field(default_factory=lambda: [0])

    def is_over(self) -> bool:
        trusted = CHANGED_SECONDS if self.changed else float("inf")
        if self.others != _count_others():
            trusted = OTHERS_SECONDS
            if self.positions[-1] < COUNTED_ANEW:
                return True
        seconds = config().snapshot_seconds
        return time.monotonic() - self.made > (trusted if seconds is None else min(trusted, seconds))


class TaskMarks:
    """The marks of this process, by list. What this process writes moves them; where others write too they are trusted
    as long as a snapshot of the configuration is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: dict[ListName, _Marks] = {}
        self._version = 0

    def find(self, name: ListName, count: int) -> Mark:
        """The last one with at most `count` rows up to it."""
        with self._lock:
            marks = self._lists.get(name)
            if marks is None or marks.is_over():
                return Mark("", 0, self._version)
            index = bisect_right(marks.positions, count) - 1
            return Mark(marks.keys[index], marks.positions[index], self._version)

    def add(self, name: ListName, mark: Mark) -> None:
        """Remember a mark that is far enough from the last one; not one that was counted before all was forgotten."""
        with self._lock:
            if mark.version != self._version:
                return
            marks = self._lists.get(name)
            if marks is None or marks.is_over():
                marks = self._lists[name] = _Marks()
            if mark.position - marks.positions[-1] >= SPACING and mark.key > marks.keys[-1]:
                marks.keys.append(mark.key)
                marks.positions.append(mark.position)

    def move(self, owner: int, kind: str, status: Status, key: str, rows: int) -> None:
        """Note that a row at `key` came (1) or went (-1)."""
        change_counters().bump(Topic.TASK_LISTS)
        with self._lock:
            for one in (None, owner):
                marks = self._lists.get(ListName(kind, status, one))
                if marks is not None and key <= marks.keys[-1]:
                    marks.changed = True
                    for index in range(len(marks.keys) - 1, 0, -1):
                        if marks.keys[index] < key:
                            break
                        marks.positions[index] += rows

    def forget(self) -> None:
        """Forget all: more has changed than is worth to be followed."""
        change_counters().bump(Topic.TASK_LISTS)
        with self._lock:
            self._lists.clear()
            self._version += 1


def _count_others() -> int:
    return change_counters().read_others(Topic.TASK_LISTS)


def get_marks() -> TaskMarks:
    """The marks of this process."""
    return runtime.get(TaskMarks)
