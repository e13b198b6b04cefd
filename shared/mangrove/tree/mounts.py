"""The mounted storages: which one serves a path, and the drivers that run for them.

The table follows the snapshot: `ready()` compares the two and starts or stops what differs, so a change made
by another function or process reaches this one with its next snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import count

from mangrove import runtime
from mangrove.drivers import registry
from mangrove.drivers.base import Capacity, Driver, DriverContext, Options, Space
from mangrove.paths import TreePath
from mangrove.problems import Problem, StorageProblem, StorageUnavailable
from mangrove.records import storages
from mangrove.records.base import RecordMissing
from mangrove.records.storages import Storage
from mangrove.site import snapshot
from mangrove.telemetry import log_exception

WORKING, DISABLED = "work", "disabled"
START_SECONDS = 30.0  # a storage that takes longer to start counts as failed
SPACE_SECONDS = 1.0
BALANCE = ".balance"


@dataclass(slots=True, eq=False)
class Mount:
    """One enabled storage in the tree. `path` is the mount path without `.balance…`."""

    storage: Storage
    path: TreePath = field(init=False)
    driver: Driver | None = None
    status: str = ""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.path = TreePath(self.storage.mount_path.partition(BALANCE)[0])

    async def get_driver(self) -> Driver:
        """The running driver, started at the first call; a Problem when it cannot run."""
        if self.driver is None:
            async with self.starting:
                if self.driver is None:
                    await self._start()
        assert self.driver is not None
        if self.status != WORKING and self.driver.config.check_status:
            raise self._make_unavailable()
        return self.driver

    async def _start(self) -> None:
        try:
            kind = registry.load(self.storage.driver)
            driver = kind(kind.Options.parse(self.storage.addition), _make_context(self))
        except Problem as problem:
            self.status = escape(problem.message, quote=False)
            raise self._make_unavailable() from None
        self.status = await _start_driver(driver)
        self.driver = driver

    def _make_unavailable(self) -> StorageUnavailable:
        return StorageUnavailable(f"storage status: {self.status}: storage not init")

    async def stop(self) -> None:
        """Stop the driver; the next use starts it anew."""
        if self.driver is not None:
            driver, self.driver = self.driver, None
            await driver.stop()


async def _start_driver(driver: Driver) -> str:
    """Start a driver; the status text."""
    try:
        async with asyncio.timeout(START_SECONDS):
            await driver.start()
    except Problem as problem:
        return escape(problem.message, quote=False)  # clients show a status as HTML
    except TimeoutError:
        return f"the storage did not answer within {START_SECONDS:.0f} s"
    except Exception:  # an unexpected error of a library must not keep the other storages from starting
        log_exception("driver failed to start", driver=driver.name)
        return "the driver failed to start, see the log"
    return WORKING


def _make_context(mount: Mount) -> DriverContext:
    def store(addition: str) -> None:
        mount.storage = storages.replace_addition(mount.storage.id, mount.storage.addition, addition)

    async def save_options(options: Options) -> None:
        await asyncio.to_thread(store, options.model_dump_json())
        await ready()  # before the driver saves again: a table that follows later would see a change made elsewhere

    return DriverContext(
        mount_path=mount.path,
        modified=mount.storage.modified.timestamp(),
        resolver=MountResolver(),
        save_options=save_options,
    )


@dataclass(frozen=True, slots=True)
class Located:
    """A path inside one mounted storage, whose driver runs."""

    driver: Driver
    path: TreePath
    mount: Mount

    @property
    def parent(self) -> Located:
        """The folder above; the storage's root is its own parent."""
        return self.with_path(self.path.parent)

    def child(self, name: str) -> Located:
        """The entry `name` of this folder."""
        return self.with_path(self.path / name)

    def with_path(self, path: TreePath) -> Located:
        """Another path inside the same storage."""
        return Located(self.driver, path, self.mount)


class MountTable:
    """All mounts of one snapshot version, in the order of `order`, then mount path.

    `by_path`: the mounts at a path, several when they are balanced. `ancestors`: the folders above any mount.
    """

    def __init__(self, version: int, mounts: Sequence[Mount]) -> None:
        self.version = version
        self.mounts = sorted(mounts, key=lambda mount: (mount.storage.order, mount.storage.mount_path))
        self.by_path: dict[str, list[Mount]] = {}
        for mount in sorted(mounts, key=lambda mount: mount.storage.mount_path):
            self.by_path.setdefault(mount.path, []).append(mount)
        self.ancestors: set[str] = {folder for path in self.by_path for folder in TreePath(path).ancestors()[1:]}

    def find_mounts(self, path: TreePath) -> list[Mount]:
        """The mounts with the longest path that holds `path`; empty when none does."""
        for folder in path.ancestors():
            if folder in self.by_path:
                return self.by_path[folder]
        return []

    def find_virtual_folders(self, path: TreePath) -> dict[str, Mount]:
        """The virtual folders right below `path`: name → the first storage mounted at or below it."""
        found: dict[str, Mount] = {}
        if path not in self.ancestors:
            return found
        for mount in self.mounts:
            if mount.path != path and mount.path.within(path):
                found.setdefault(mount.path.below(path).split("/", 2)[1], mount)
        return found


