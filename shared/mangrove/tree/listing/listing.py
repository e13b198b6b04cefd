"""Listings of folders: read once, sorted and in columns, encoded page by page, limited by their weight.

A listing is cached for the storage's cache_expiration, in the cloud no longer than a snapshot. If a driver has no cache
but can tell cheaply whether a folder changed (`ChangeToken`), the listing is cached while its token is the same, but at
most MAX_AGE_FACTOR times the time it took to read. Every write on this machine drops the listings that it affects.

A storage that lists in pages (`find_paged`) is read page by page if that is enough.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from mangrove.core import deadlines, runtime
from mangrove.core.chunked import CHUNK_ITEMS
from mangrove.core.config import config
from mangrove.core.metrics import LISTINGS
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, Problem, TooLarge
from mangrove.core.runtime import BoundedCache
from mangrove.core.shared_memory import metrics
from mangrove.core.telemetry import open_span
from mangrove.drivers.base import ROOT, Driver, Entry, PageSource
from mangrove.records.storages import Storage
from mangrove.tree.listing.columns import Columns, ReadDetails
from mangrove.tree.listing.folder import (
    CachedFolder,
    Stamp,
    count_change_of_all,
    count_folder_changes,
    count_tree_changes,
    make_folder,
    read_total_changes,
    read_tree_changes,
)
from mangrove.tree.listing.paged_folder import PAGE_STARTS_SECONDS, PagedFolder
from mangrove.tree.listing.shared_reads import SharedReads
from mangrove.tree.mount_table import FolderKey
from mangrove.tree.mounts import Mount, Mounts, StoragePath

MAX_CACHE_BYTES = 96 << 20
TOKEN_SECONDS = 0.05  # for which a folder is fresh without reading its change token
MAX_TOKEN_SECONDS = 30.0  # for which a listing is cached while its change token is the same
MAX_AGE_FACTOR = 20.0
RACY_NANOSECONDS = 20_000_000  # a folder that changed so shortly before it was read may have changed again unnoticed
MAX_SINGLE_ENTRIES = 4096  # each for TOKEN_SECONDS
MAX_PAGED_FOLDERS = 32
MAX_SORTED_ENTRIES = 100_000  # of a folder that is read as a whole although its storage lists in pages


class _SingleEntry(NamedTuple):
    """An entry that was looked up by itself."""

    mount: Mount
    entry: Entry | None  # None if there was none
    read_at: float  # of the monotonic clock
    changes: int  # `read_total_changes` before it was read
    tree_changes: int  # `read_tree_changes` before it was read


class Listings:
    """The cache of the most recently used folders: as many as fit into `max_bytes`, and always the last one."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._folders: OrderedDict[FolderKey, CachedFolder] = OrderedDict()
        self._paged: BoundedCache[FolderKey, PagedFolder] = BoundedCache(MAX_PAGED_FOLDERS)
        self._reads: SharedReads[CachedFolder] = SharedReads()
        self._first_reads: SharedReads[CachedFolder | PagedFolder] = SharedReads()
        self._entries: BoundedCache[FolderKey, _SingleEntry] = BoundedCache(MAX_SINGLE_ENTRIES)
        self._observers: list[Callable[[StoragePath, CachedFolder], None]] = []
        self.weight = 0  # bytes

    def add_observer(self, observe: Callable[[StoragePath, CachedFolder], None]) -> None:
        """Call `observe` with each folder that is read and did not change meanwhile. It must not block."""
        self._observers.append(observe)

    async def get(
        self, storage_path: StoragePath, *, refresh: bool = False, max_entries: int | None = None
    ) -> CachedFolder:
        """Return the folder, from the cache while it is fresh. Raise StorageProblem if it cannot be read.

        Concurrent callers share a read that starts after their calls; if the listing is cached, also one that runs
        already. With `refresh` the read starts after this call.

        Raise TooLarge for a folder with more than `max_entries` that is read.
        """
        fresh = None if refresh else await self.find_fresh(storage_path)
        metrics().count(LISTINGS, "miss" if fresh is None else "hit")
        if fresh is not None:
            return fresh
        return await self._reads.get(
            (storage_path.mount, storage_path.path, max_entries),
            partial(self._read, storage_path, max_entries),
            lambda folder: folder.is_cached and not refresh,
        )

    async def find_fresh(self, storage_path: StoragePath) -> CachedFolder | None:
        """Return the cached folder while it is fresh."""
        key = _make_key(storage_path)
        folder = self._folders.get(key)
        # the check of its freshness takes a while; meanwhile it may have changed or been dropped
        if folder is None or not await _is_fresh(folder, storage_path) or self._folders.get(key) is not folder:
            return None
        if not folder.stamp.is_current():
            self._drop(key)
            return None
        self._folders.move_to_end(key)
        return folder

    async def wait_for_reads(self, seconds: float) -> None:
        """Wait until the folders are read that are being read for callers, at most `seconds`."""
        await self._reads.wait(seconds)

    async def open(
        self, storage_path: StoragePath, *, in_pages: bool, refresh: bool = False
    ) -> CachedFolder | PagedFolder:
        """Return the folder as `get` does, or its pages if the storage lists it in several pages.

        Pages are returned if they are enough (`in_pages`), or if it has more than MAX_SORTED_ENTRIES entries.
        """
        place = await storage_path.driver.find_paged(storage_path.path)
        if place is None:
            return await self.get(storage_path, refresh=refresh)
        fresh = None if refresh else await self.find_fresh(storage_path)
        if fresh is not None:
            return fresh
        paged = self._find_paged(storage_path, place)
        if paged is not None and refresh:
            paged.forget_entries()
        if not in_pages and (paged is None or not paged.is_large):
            try:
                return await self.get(storage_path, refresh=refresh, max_entries=MAX_SORTED_ENTRIES)
            except TooLarge:
                folder = await self.open(storage_path, in_pages=True)
                if isinstance(folder, PagedFolder):
                    folder.is_large = True
                return folder
        return paged or await self._first_reads.get(
            (storage_path.mount, storage_path.path),
            partial(self._read_first_page, storage_path, place),
            lambda folder: folder.is_cached and not refresh,
        )

    def _find_paged(self, storage_path: StoragePath, place: PageSource) -> PagedFolder | None:
        key = _make_key(storage_path)
        paged = self._paged.get(key)
        if paged is None:
            return None
        is_same = paged.mount is storage_path.mount and paged.place == place
        if not is_same or time.monotonic() - paged.began_at > PAGE_STARTS_SECONDS:
            self._paged.remove(key)
            return None
        return paged

    async def stat(self, storage_path: StoragePath) -> Entry:
        """Return an entry as the driver describes it. The driver is called at most once in TOKEN_SECONDS for it."""
        cached = self._find_single(storage_path)
        if cached is not None and cached.entry is not None:
            return cached.entry
        return await self._look_up(storage_path)

    async def find_recent(self, storage_path: StoragePath) -> Entry | None:
        """Return an entry as `find_folder` or `stat` does, None if there was none in the last TOKEN_SECONDS.

        A program beside this service may have made one since. Callers whose driver refuses an existing name may use it.
        """
        folder = self.find_folder(storage_path)
        if folder is not None:
            return folder
        cached = self._find_single(storage_path)
        if cached is not None:
            return cached.entry
        try:
            return await self._look_up(storage_path)
        except EntryNotFound:
            return None

    def find_folder(self, storage_path: StoragePath) -> Entry | None:
        """Return a folder that was looked up in the last TOKEN_SECONDS, if no folder was moved or removed since.

        It may have another time: it can have a new entry.
        """
        cached = self._get_single(storage_path)
        if cached is None or cached.tree_changes != read_tree_changes():
            return None
        return cached.entry if cached.entry is not None and cached.entry.is_dir else None

    def _find_single(self, storage_path: StoragePath) -> _SingleEntry | None:
        cached = self._get_single(storage_path)
        return cached if cached is not None and cached.changes == read_total_changes() else None

    def _get_single(self, storage_path: StoragePath) -> _SingleEntry | None:
        cached = self._entries.get(_make_key(storage_path))
        if cached is None or cached.mount is not storage_path.mount:
            return None
        return cached if time.monotonic() - cached.read_at < TOKEN_SECONDS else None

    async def _look_up(self, storage_path: StoragePath) -> Entry:
        key, mount = _make_key(storage_path), storage_path.mount
        single = _SingleEntry(mount, None, time.monotonic(), read_total_changes(), read_tree_changes())
        try:
            entry = await storage_path.driver.stat(storage_path.path)
        except EntryNotFound:
            self._entries.put(key, single)
            raise
        self._entries.put(key, single._replace(entry=entry))
        return entry

    async def _read(self, storage_path: StoragePath, max_entries: int | None) -> CachedFolder:
        folder = await _read_folder(storage_path, max_entries)
        self._add(storage_path, folder)
        return folder

    async def _read_first_page(self, storage_path: StoragePath, place: PageSource) -> CachedFolder | PagedFolder:
        """Return the folder with its first page, or as a whole if it has only one page."""
        key = _make_key(storage_path)
        stamp = Stamp(key)
        paged = PagedFolder(key, place, storage_path.mount, _get_max_age(storage_path))
        page = await place.driver.list_page(place.path)
        columns = await paged.start_with(page)
        if not page.next_start:
            folder = await make_folder(columns, storage_path.mount, None, MAX_TOKEN_SECONDS, stamp)
            self._add(storage_path, folder)
            return folder
        paged.is_cached = stamp.is_current()
        self._paged.put(key, paged)
        return paged

    def _add(self, storage_path: StoragePath, folder: CachedFolder) -> None:
        key = _make_key(storage_path)
        self._drop(key)
        if not folder.stamp.is_current():
            return
        if _get_max_age(storage_path) > 0 and len(folder.entries):
            self._folders[key] = folder
            folder.is_cached = True
            self.update_weight(folder)
        for observe in self._observers:
            observe(storage_path, folder)

    def update_weight(self, folder: CachedFolder) -> None:
        """Count the present weight of a folder, and drop the oldest while the total is too large."""
        if folder.is_cached:
            weight = folder.weight
            self.weight += weight - folder.counted_weight
            folder.counted_weight = weight
            while self.weight > self._max_bytes and len(self._folders) > 1:
                self._drop(next(iter(self._folders)))

    def _drop(self, key: FolderKey) -> None:
        folder = self._folders.pop(key, None)
        if folder is not None:
            folder.is_cached = False
            self.weight -= folder.counted_weight
            folder.counted_weight = 0

    def forget(self, storage_id: int, *paths: TreePath) -> None:
        """Drop changed folders, in all storages to which they lead."""
        table = runtime.get(Mounts).table
        keys = {key for path in paths for key in table.follow_redirects(storage_id, path)}
        count_folder_changes(keys)
        for key in keys:
            self._drop(key)

    def forget_below(self, storage_id: int, path: TreePath = ROOT) -> None:
        """Drop a folder and everything below it, in all storages to which it leads."""
        keys = runtime.get(Mounts).table.follow_redirects(storage_id, path)
        count_tree_changes(keys)
        prefixes = [(id, "/" if folder == "/" else f"{folder}/") for id, folder in keys]

        def is_below(key: FolderKey) -> bool:
            return any(key[0] == id and f"{key[1]}/".startswith(prefix) for id, prefix in prefixes)

        for key in [key for key in self._folders if is_below(key)]:
            self._drop(key)
        self._paged.remove_all(lambda key, _: is_below(key))

    def clear(self) -> None:
        """Drop every folder."""
        count_change_of_all()
        for key in list(self._folders):
            self._drop(key)
        self._paged.clear()


