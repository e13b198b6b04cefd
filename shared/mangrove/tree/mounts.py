"""The storages as mounted: which one holds a path, and the drivers that run for them.

The table follows the snapshot: `ready()` compares the two and starts or stops what differs, so a change made
by another function or process reaches this one with its next snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import count

from mangrove.drivers import registry
from mangrove.drivers.base import Capacity, Driver, DriverContext, Options, Space
from mangrove.paths import TreePath
from mangrove.problems import Problem, StorageProblem
from mangrove.records import storages
from mangrove.records.base import RecordMissing
from mangrove.records.storages import Storage
from mangrove.site import snapshot
from mangrove.telemetry import log_exception

WORKING, DISABLED = "work", "disabled"
START_SECONDS = 30.0  # a storage that takes longer to start counts as failed
SPACE_SECONDS = 1.0
BALANCE = ".balance"


@dataclass(slots=True)
class Mount:
    """One enabled storage in the tree. `path` is where it is seen: the mount path without `.balance…`."""

    storage: Storage
    path: TreePath
    driver: Driver | None = None
    status: str = ""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def running(self) -> Driver:
        """The driver, started at the first call. Problem when it cannot run."""
        if self.driver is None:
            async with self.starting:
                if self.driver is None:
                    await self._start()
        assert self.driver is not None
        if self.status != WORKING and self.driver.config.check_status:
            raise StorageProblem(f"storage status: {self.status}: storage not init")
        return self.driver

    async def _start(self) -> None:
        try:
            kind = registry.load(self.storage.driver)
            driver = kind(kind.Options.parse(self.storage.addition), _mounting(self))
        except Problem as problem:
            self.status = escape(problem.message, quote=False)
            raise StorageProblem(f"storage status: {self.status}: storage not init") from None
        self.status = await _started(driver)
        self.driver = driver

    async def stop(self) -> None:
        if self.driver is not None:
            driver, self.driver = self.driver, None
            await driver.stop()


async def _started(driver: Driver) -> str:
    try:
        async with asyncio.timeout(START_SECONDS):
            await driver.start()
    except Problem as problem:
        return escape(problem.message, quote=False)  # clients show a status as HTML
    except TimeoutError:
        return f"the storage did not answer within {START_SECONDS:.0f} s"
    except Exception:  # a library's surprise must not take the other storages along
        log_exception("driver failed to start", driver=driver.name)
        return "the driver failed to start, see the log"
    return WORKING


def _mounting(mount: Mount) -> DriverContext:
    def stored(addition: str) -> None:
        mount.storage = storages.replace_addition(mount.storage.id, mount.storage.addition, addition)

    async def save_options(options: Options) -> None:
        await asyncio.to_thread(stored, options.model_dump_json())
        await ready()  # before the driver's next change: a table that follows later would take this one for another's

    return DriverContext(
        mount_path=mount.path,
        modified=mount.storage.modified.timestamp(),
        resolver=MountResolver(),
        save_options=save_options,
    )


class MountTable:
    """All mounts of one snapshot version, in the order of `order`, then mount path."""

    def __init__(self, version: int, mounts: Sequence[Mount]) -> None:
        self.version = version
        self.mounts = sorted(mounts, key=lambda mount: (mount.storage.order, mount.storage.mount_path))
        self.by_path: dict[str, list[Mount]] = {}
        for mount in sorted(mounts, key=lambda mount: mount.storage.mount_path):
            self.by_path.setdefault(mount.path, []).append(mount)
        self.above: set[str] = {folder for path in self.by_path for folder in TreePath(path).ancestors()[1:]}

    def group(self, path: TreePath) -> list[Mount]:
        """The mounts with the longest path that holds `path`; empty when none does."""
        for folder in path.ancestors():
            if folder in self.by_path:
                return self.by_path[folder]
        return []

    def folders(self, path: TreePath) -> dict[str, Mount]:
        """The virtual folders right below `path`: name → the first storage mounted at or below it."""
        found: dict[str, Mount] = {}
        if path not in self.above:
            return found
        for mount in self.mounts:
            if mount.path != path and mount.path.within(path):
                found.setdefault(mount.path.below(path).split("/", 2)[1], mount)
        return found


_table = MountTable(-1, ())
_turn = count()
_syncing = asyncio.Lock()


async def ready() -> MountTable:
    """The table of the present snapshot."""
    now = await snapshot.fresh()
    if now.version != _table.version:
        async with _syncing:
            now = snapshot.current()  # the one we came with may be behind the table by now
            if now.version != _table.version:
                await _follow(now)
    return _table


async def _follow(now: snapshot.Snapshot) -> None:
    global _table
    running = {mount.storage.id: mount for mount in _table.mounts}
    mounts: list[Mount] = []
    for storage in now.storages:
        if storage.disabled:
            continue
        mount = running.get(storage.id)
        if mount is not None and _same(mount.storage, storage):
            mount.storage = storage
            running.pop(storage.id)
        else:
            mount = Mount(storage, _shown(storage.mount_path))
        mounts.append(mount)
    _table = MountTable(now.version, mounts)
    for gone in running.values():
        await gone.stop()


def _same(old: Storage, new: Storage) -> bool:
    """Whether a running driver serves the new record too."""
    return (old.driver, old.addition, old.mount_path, old.modified) == (
        new.driver,
        new.addition,
        new.mount_path,
        new.modified,
    )


def _shown(mount_path: str) -> TreePath:
    return TreePath(mount_path.partition(BALANCE)[0])


async def start(storage_id: int) -> str:
    """(Re)start the driver of one storage with its present record; answers the status text, which is stored."""
    await stop(storage_id)
    for mount in (await ready()).mounts:
        if mount.storage.id == storage_id:
            await _load(mount)
            return mount.status
    return DISABLED


async def stop(storage_id: int) -> None:
    """Let go of a storage's driver; the next use starts it anew."""
    for mount in _table.mounts:
        if mount.storage.id == storage_id:
            await mount.stop()


async def load() -> None:
    """Start every storage at once and keep each one's status in its record."""
    table = await ready()
    await asyncio.gather(*(_load(mount) for mount in table.mounts))


async def _load(mount: Mount) -> None:
    try:
        await mount.running()
    except Problem:
        pass  # the status says it
    if mount.status != mount.storage.status:
        try:
            mount.storage = await asyncio.to_thread(storages.set_status, mount.storage.id, mount.status)
        except RecordMissing:
            pass  # removed meanwhile


async def close() -> None:
    """Stop every driver."""
    for mount in _table.mounts:
        await mount.stop()


def pick(table: MountTable, path: TreePath) -> tuple[Mount, TreePath]:
    """The mount that serves `path` this time (balanced ones take turns) and the path inside it."""
    group = table.group(path)
    if not group:
        where = "please add a storage first" if path == "/" else f"rawPath: {path}"
        raise StorageProblem(f"storage not found; {where}")
    mount = group[0] if len(group) == 1 else group[next(_turn) % len(group)]
    return mount, path.below(mount.path)


class MountResolver:
    """The opener of Alias and Crypt."""

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        mount, inner = pick(_table, path)
        return await mount.running(), inner

    def folders(self, path: TreePath) -> Sequence[str]:
        return list(_table.folders(path))


async def details(mount: Mount) -> Capacity | None:
    """How full a mounted storage is; None when it cannot say so in SPACE_SECONDS."""
    try:
        async with asyncio.timeout(SPACE_SECONDS):
            driver = await mount.running()
            return await driver.get_space() if isinstance(driver, Space) else None
    except (Problem, TimeoutError):
        return None