class Mounts:
    """The table in use, and the counter by which balanced mounts alternate."""

    def __init__(self) -> None:
        self.table = MountTable(-1, ())
        self._selections = count()
        self._syncing = asyncio.Lock()

    def get_next_selection(self) -> int:
        """A number that grows with every call."""
        return next(self._selections)

    async def sync(self) -> MountTable:
        """The table of the present snapshot."""
        now = await snapshot.fresh()
        if now.version != self.table.version:
            async with self._syncing:
                now = snapshot.current()  # the one read before the lock may be older than the table by now
                if now.version != self.table.version:
                    await self._apply(now)
        return self.table

    async def _apply(self, now: snapshot.Snapshot) -> None:
        running = {mount.storage.id: mount for mount in self.table.mounts}
        mounts: list[Mount] = []
        for storage in now.storages:
            if storage.disabled:
                continue
            mount = running.get(storage.id)
            if mount is not None and _is_unchanged(mount.storage, storage):
                mount.storage = storage
                running.pop(storage.id)
            else:
                mount = Mount(storage)
            mounts.append(mount)
        self.table = MountTable(now.version, mounts)
        for removed in running.values():
            await removed.stop()


def _is_unchanged(old: Storage, new: Storage) -> bool:
    """Whether a running driver serves the new record too."""
    return (old.driver, old.addition, old.mount_path, old.modified) == (
        new.driver,
        new.addition,
        new.mount_path,
        new.modified,
    )


async def ready() -> MountTable:
    """The table of the present snapshot."""
    return await runtime.get(Mounts).sync()


async def start(storage_id: int) -> str:
    """(Re)start the driver of one storage with its present record; answers the status text, which is stored."""
    await stop(storage_id)
    for mount in (await ready()).mounts:
        if mount.storage.id == storage_id:
            await _load(mount)
            return mount.status
    return DISABLED


async def stop(storage_id: int) -> None:
    """Stop a storage's driver; the next use starts it anew."""
    for mount in runtime.get(Mounts).table.mounts:
        if mount.storage.id == storage_id:
            await mount.stop()


async def load() -> None:
    """Start every storage at once and keep each one's status in its record."""
    table = await ready()
    await asyncio.gather(*(_load(mount) for mount in table.mounts))


async def _load(mount: Mount) -> None:
    try:
        await mount.get_driver()
    except Problem:
        pass  # the reason is in the status
    if mount.status != mount.storage.status:
        try:
            mount.storage = await asyncio.to_thread(storages.set_status, mount.storage.id, mount.status)
        except RecordMissing:
            pass  # removed meanwhile


async def close() -> None:
    """Stop every driver."""
    for mount in runtime.get(Mounts).table.mounts:
        await mount.stop()


def select_mount(table: MountTable, path: TreePath) -> tuple[Mount, TreePath]:
    """The mount that serves `path` this time (balanced ones alternate) and the path inside it."""
    candidates = table.find_mounts(path)
    if not candidates:
        reason = "please add a storage first" if path == "/" else f"rawPath: {path}"
        raise StorageProblem(f"storage not found; {reason}")
    mount = candidates[0]
    if len(candidates) > 1:
        mount = candidates[runtime.get(Mounts).get_next_selection() % len(candidates)]
    return mount, path.below(mount.path)


class MountResolver:
    """The `Resolver` that Alias and Crypt are given."""

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        mount, inner = select_mount(runtime.get(Mounts).table, path)
        return await mount.get_driver(), inner

    def folders(self, path: TreePath) -> Sequence[str]:
        return list(runtime.get(Mounts).table.find_virtual_folders(path))


async def get_capacity(mount: Mount) -> Capacity | None:
    """How full a mounted storage is; None when that is not known within SPACE_SECONDS."""
    try:
        async with asyncio.timeout(SPACE_SECONDS):
            driver = await mount.get_driver()
            return await driver.get_space() if isinstance(driver, Space) else None
    except (Problem, TimeoutError):
        return None
