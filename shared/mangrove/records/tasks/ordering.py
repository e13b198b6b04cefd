"""The order of tasks in lists, and anchors: known positions of rows, so that the rows before a page need not be
counted.

There is a list per owner, and one for all owners. Unfinished tasks are in ascending order of creation, finished ones in
descending order of their end.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.shared_memory import Topic, change_counters

OWNER_INDEX = "owner_key"
SHARD_INDEX = "shard_key"
SHARDS = 4  # keys that share the tasks of all owners: one key could not take the writes of all running tasks
ANCHOR_SPACING = 50  # rows between two anchors
MAX_FOREIGN_AGE_SECONDS = 2.0  # of the anchors of a list that another process may have changed
MIN_FOREIGN_ROWS = 2000  # fewer rows of such a list are counted again immediately
MAX_CHANGED_AGE_SECONDS = 30.0  # of the anchors of a list that changes, which corrects errors of counting
_MAX_MILLISECONDS = 10**15 - 1


class TaskStatus(StrEnum):
    """The status of a task in the indexes."""

    UNDONE = "undone"
    DONE = "done"
    REMOVED = "removed"
    """Not listed any more; its state machine has to clean up."""


def make_owner_key(owner: int, kind: str, status: TaskStatus) -> str:
    """Return the key of the tasks of an owner."""
    return f"{owner}#{kind}#{status}"


def make_shard_key(id: str, kind: str, status: TaskStatus) -> str:
    """Return the key of the shard with the task `id`, for the tasks of all owners."""
    return f"{kind}#{status}#{crc32(id.encode()) % SHARDS}"


def list_shard_keys(kind: str, status: TaskStatus) -> list[str]:
    """Return the keys of the tasks of all owners."""
    return [f"{kind}#{status}#{number}" for number in range(SHARDS)]


def find_status(owner_key: str) -> TaskStatus:
    """Return the status of the tasks of a key."""
    return TaskStatus(owner_key.rpartition("#")[2])


def make_order(id: str, created: float) -> str:
    """Return the sort key of an unfinished task; `created` in seconds since the epoch."""
    return f"{int(created * 1000):015d}#{id}"


def make_done_order(id: str, ended: float) -> str:
    """Return the sort key of a finished task; `ended` in seconds since the epoch."""
    return f"{_MAX_MILLISECONDS - max(int(ended * 1000), 0):015d}#{id}"


def parse_end(end_time: str | None) -> float:
    """Return the end of a task in seconds since the epoch; the present time if it is unknown."""
    return datetime.fromisoformat(end_time).timestamp() if end_time else time.time()


class ListName(NamedTuple):
    """A list of tasks."""

    kind: str
    status: TaskStatus
    owner: int | None
    """None: of all owners."""


class PageAnchor(NamedTuple):
    """The position of a row in a list."""

    key: str
    """The sort key of the row; "" for the beginning of the list."""
    position: int
    """The number of rows up to and including it."""
    version: int
    """Of all anchors, when it was counted."""


@dataclass(slots=True)
class _ListAnchors:
    """The anchors of one list: up to the row `keys[n]` there are `positions[n]` rows."""

    created: float = field(default_factory=time.monotonic)
    changed: bool = False
    foreign_changes: int = field(default_factory=lambda: _count_foreign_changes())
    keys: list[str] = field(default_factory=lambda: [""])
    positions: list[int] = field(default_factory=lambda: [0])

    def is_expired(self) -> bool:
        max_age = MAX_CHANGED_AGE_SECONDS if self.changed else float("inf")
        if self.foreign_changes != _count_foreign_changes():
            max_age = MAX_FOREIGN_AGE_SECONDS
            if self.positions[-1] < MIN_FOREIGN_ROWS:
                return True
        seconds = config().snapshot_seconds
        return time.monotonic() - self.created > (max_age if seconds is None else min(max_age, seconds))


class PageAnchors:
    """The anchors of this process, by list.

    A write of this process moves them. If other processes write, they expire like a snapshot of the configuration.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: dict[ListName, _ListAnchors] = {}
        self._version = 0

    def find(self, name: ListName, count: int) -> PageAnchor:
        """Return the last anchor with at most `count` rows up to it."""
        with self._lock:
            anchors = self._lists.get(name)
            if anchors is None or anchors.is_expired():
                return PageAnchor("", 0, self._version)
            index = bisect_right(anchors.positions, count) - 1
            return PageAnchor(anchors.keys[index], anchors.positions[index], self._version)

    def add(self, name: ListName, anchor: PageAnchor) -> None:
        """Add an anchor if it is far enough from the last one, and was counted after the last call of `clear`."""
        with self._lock:
            if anchor.version != self._version:
                return
            anchors = self._lists.get(name)
            if anchors is None or anchors.is_expired():
                anchors = self._lists[name] = _ListAnchors()
            if anchor.position - anchors.positions[-1] >= ANCHOR_SPACING and anchor.key > anchors.keys[-1]:
                anchors.keys.append(anchor.key)
                anchors.positions.append(anchor.position)

    def move(self, owner: int, kind: str, status: TaskStatus, key: str, rows: int) -> None:
        """Update the anchors after a row was added at `key` (1) or removed (-1)."""
        change_counters().bump(Topic.TASK_LISTS)
        with self._lock:
            for list_owner in (None, owner):
                anchors = self._lists.get(ListName(kind, status, list_owner))
                if anchors is not None and key <= anchors.keys[-1]:
                    anchors.changed = True
                    for index in range(len(anchors.keys) - 1, 0, -1):
                        if anchors.keys[index] < key:
                            break
                        anchors.positions[index] += rows

    def clear(self) -> None:
        """Remove all anchors after a change that is too large to follow."""
        change_counters().bump(Topic.TASK_LISTS)
        with self._lock:
            self._lists.clear()
            self._version += 1


def _count_foreign_changes() -> int:
    return change_counters().read_others(Topic.TASK_LISTS)


def page_anchors() -> PageAnchors:
    """Return the anchors of this process."""
    return runtime.get(PageAnchors)
