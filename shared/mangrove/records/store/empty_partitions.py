"""Partitions of tables that are known to have no record, so that nobody has to read them.

Only for a records engine that no other program writes to. A process that adds a record announces it, before and after,
to the others.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mangrove.core.platform import platform
from mangrove.core.runtime import CacheKind
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.records.store.base import Record, translate_errors

MAX_AGE_SECONDS = 60.0  # of the knowledge that a partition has records, since a removal is not announced


class Partition(NamedTuple):
    """The records of a table with one partition key."""

    model: type[Record]
    key: str

    def is_empty(self) -> bool:
        """Return True if no record is in it; False if it may have records."""
        return platform().has_own_engine and self._look().is_empty

    def _look(self) -> _Look:
        """Return the last look of this process if it still holds, otherwise look now."""
        announcements, now = change_counters().read(*self.topic), time.monotonic()
        look = SEEN_PARTITIONS.open().get(self)
        if look is None or not look.holds(announcements, now):
            look = _Look(announcements, self.read_empty(), now)
            SEEN_PARTITIONS.open().put(self, look)
        return look

    def is_known_empty(self) -> bool:
        """Return True if `is_empty` does without a call."""
        look = SEEN_PARTITIONS.open().get(self)
        if not platform().has_own_engine or look is None or not look.is_empty:
            return False
        return look.holds(change_counters().read(*self.topic), time.monotonic())

    @property
    def topic(self) -> tuple[Topic, str]:
        """The topic of added records, with the key of the partition."""
        return Topic.ADDED_RECORDS, f"{self.model.get_kind()} {self.key}"

    def read_empty(self) -> bool:
        """Return True if the engine finds no record in it, in one call."""
        with translate_errors():
            return next(iter(self.model.query(self.key, limit=1, consistent_read=True)), None) is None


@contextmanager
def announce_records(partitions: Collection[Partition]) -> Iterator[None]:
    """Announce that the body adds records to partitions. Who looks meanwhile looks again afterwards."""
    _announce(partitions)
    try:
        yield
    finally:
        _announce(partitions)


def _announce(partitions: Iterable[Partition]) -> None:
    for partition in partitions:
        change_counters().bump(*partition.topic)


class _Look(NamedTuple):
    """The result of a look at a partition."""

    announcements: int  # counted before
    is_empty: bool
    seconds: float  # on the monotonic clock

    def holds(self, announcements: int, seconds: float) -> bool:
        """Return True if it is still so at a later time. That a partition has records is never certain for long,
        since a removal is not announced."""
        is_recent = self.is_empty or seconds - self.seconds < MAX_AGE_SECONDS
        return is_recent and announcements == self.announcements


SEEN_PARTITIONS: CacheKind[Partition, _Look] = CacheKind("seen partitions", 10_000)
