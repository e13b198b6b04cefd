"""The configuration in memory: users, storages, rules and settings as of one version.

A file request asks here and makes no call to the records engine. Every administrative write raises the version
item and refreshes this process at once; others notice within `config().snapshot_seconds`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mangrove.config import config
from mangrove.problems import Problem
from mangrove.records import counters, metas, settings, storages, users
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


_now: Snapshot | None = None
_asked = 0.0
_loading = threading.Lock()


def loaded() -> bool:
    """Whether there is a snapshot yet."""
    return _now is not None


def current() -> Snapshot:
    """The snapshot as it is, without asking whether it is old; Problem before the first."""
    if _now is None:
        raise Problem("the configuration is not loaded yet")
    return _now


async def fresh() -> Snapshot:
    """The snapshot, at most `config().snapshot_seconds` behind the records."""
    if _now is not None and _young():
        return _now
    return await asyncio.to_thread(latest)


def _young() -> bool:
    seconds = config().snapshot_seconds
    return seconds is None or time.monotonic() - _asked < seconds


def latest() -> Snapshot:
    """What `fresh` answers, for code that runs in a thread."""
    global _asked
    with _loading:
        if _now is not None and _young():
            return _now
        if _now is not None and counters.configuration_version() == _now.version:
            _asked = time.monotonic()
            return _now
        return _load()


def refresh() -> Snapshot:
    """Read everything anew."""
    with _loading:
        return _load()


def changed() -> Snapshot:
    """Tell everybody that the configuration changed, and read it anew here."""
    counters.bump_configuration()
    return refresh()


def _load() -> Snapshot:
    global _now, _asked
    _asked = time.monotonic()
    version = counters.configuration_version()
    _now = Snapshot(
        version,
        {user.username: user for user in users.all()},
        tuple(storages.all()),
        {meta.path: meta for meta in metas.all()},
        Settings(settings.all()),
    )
    return _now
