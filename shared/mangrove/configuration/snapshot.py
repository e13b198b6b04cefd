"""The configuration in memory: a snapshot of storages, rules, groups and settings as of one version.

Users are in `users`.

A file request reads it without a call to the records engine. A write to the configuration raises its version in the
records: this process reloads before its next request, others within `config().snapshot_seconds`. Only changed records
are read again; snapshots share the other objects.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeVar

from mangrove.configuration.known_users import KnownUsers
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_warning
from mangrove.records import groups, metas, settings, storages, users
from mangrove.records.groups import Group, GroupPermissions
from mangrove.records.metas import PathRule
from mangrove.records.storages import Storage
from mangrove.records.store import versions

ReadVersion = Callable[[], int]
"""A function that reads the version of the records. Callers pass it to read other records in the same call."""
PREFETCH_SECONDS = 3.0  # of the ten seconds that the initialization of a function may take


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The configuration as of one version."""

    version: int
    storages: tuple[Storage, ...]
    """Sorted by their order."""
    metas: Mapping[str, PathRule]
    """Rules by path."""
    settings: Settings
    groups: tuple[Group, ...] = ()
    """By id."""
    group_permissions: Mapping[int, GroupPermissions] = field(default_factory=dict)
    """The permissions of all members of groups, by the id of the user."""