async def _read_folder(storage_path: StoragePath, max_entries: int | None) -> CachedFolder:
    driver, stamp = storage_path.driver, Stamp(_make_key(storage_path))
    began_at = time.monotonic()
    began_at_ns = time.time_ns()
    token = await driver.get_change_token(storage_path.path) if driver.capabilities.get_change_token else None
    with open_span(f"list {driver.name}"):
        columns = await _collect_names(driver, storage_path.path, max_entries)
    if token is not None and began_at_ns - token < RACY_NANOSECONDS:
        token = None
    max_age = min(MAX_TOKEN_SECONDS, max(1.0, MAX_AGE_FACTOR * (time.monotonic() - began_at)))
    return await make_folder(columns, storage_path.mount, token, max_age, stamp)


async def _collect_names(driver: Driver, path: TreePath, max_entries: int | None) -> Columns:
    """Return all entries of a folder. Sizes and times may be read later, when rows need them."""
    if not driver.capabilities.list_names:
        return await collect_entries(driver.list(path), max_entries)
    return await collect_entries(driver.list_names(path), max_entries, partial(driver.read_details, path))


async def collect_entries(
    batches: AsyncIterator[Sequence[Entry]], max_entries: int | None = None, read: ReadDetails | None = None
) -> Columns:
    """Return all entries of a listing. Raise TooLarge for more than `max_entries`."""
    columns = Columns(read)
    async for batch in batches:
        deadlines.check()
        for start in range(0, len(batch), CHUNK_ITEMS):
            if start:
                await asyncio.sleep(0)
            columns.extend(batch[start : start + CHUNK_ITEMS])
        if max_entries is not None and len(columns) > max_entries:
            raise TooLarge(f"this folder has more than {max_entries} entries: ask for pages of it with per_page")
    columns.freeze()
    return columns


