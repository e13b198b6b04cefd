"""The state of the service for its administrators: storages, tasks, the index of names, the last failures.

It is read from the records, in a bounded number of calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from mangrove import configuration
from mangrove.core.concurrency import gather_bounded
from mangrove.core.platform import platform
from mangrove.core.problems import RecordNotFound
from mangrove.records import index_changes, storages
from mangrove.records.index_changes import ChangeKind
from mangrove.records.storages import Storage
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks.ordering import parse_end
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS
from mangrove.tree import mounts

MAX_READ_TASKS = 1000  # of a kind, the oldest: running ones are among them
MAX_READ_CHANGES = 1000  # of the log of the index
MAX_READ_ENDED_TASKS = 100  # of a kind, the last ones
MAX_FAILURES = 20
SPACE_CONCURRENCY = 16  # storages that are asked for their space


@dataclass(frozen=True, slots=True)
class StorageState:
    """A storage, and its space if the driver knows it."""

    mount_path: str
    driver: str
    status: str
    is_enabled: bool
    total_bytes: int | None = None
    free_bytes: int | None = None

    @property
    def is_up(self) -> bool:
        """True if the storage worked at its last use."""
        return self.is_enabled and self.status == mounts.WORKING


@dataclass(frozen=True, slots=True)
class KindState:
    """The unfinished tasks of a kind."""

    kind: str
    waiting: int
    running: int
    oldest_seconds: float
    """The age of the oldest one; 0 without tasks."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index of names."""

    is_enabled: bool
    waiting_changes: int
    """Changes that are not merged yet; at most MAX_READ_CHANGES are counted."""
    lag_seconds: float
    """The age of the oldest one."""


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that failed."""

    kind: str
    id: str
    name: str
    error: str
    end_time: str | None


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of the service."""

    storages: list[StorageState]
    tasks: list[KindState]
    index: IndexState
    failures: list[FailedTask]
    """The last first."""


async def read_overview(*, with_space: bool = False) -> Overview:
    """Return the state of the service. `with_space`: ask storages for their space, where a disk is here."""
    settings = (await configuration.get()).settings
    states, tasks, index, failures = await asyncio.gather(
        asyncio.to_thread(_read_storages),
        asyncio.to_thread(lambda: [_read_kind(kind) for kind in KINDS]),
        asyncio.to_thread(_read_index, settings.has_search_index),
        asyncio.to_thread(_read_failures),
    )
    if with_space and platform().has_disk and not settings.hide_storage_details_in_manage_page:
        states = await gather_bounded([partial(_add_space, state) for state in states], SPACE_CONCURRENCY)
    return Overview([state for _, state in states], tasks, index, failures)


StorageRow = tuple[int, StorageState]


def _read_storages() -> list[StorageRow]:
    return [(storage.id, _make_state(storage)) for storage in storages.all()]


def _make_state(storage: Storage) -> StorageState:
    return StorageState(storage.mount_path, storage.driver, storage.status, not storage.disabled)


async def _add_space(row: StorageRow) -> StorageRow:
    id, state = row
    mount = (await mounts.ready()).by_id.get(id)
    space = await mounts.get_capacity(mount) if mount is not None else None
    if space is None:
        return row
    return id, replace(state, total_bytes=space.total, free_bytes=space.free)


def _read_kind(kind: str) -> KindState:
    total = task_lists.count_unfinished(kind)
    if not total:
        return KindState(kind, 0, 0, 0.0)
    rows = list(islice(task_lists.list_rows(kind, False, page_size=MAX_READ_TASKS), MAX_READ_TASKS))
    running = sum(row.view.state == State.RUNNING for row in rows)
    return KindState(kind, max(total - running, 0), running, _find_age(rows[0].id) if rows else 0.0)


def _find_age(id: str) -> float:
    try:
        return max(time.time() - records.get(id).created, 0.0)
    except RecordNotFound:  # it has just been deleted
        return 0.0


def _read_index(is_enabled: bool) -> IndexState:
    changes = index_changes.read(limit=MAX_READ_CHANGES)
    waiting = [change for change in changes if change.kind is not ChangeKind.INDEX]
    age = time.time() - index_changes.read_seconds(waiting[0].number) if waiting else 0.0
    return IndexState(is_enabled, len(waiting), max(age, 0.0))


def _read_failures() -> list[FailedTask]:
    failures = [failure for kind in KINDS for failure in _list_failures(kind)]
    return sorted(failures, key=lambda failure: parse_end(failure.end_time), reverse=True)[:MAX_FAILURES]


def _list_failures(kind: str) -> Iterator[FailedTask]:
    rows = task_lists.list_rows(kind, True, page_size=MAX_READ_ENDED_TASKS)
    for row in islice(rows, MAX_READ_ENDED_TASKS):
        if row.view.state == State.FAILED:
            yield FailedTask(kind, row.id, row.view.name, row.view.error, row.view.end_time)
