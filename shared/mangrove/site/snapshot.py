"""The configuration in memory: users, storages, rules and settings as of one version.

A file request asks here and makes no call to the records engine. A write to the configuration raises its version in
the records; this process loads it anew with the next question, others within `config().snapshot_seconds`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mangrove import runtime
from mangrove.config import config
from mangrove.problems import Problem
from mangrove.records import counters, metas, settings, storages, users
from mangrove.records.counters import ConfigurationWrites
from mangrove.records.metas import Meta
from mangrove.records.storages import Storage
from mangrove.records.users import User
from mangrove.site.values import Settings


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """`users` by name, `metas` by path, `storages` by order."""

    version: int
    users: Mapping[str, User]
    storages: tuple[Storage, ...]
    metas: Mapping[str, Meta]
    settings: Settings


class SnapshotStore:
    """The last snapshot that was loaded, and when it was last compared with the records."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self._compared = 0.0  # seconds of the monotonic clock
        self._writes = 0  # of this process that the snapshot has
        self._loading = threading.Lock()

    def find_fresh(self) -> Snapshot | None:
        """The snapshot if it needs no look at the records."""
        if self.snapshot is None or self._writes != runtime.get(ConfigurationWrites).count:
            return None
        seconds = config().snapshot_seconds
        is_fresh = seconds is None or time.monotonic() - self._compared < seconds
        return self.snapshot if is_fresh else None

    def get_latest(self) -> Snapshot:
        """The snapshot, compared with the records and loaded when they differ, unless it is fresh."""
        with self._loading:
            found = self.find_fresh()
            if found is not None:
                return found
            compared, writes = time.monotonic(), runtime.get(ConfigurationWrites).count  # both before the records
            if self.snapshot is not None and counters.get_configuration_version() == self.snapshot.version:
                self._compared, self._writes = compared, writes
                return self.snapshot
            return self._load()

    def load(self) -> Snapshot:
        """Read everything anew."""
        with self._loading:
            return self._load()

    def _load(self) -> Snapshot:
        compared, writes = time.monotonic(), runtime.get(ConfigurationWrites).count  # both before the records
        snapshot = Snapshot(
            counters.get_configuration_version(),
            {user.username: user for user in users.all()},
            tuple(storages.all()),
            {meta.path: meta for meta in metas.all()},
            Settings(settings.all()),
        )
        self.snapshot = snapshot  # before the two that call it fresh
        self._compared, self._writes = compared, writes
        return snapshot


def is_loaded() -> bool:
    """Whether there is a snapshot yet."""
    return runtime.get(SnapshotStore).snapshot is not None


def current() -> Snapshot:
    """The snapshot as it was last loaded, without asking whether it is old; Problem before the first."""
    snapshot = runtime.get(SnapshotStore).snapshot
    if snapshot is None:
        raise Problem("the configuration is not loaded yet")
    return snapshot


async def fresh() -> Snapshot:
    """The snapshot with all that this process wrote, at most `config().snapshot_seconds` behind other processes."""
    found = runtime.get(SnapshotStore).find_fresh()
    return found if found is not None else await asyncio.to_thread(latest)


def latest() -> Snapshot:
    """What `fresh` returns, for code that runs in a thread."""
    return runtime.get(SnapshotStore).get_latest()


def refresh() -> Snapshot:
    """Read everything anew, whatever is in memory."""
    return runtime.get(SnapshotStore).load()
