"""The mounted storages: the storage of a path, and the running drivers.

The table follows the snapshot: `ready()` compares the two and starts or stops the storages that differ, so a change by
another function or process takes effect here with the next snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryNotFound,
    NotMounted,
    Problem,
    RecordNotFound,
    StorageUnavailable,
    Unreachable,
)
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.core.telemetry import log_event, log_exception
from mangrove.drivers import registry
from mangrove.drivers.base import ROOT, Capacity, Driver, DriverContext, Redirects
from mangrove.drivers.observed import observe
from mangrove.drivers.part_names import leads_to_trash
from mangrove.drivers.shown_names import show_names
from mangrove.records import storages
from mangrove.records.storages import Storage
from mangrove.tree.mount_table import MountTable
from mangrove.tree.trash.moving import keep_removed

if TYPE_CHECKING:
    from mangrove.drivers.options import Options

WORKING, DISABLED = "work", "disabled"
START_SECONDS = 30.0  # after which a start has failed
STOP_SECONDS = 5.0
SPACE_SECONDS = 1.0
STATUS_SECONDS = 5.0  # between two changes of a stored status, and between two attempts to reach a lost storage
MAX_STATUS_SECONDS = 300.0  # the same after many attempts
BALANCE = ".balance"


def find_path(mount_path: str) -> TreePath:
    """Return the path in the tree of a mount path, which may end in `.balance…`."""
    return TreePath(mount_path.partition(BALANCE)[0])


@dataclass(slots=True, eq=False)
class Mount:
    """One enabled storage in the tree. `path` is the mount path without `.balance…`."""

    storage: Storage
    path: TreePath = field(init=False)
    redirects: Redirects | None = field(init=False)  # the paths to which it leads
    driver: Driver | None = None
    status: str = ""
    has_failed: bool = False  # to start
    is_unreachable: bool = False  # the driver has to be restarted
    starting: asyncio.Task[None] | None = None
    has_lost_storage: bool = False  # the last use could not reach the storage
    checking: asyncio.Task[None] | None = None  # stores the status, and checks a lost storage

    def __post_init__(self) -> None:
        self.path = find_path(self.storage.mount_path)
        self.redirects = registry.find_redirects(self.storage.driver, self.storage.addition)

    async def get_driver(self) -> Driver:
        """Return the running driver, started at the first call. Raise a Problem if it cannot run.

        A driver whose storage did not answer at its start is restarted with every use, until it works.
        """
        if self.driver is None or self.is_unreachable:
            if self.starting is None or self.starting.done():
                self.starting = asyncio.create_task(self._start())
            await asyncio.shield(self.starting)  # shared by all callers that wait, even if some are cancelled
        if self.driver is None or (self.has_failed and self.driver.config.check_status):
            raise StorageUnavailable(f"storage status: {self.status}: storage not init")
        return self.driver

    async def _start(self) -> None:
        was_unreachable = self.is_unreachable
        try:
            driver = self.driver or self._make_driver()
        except Problem as problem:
            self.status = _escape(problem.message)
            return
        self.status, self.is_unreachable = await _start_driver(driver)
        self.has_failed = self.status != WORKING
        self.driver = driver
        self.has_lost_storage = False
        if (was_unreachable and not self.is_unreachable) or self.status == WORKING != self.storage.status:
            await self._try_to_store_status()

    async def report_status(self, text: str) -> None:
        """Set the problem of a storage that works nevertheless; "" if there is none."""
        self.status = _escape(text) or WORKING
        if self.status != self.storage.status:
            await self._try_to_store_status()

    def note_use(self, problem: Unreachable | None) -> None:
        """Update the status after a use of the driver: with the failure to reach the storage, or None."""
        if problem is None and not self.has_lost_storage:
            return
        if problem is not None and self.status != WORKING and not self.has_lost_storage:
            return  # there is a reason already, from the start or from the driver
        self.has_lost_storage = problem is not None
        self.status = WORKING if problem is None else _escape(problem.message)
        if self.checking is None or self.checking.done():
            self.checking = asyncio.create_task(self._follow_storage())

    async def _follow_storage(self) -> None:
        """Store the status now and when it changes. At intervals, check if a lost storage is reachable again."""
        pause = STATUS_SECONDS
        while True:
            if self.status != self.storage.status:
                await self._try_to_store_status()
            if not self.has_lost_storage and self.status == self.storage.status:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_STATUS_SECONDS)
            if self.driver is None:
                return
            if self.has_lost_storage:
                with suppress(Problem):
                    await self.driver.stat(ROOT)

    async def _try_to_store_status(self) -> None:
        try:
            await _store_status(self)
        except Problem:
            pass  # the records do not answer; the storage works nevertheless

    def _make_driver(self) -> Driver:
        registry.check_disk(self.storage.driver)
        kind, context = registry.load(self.storage.driver), _make_context(self)
        driver = kind(kind.Options.parse(self.storage.addition), context)
        observe(driver, self.note_use)
        return keep_removed(show_names(driver, context.char_mapping))

    async def stop(self) -> None:
        """Stop the driver; the next use restarts it."""
        if self.checking is not None:
            self.checking.cancel()
        if self.driver is not None:
            driver, self.driver = self.driver, None
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await driver.stop()
            except TimeoutError:
                log_event("driver did not stop", driver=driver.name)


def _escape(text: str) -> str:
    """Return the text of a status, which clients show as HTML."""
    from html import escape  # takes a millisecond, and most storages work

    return escape(text, quote=False)


async def _start_driver(driver: Driver) -> tuple[str, bool]:
    """Start a driver. Return the status text, and True if the storage did not answer."""
    try:
        async with asyncio.timeout(START_SECONDS):
            await driver.start()
    except Problem as problem:
        return _escape(problem.message), isinstance(problem, Unreachable)
    except TimeoutError:
        return f"the storage did not answer within {START_SECONDS:.0f} s", True
    except Exception:  # an unexpected error of a library must not prevent other storages from starting
        log_exception("driver failed to start", driver=driver.name)
        return "the driver failed to start, see the log", False
    return WORKING, False


def _make_context(mount: Mount) -> DriverContext:
    def store(addition: str) -> None:
        mount.storage = storages.replace_addition(mount.storage.id, mount.storage.addition, addition)

    async def save_options(options: Options) -> None:
        await asyncio.to_thread(store, options.format())
        await ready()  # before the driver saves again: otherwise a later table would see a change from elsewhere

    return DriverContext(
        mount_path=mount.path,
        modified=mount.storage.modified.timestamp(),
        resolver=MountResolver(),
        report_status=mount.report_status,
        save_options=save_options,
        proxy_range=mount.storage.proxy_range,
        char_mapping=configuration.cached().settings.filename_char_mapping,
        storage_id=mount.storage.id,
        state=_RecordedState(mount.storage.id),
    )


@dataclass(frozen=True, slots=True)
class _RecordedState:
    """The `SharedState` of a storage, kept in its record."""

    storage_id: int

    async def read(self) -> str:
        return await asyncio.to_thread(storages.read_driver_state, self.storage_id)

    async def replace(self, old: str, new: str) -> bool:
        return await asyncio.to_thread(storages.replace_driver_state, self.storage_id, old, new)


@dataclass(frozen=True, slots=True)
class StoragePath:
    """A path inside one mounted storage, whose driver runs. EntryNotFound for a path into the trash: for nobody."""

    driver: Driver
    path: TreePath
    mount: Mount

    def __post_init__(self) -> None:
        if leads_to_trash(self.path):
            raise EntryNotFound

    @property
    def parent(self) -> StoragePath:
        """Return the parent folder; the storage's root is its own parent."""
        return self.with_path(self.path.parent)

    def child(self, name: str) -> StoragePath:
        """Return the entry `name` of this folder."""
        return self.with_path(self.path / name)

    def with_path(self, path: TreePath) -> StoragePath:
        """Return another path inside the same storage."""
        return StoragePath(self.driver, path, self.mount)