def listings() -> Listings:
    """Return the cache of this process."""
    return runtime.get(Listings)


def _make_key(storage_path: StoragePath) -> FolderKey:
    return storage_path.mount.storage.id, str(storage_path.path)


async def _is_fresh(folder: CachedFolder, storage_path: StoragePath) -> bool:
    now = time.monotonic()
    if folder.mount is not storage_path.mount:
        return False
    driver = storage_path.driver
    if not driver.capabilities.get_change_token:
        return now - folder.read_at < _get_max_age(storage_path)
    if now - folder.checked_at < TOKEN_SECONDS:
        return True
    if folder.token is None or now - folder.read_at > folder.max_age:
        return False
    try:
        if await driver.get_change_token(storage_path.path) != folder.token:
            return False
    except Problem:
        return False
    folder.checked_at = now
    return True


def _get_max_age(storage_path: StoragePath) -> float:
    """Return the seconds for which a listing may be cached; 0 disables the cache."""
    if storage_path.driver.capabilities.get_change_token:
        return MAX_TOKEN_SECONDS
    if storage_path.driver.config.no_cache:
        return 0.0
    seconds = _get_cache_minutes(storage_path.mount.storage, storage_path.path) * 60.0
    limit = config().snapshot_seconds  # in the cloud other functions write without notifying this one
    return seconds if limit is None or platform().reports_changes else min(seconds, limit)


def _get_cache_minutes(storage: Storage, path: TreePath) -> float:
    """Return the minutes of the first matching `glob:minutes` line of the storage, else its cache_expiration."""
    for line in storage.custom_cache_policies.splitlines():
        glob, _, minutes = line.strip().rpartition(":")
        if glob and minutes.isdecimal() and fnmatchcase(str(path), glob):
            return float(minutes)
    return float(storage.cache_expiration)
