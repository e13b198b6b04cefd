"""The keys by which tasks are listed: of one owner, and of all owners.

Each list is in the order in which it is read: what is to be done the oldest first, what is done the last first.
"""

from __future__ import annotations

import time
from datetime import datetime
from enum import StrEnum
from zlib import crc32

OWNER_INDEX = "owner_key"
SHARD_INDEX = "shard_key"
SHARDS = 4  # keys that share the tasks of all owners: one alone would have to take every write of every running task
_MOST_MS = 10**15 - 1


class Status(StrEnum):
    """`REMOVED`: shown no more, its machine is to clean up."""

    UNDONE = "undone"
    DONE = "done"
    REMOVED = "removed"


def make_owner_key(owner: int, kind: str, status: Status) -> str:
    """The tasks of an owner."""
    return f"{owner}#{kind}#{status}"


def make_shard_key(id: str, kind: str, status: Status) -> str:
    """Some of the tasks of all owners: those among which the task `id` is."""
    return f"{kind}#{status}#{crc32(id.encode()) % SHARDS}"


def list_shard_keys(kind: str, status: Status) -> list[str]:
    """All tasks of all owners."""
    return [f"{kind}#{status}#{number}" for number in range(SHARDS)]


def find_status(owner_key: str) -> Status:
    """The status of the tasks of a key."""
    return Status(owner_key.rpartition("#")[2])


def make_order(id: str, created: float) -> str:
    """What an unfinished task is ordered by; `created` in seconds since the epoch."""
    return f"{int(created * 1000):015d}#{id}"


def make_done_order(id: str, ended: float) -> str:
    """What a task that is done is ordered by; `ended` in seconds since the epoch."""
    return f"{_MOST_MS - max(int(ended * 1000), 0):015d}#{id}"


def parse_end(end_time: str | None) -> float:
    """Seconds since the epoch of when a task ended; now when it is not known."""
    return datetime.fromisoformat(end_time).timestamp() if end_time else time.time()