class Mounts:
    """The table in use, and the counter that rotates balanced mounts."""

    def __init__(self) -> None:
        self.table = MountTable(-1, ())
        self._storages: Sequence[Storage] = ()  # the snapshot of the table
        self._char_mapping: Mapping[str, str] = {}  # the records with which its drivers were started
        self._selections = count()
        self._restarts = change_counters().read_told(Topic.DRIVERS)
        self._syncing = asyncio.Lock()

    def get_next_selection(self) -> int:
        """Return a number that grows with every call."""
        return next(self._selections)

    async def sync(self) -> MountTable:
        """Return the table of the present snapshot."""
        now = await configuration.get()
        restarts = change_counters().read_told(Topic.DRIVERS)
        if restarts != self._restarts:
            self._restarts = restarts
            await _stop_all(self.table.mounts)
        if now.version != self.table.version:
            async with self._syncing:
                # the snapshot that was read before the lock may be older than the table now
                now = configuration.cached()
                if now.version != self.table.version:
                    await self._apply(now)
        return self.table

    async def _apply(self, now: configuration.Snapshot) -> None:
        char_mapping = now.settings.filename_char_mapping
        is_same_mapping = char_mapping == self._char_mapping
        if now.storages is self._storages and is_same_mapping:
            self.table.version = now.version
            return
        running = dict(self.table.by_id)
        mounts: list[Mount] = []
        new: list[Storage] = []
        for storage in now.storages:
            if storage.disabled:
                continue
            mount = running.get(storage.id)
            if mount is not None and is_same_mapping and _is_unchanged(mount.storage, storage):
                mount.storage = storage
                mounts.append(running.pop(storage.id))
            else:
                new.append(storage)
        mounts += await asyncio.to_thread(lambda: [Mount(storage) for storage in new]) if new else ()
        self.table, self._storages = MountTable(now.version, mounts), now.storages
        self._char_mapping = char_mapping
        await _stop_all(running.values())


