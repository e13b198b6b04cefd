"""The configuration in memory: storages, rules and settings as of one version. Users are looked up, see `site.users`.

A file request asks here and makes no call to the records engine. A write to the configuration raises its version in
the records; this process follows with the next question, others within `config().snapshot_seconds`. Only what changed
is read anew, and what did not change is the same object in the next snapshot.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from mangrove.configuration.users import KnownUsers
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_warning
from mangrove.records import configuration, metas, settings, storages
from mangrove.records.accounts import users
from mangrove.records.metas import Meta
from mangrove.records.storages import Storage

ReadVersion = Callable[[], int]
"""How to ask for the version of the records, for who asks something else in the same call."""
EARLY_SECONDS = 3.0  # of the ten that setting a function up may take


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """`metas` by path, `storages` by order."""

    version: int
    storages: tuple[Storage, ...]
    metas: Mapping[str, Meta]
    settings: Settings


class SnapshotStore:
    """The last snapshot that was loaded, and when it was last compared with the records."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self._compared = 0.0  # seconds of the monotonic clock
        self._generation = -1  # that the snapshot is of
        self._loading = threading.Lock()

    def find_fresh(self) -> Snapshot | None:
        """The snapshot if it needs no look at the records."""
        if self.snapshot is None or self._generation != change_counters().read(Topic.CONFIGURATION):
            return None
        seconds = config().snapshot_seconds
        is_fresh = seconds is None or time.monotonic() - self._compared < seconds
        return self.snapshot if is_fresh else None

    def get_latest(self, read_version: ReadVersion | None = None) -> Snapshot:
        """The snapshot, compared with the records and loaded when they differ, unless it is fresh."""
        with self._loading:
            found = self.find_fresh()
            if found is not None:
                return found
            return self._follow(read_version) if self.snapshot is not None else self._load()

    def load(self) -> Snapshot:
        """Read everything anew."""
        with self._loading:
            return self._load()

    def load_early(self) -> None:
        """Read everything, if that is possible."""
        try:
            self.load()
        except Problem as problem:
            log_warning("the configuration is read with the first request", reason=problem.message)
        if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
            self._compared = -math.inf  # this memory may go on much later

    def _load(self) -> Snapshot:
        return self._keep(_read_all)

    def _follow(self, read_version: ReadVersion | None) -> Snapshot:
        return self._keep(lambda: _read_changes(current(), read_version or configuration.get_version))

    def _keep(self, read: Callable[[], Snapshot]) -> Snapshot:
        compared, generation = time.monotonic(), change_counters().read(Topic.CONFIGURATION)  # both before the records
        self.snapshot = read()  # before the two that call it fresh
        self._compared, self._generation = compared, generation
        return self.snapshot


def _read_all() -> Snapshot:
    version = configuration.get_version()
    runtime.get(KnownUsers).clear()
    return Snapshot(
        version,
        tuple(storages.all()),
        {meta.path: meta for meta in metas.all()},
        Settings(settings.all()),
    )


def _read_changes(old: Snapshot, read_version: ReadVersion) -> Snapshot:
    """The present configuration, from an old one and what changed since."""
    version = read_version()
    if version == old.version:
        return old
    changes = configuration.read_changes(old.version, version)
    if changes is None:
        return _read_all()
    new = replace(old, version=version)
    for kind, ids in changes.items():
        new = _FOLLOWERS[kind](new, ids)
    return new


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


Numbered = TypeVar("Numbered", bound=_Numbered)


def _merge(old: Iterable[Numbered], ids: Collection[Any], present: dict[int, Numbered]) -> list[Numbered]:
    """The old records with those of `ids` as they are at present, if they still are."""
    kept = [present.pop(one.id, None) if one.id in ids else one for one in old]
    return [one for one in (*kept, *present.values()) if one is not None]


def _follow_users(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    runtime.get(KnownUsers).drop(ids)
    return old


def _follow_storages(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    return replace(old, storages=tuple(storages.sort(_merge(old.storages, ids, storages.get_many(ids)))))


def _follow_metas(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    found = _merge(old.metas.values(), ids, metas.get_many(ids))
    return replace(old, metas={meta.path: meta for meta in found})


def _follow_settings(old: Snapshot, keys: Collection[Any]) -> Snapshot:
    return replace(old, settings=old.settings.replace(keys, settings.get_many(keys)))


_FOLLOWERS: Mapping[str, Callable[[Snapshot, Collection[Any]], Snapshot]] = {
    users.KIND: _follow_users,
    storages.KIND: _follow_storages,
    metas.KIND: _follow_metas,
    settings.KIND: _follow_settings,
}


def is_loaded() -> bool:
    """Whether there is a snapshot yet."""
    return runtime.get(SnapshotStore).snapshot is not None


def is_fresh() -> bool:
    """Whether the snapshot that `current` answers has all that was written on this machine."""
    return runtime.get(SnapshotStore).find_fresh() is not None


def current() -> Snapshot:
    """The snapshot as it was last loaded, without asking whether it is old; Problem before the first."""
    snapshot = runtime.get(SnapshotStore).snapshot
    if snapshot is None:
        raise Problem("the configuration is not loaded yet")
    return snapshot


async def fresh(read_version: ReadVersion | None = None) -> Snapshot:
    """The snapshot with all that was written on this machine, at most `config().snapshot_seconds` behind others."""
    found = runtime.get(SnapshotStore).find_fresh()
    return found if found is not None else await asyncio.to_thread(latest, read_version)


def latest(read_version: ReadVersion | None = None) -> Snapshot:
    """What `fresh` returns, for code that runs in a thread."""
    return runtime.get(SnapshotStore).get_latest(read_version)


def load_early() -> None:
    """Read the configuration while a function is set up, when it has more CPU and nobody waits: its first request finds
    it. A failure is for that request, which tries again and can tell somebody; so is an engine that takes longer."""
    if platform().has_cold_starts:
        reading = threading.Thread(target=runtime.get(SnapshotStore).load_early, daemon=True)
        reading.start()
        reading.join(EARLY_SECONDS)


def refresh() -> Snapshot:
    """Read everything anew, whatever is in memory."""
    return runtime.get(SnapshotStore).load()