class SnapshotStore:
    """The last snapshot that was loaded, the time of its last comparison with the records, and the cached users."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.users = KnownUsers()
        self._compared = 0.0  # seconds of the monotonic clock
        self._change_count = -1  # read before the snapshot
        self._loading = threading.Lock()

    def find_fresh(self) -> Snapshot | None:
        """Return the snapshot if it need not be compared with the records."""
        if self.snapshot is None or self._change_count != change_counters().read(Topic.CONFIGURATION):
            return None
        seconds = config().snapshot_seconds
        is_fresh = seconds is None or time.monotonic() - self._compared < seconds
        return self.snapshot if is_fresh else None

    def get(self, read_version: ReadVersion | None = None) -> Snapshot:
        """Return the snapshot. Unless it is fresh, compare it with the records, and load what differs."""
        with self._loading:
            fresh = self.find_fresh()
            if fresh is not None:
                return fresh
            old = self.snapshot
            if old is None:
                return self._replace(_read_all)
            return self._replace(lambda: _read_changes(old, read_version or versions.get_version))

    def load(self) -> Snapshot:
        """Read all records."""
        with self._loading:
            return self._replace(_read_all)

    def prefetch(self) -> None:
        """Read all records, if that is possible."""
        try:
            self.load()
        except Problem as problem:
            log_warning("configuration prefetch failed; the first request reads it", reason=problem.message)
        if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
            self._compared = -math.inf  # a process that is resumed from a snapshot runs this much later

    def _replace(self, read: Callable[[], Snapshot]) -> Snapshot:
        compared, count = time.monotonic(), change_counters().read(Topic.CONFIGURATION)  # read both before the records
        self.snapshot = read()  # assign it before the two values that make it fresh
        self._compared, self._change_count = compared, count
        return self.snapshot


class _UnreadStorages(tuple[Storage, ...]):
    """The storages in a process that does not read them."""

    def __iter__(self) -> NoReturn:
        raise Problem("this function does not read the storages")


def _read_all() -> Snapshot:
    part = config().configuration
    version = versions.get_version()
    known_users().clear()
    if part == "public":
        return Snapshot(version, _UnreadStorages(), {}, Settings(settings.all_visible()))
    snapshot = Snapshot(
        version,
        tuple(storages.all()) if part == "all" else _UnreadStorages(),
        {meta.path: meta for meta in metas.all()},
        Settings(settings.all()),
    )
    return _with_groups(snapshot, groups.all())


def _with_groups(snapshot: Snapshot, all_groups: Collection[Group]) -> Snapshot:
    return replace(snapshot, groups=tuple(all_groups), group_permissions=groups.combine(all_groups))


def _read_changes(old: Snapshot, read_version: ReadVersion) -> Snapshot:
    """Return the present configuration, built from an old one and the records that changed since."""
    version = read_version()
    if version == old.version:
        return old
    changes = versions.read_changes(old.version, version)
    if changes is None:
        return _read_all()
    new = replace(old, version=version)
    updates = _UPDATES[config().configuration]
    for kind, ids in changes.items():
        if kind in updates:
            new = updates[kind](new, ids)
    return new


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


Numbered = TypeVar("Numbered", bound=_Numbered)


def _merge(old: Iterable[Numbered], ids: Collection[Any], present: dict[int, Numbered]) -> list[Numbered]:
    """Return the old records, with the present values of `ids` and without deleted records."""
    updated = [present.pop(record.id, None) if record.id in ids else record for record in old]
    return [record for record in (*updated, *present.values()) if record is not None]


def _update_users(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    known_users().drop(ids)
    return old


def _update_storages(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    return replace(old, storages=tuple(storages.sort(_merge(old.storages, ids, storages.get_many(ids)))))


def _update_metas(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    merged = _merge(old.metas.values(), ids, metas.get_many(ids))
    return replace(old, metas={meta.path: meta for meta in merged})


def _update_groups(old: Snapshot, ids: Collection[Any]) -> Snapshot:
    return _with_groups(old, _merge(old.groups, ids, groups.get_many(ids)))


def _update_settings(old: Snapshot, keys: Collection[Any]) -> Snapshot:
    return replace(old, settings=old.settings.replace(keys, settings.get_many(keys)))


def _update_visible(old: Snapshot, keys: Collection[Any]) -> Snapshot:
    return replace(old, settings=old.settings.replace(keys, settings.get_many_visible(keys)))


_Update = Callable[[Snapshot, Collection[Any]], Snapshot]
_WITHOUT_STORAGES: Mapping[str, _Update] = {
    users.KIND: _update_users,
    metas.KIND: _update_metas,
    groups.KIND: _update_groups,
    settings.KIND: _update_settings,
}
_UPDATES: Mapping[str, Mapping[str, _Update]] = {
    "all": {**_WITHOUT_STORAGES, storages.KIND: _update_storages},
    "without storages": _WITHOUT_STORAGES,
    "public": {settings.KIND: _update_visible},
}


def _store() -> SnapshotStore:
    return runtime.get(SnapshotStore)


def known_users() -> KnownUsers:
    """Return the cached users of this process."""
    return _store().users


def is_loaded() -> bool:
    """True if the configuration was loaded."""
    return _store().snapshot is not None


def is_fresh() -> bool:
    """True if the snapshot in memory has every change that a process of this computer wrote."""
    return _store().find_fresh() is not None


def cached() -> Snapshot:
    """Return the snapshot in memory, however old. Raise Problem if none is loaded."""
    snapshot = _store().snapshot
    if snapshot is None:
        raise Problem("the configuration is not loaded yet")
    return snapshot


async def get(read_version: ReadVersion | None = None) -> Snapshot:
    """Return the configuration.

    It has all changes that processes of this computer made, and the changes of other computers after at most
    `config().snapshot_seconds`.
    """
    fresh = _store().find_fresh()
    return fresh if fresh is not None else await asyncio.to_thread(get_sync, read_version)


def get_sync(read_version: ReadVersion | None = None) -> Snapshot:
    """Return what `get` returns, for code that runs in a thread."""
    return _store().get(read_version)


def prefetch() -> None:
    """Load the configuration during the initialization of a function, which has more CPU and no waiting client.

    If it fails or takes longer than PREFETCH_SECONDS, the first request loads it.
    """
    if platform().has_cold_starts:
        reading = threading.Thread(target=_store().prefetch, daemon=True)
        reading.start()
        reading.join(PREFETCH_SECONDS)


def reload() -> Snapshot:
    """Read all records again and return the new snapshot."""
    return _store().load()


def mask_private(message: str) -> str:
    """Return the message with each match of the setting `privacy_regs` replaced by asterisks."""
    if not is_loaded():
        return message
    for pattern in cached().settings.privacy_patterns:
        message = pattern.sub(lambda match: "*" * len(match.group()), message)
    return message