def _is_unchanged(old: Storage, new: Storage) -> bool:
    """True if a running driver is valid for the new record too."""
    return (old.driver, old.addition, old.mount_path, old.modified) == (
        new.driver,
        new.addition,
        new.mount_path,
        new.modified,
    )


async def _stop_all(mounts: Iterable[Mount]) -> None:
    await asyncio.gather(*(mount.stop() for mount in mounts))


async def ready() -> MountTable:
    """Return the table of the present snapshot."""
    return await runtime.get(Mounts).sync()


async def start(storage_id: int) -> str:
    """Start or restart the driver of one storage with its present record. Return the status text, which is stored."""
    await stop(storage_id)
    mount = (await ready()).by_id.get(storage_id)
    if mount is None:
        return DISABLED
    await _load(mount)
    return mount.status


async def stop(storage_id: int) -> None:
    """Stop a storage's driver; the next use restarts it."""
    mount = runtime.get(Mounts).table.by_id.get(storage_id)
    if mount is not None:
        await mount.stop()


async def load() -> None:
    """Start every storage concurrently and store each status in its record."""
    table = await ready()
    await asyncio.gather(*(_load(mount) for mount in table.mounts))


async def _load(mount: Mount) -> None:
    try:
        await mount.get_driver()
    except Problem:
        pass  # the reason is in the status
    if mount.status != mount.storage.status:
        await _store_status(mount)


async def _store_status(mount: Mount) -> None:
    try:
        mount.storage = await asyncio.to_thread(storages.set_status, mount.storage.id, mount.status)
    except RecordNotFound:
        pass  # removed meanwhile


async def restart() -> None:
    """Restart every storage: in this process immediately, in the other processes of this machine with its next use."""
    change_counters().bump(Topic.DRIVERS)
    await close()
    await load()


async def close() -> None:
    """Stop every driver."""
    await _stop_all(runtime.get(Mounts).table.mounts)


def select_mount(table: MountTable, path: TreePath) -> tuple[Mount, TreePath]:
    """Return the mount for `path`, rotating balanced mounts, and the path inside it. Raise NotMounted."""
    candidates = table.find_mounts(path)
    if not candidates:
        reason = "please add a storage first" if path == "/" else f"rawPath: {path}"
        raise NotMounted(f"storage not found; {reason}")
    mount = candidates[0]
    if len(candidates) > 1:
        mount = candidates[runtime.get(Mounts).get_next_selection() % len(candidates)]
    return mount, path.below(mount.path)


class MountResolver:
    """The `Resolver` of Alias and Crypt."""

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        mount, inner = select_mount(runtime.get(Mounts).table, path)
        if leads_to_trash(inner):
            raise EntryNotFound
        return await mount.get_driver(), inner

    def folders(self, path: TreePath) -> Sequence[str]:
        return list(runtime.get(Mounts).table.find_virtual_folders(path))


async def get_capacity(mount: Mount) -> Capacity | None:
    """Return the capacity of a mounted storage; None if it is not known within SPACE_SECONDS."""
    try:
        async with asyncio.timeout(SPACE_SECONDS):
            driver = await mount.get_driver()
            return await driver.get_space() if driver.capabilities.get_space else None
    except (Problem, TimeoutError):
        return None
