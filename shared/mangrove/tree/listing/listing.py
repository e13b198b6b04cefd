"""Listings of folders: read once, kept sorted and in columns, encoded when a page asks, bounded by what they weigh.

A folder is kept for the storage's cache_expiration (in the cloud no longer than a snapshot), or, where the driver does
not want a cache but can tell cheaply that a folder changed (`ChangeToken`), as long as its token is the same, and never
longer than MAX_AGE_FACTOR times the time it took to read. Every write on this machine drops what it touches.

Of a storage that lists in pages (`find_paged`) a folder of several is read page by page where that is enough.
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
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, NotAFolder, Problem, StorageProblem, StorageUnavailable, TooLarge
from mangrove.drivers.base import ROOT, Entry, PageSource
from mangrove.records.storages import Storage
from mangrove.tree.listing.columns import Columns
from mangrove.tree.listing.folder import CachedFolder, make_folder
from mangrove.tree.listing.folder_changes import Key, Stamp, note_every_folder, note_folders, note_trees, read_total
from mangrove.tree.listing.paged_folder import MARKS_SECONDS, PagedFolder
from mangrove.tree.listing.shared_reads import SharedReads
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.places import find_places

LARGEST_CACHE = 96 << 20  # bytes
TOKEN_SECONDS = 0.05  # how long a folder is fresh without asking for its change token
TOKEN_MAX_AGE = 30.0  # seconds that a listing is kept at most while its change token is the same
MAX_AGE_FACTOR = 20.0
RACY_NS = 20_000_000  # a folder changed this shortly before it was read may have changed again unseen
MAX_ENTRIES = 4096  # single entries kept, each for TOKEN_SECONDS
MOST_PAGED = 32  # folders of which single pages are kept
LARGEST_SORTED = 100_000  # entries of a folder that is read as a whole though its storage lists in pages


class _KnownEntry(NamedTuple):
    """`read_at`: of the monotonic clock; `changes`: what `read_total` said before it was read."""

    mount: Mount
    entry: Entry
    read_at: float
    changes: int


class Listings:
    """The cache: the folders that were used last, as many as LARGEST_CACHE holds, and the last one in any case."""

    def __init__(self, largest: int = LARGEST_CACHE) -> None:
        self._largest = largest
        self._folders: OrderedDict[Key, CachedFolder] = OrderedDict()
        self._paged: OrderedDict[Key, PagedFolder] = OrderedDict()
        self._reads: SharedReads[CachedFolder] = SharedReads()
        self._first_reads: SharedReads[CachedFolder | PagedFolder] = SharedReads()
        self._entries: dict[Key, _KnownEntry] = {}
        self._observers: list[Callable[[StoragePath, CachedFolder], None]] = []
        self.weight = 0

    def add_observer(self, observe: Callable[[StoragePath, CachedFolder], None]) -> None:
        """Tell of each folder that is read, and in which nothing changed meanwhile; the call returns at once."""
        self._observers.append(observe)

    async def get(self, storage_path: StoragePath, *, refresh: bool = False, most: int | None = None) -> CachedFolder:
        """The folder, from the cache while it is fresh; the driver's StorageProblem when it cannot be read.

        One read serves all that asked before it began; if it is kept, also those that asked while it went on.
        With `refresh` nothing serves that began to be read before this call. TooLarge when it has to be read and has
        more than `most` entries.
        """
        kept = None if refresh else await self.find_fresh(storage_path)
        if kept is not None:
            return kept
        return await self._reads.get(
            (storage_path.mount, storage_path.path, most),
            partial(self._read, storage_path, most),
            lambda folder: folder.is_cached and not refresh,
        )

    async def find_fresh(self, storage_path: StoragePath) -> CachedFolder | None:
        """The folder as it is kept, while it is fresh."""
        key = _make_key(storage_path)
        folder = self._folders.get(key)
        # asking whether it is fresh takes a while, in which it may have changed or been dropped
        if folder is None or not await _is_fresh(folder, storage_path) or self._folders.get(key) is not folder:
            return None
        if not folder.stamp.is_current():
            self._drop(key)
            return None
        self._folders.move_to_end(key)
        return folder

    async def open(
        self, storage_path: StoragePath, *, in_pages: bool, refresh: bool = False
    ) -> CachedFolder | PagedFolder:
        """The folder as `get` answers it, unless its storage lists it in several pages: then its pages, where these
        are enough (`in_pages`) or it has more than LARGEST_SORTED entries."""
        place = await storage_path.driver.find_paged(storage_path.path)
        if place is None:
            return await self.get(storage_path, refresh=refresh)
        kept = None if refresh else await self.find_fresh(storage_path)
        if kept is not None:
            return kept
        paged = self._find_paged(storage_path, place)
        if paged is not None and refresh:
            paged.forget_entries()
        if not in_pages and (paged is None or not paged.is_large):
            try:
                return await self.get(storage_path, refresh=refresh, most=LARGEST_SORTED)
            except TooLarge:
                folder = await self.open(storage_path, in_pages=True)
                if isinstance(folder, PagedFolder):
                    folder.is_large = True
                return folder
        return paged or await self._first_reads.get(
            (storage_path.mount, storage_path.path),
            partial(self._read_first, storage_path, place),
            lambda folder: folder.is_cached and not refresh,
        )

    def _find_paged(self, storage_path: StoragePath, place: PageSource) -> PagedFolder | None:
        key = _make_key(storage_path)
        paged = self._paged.get(key)
        if paged is None:
            return None
        if (
            paged.mount is not storage_path.mount
            or paged.place != place
            or time.monotonic() - paged.began_at > MARKS_SECONDS
        ):
            del self._paged[key]
            return None
        self._paged.move_to_end(key)
        return paged

    async def stat(self, storage_path: StoragePath) -> Entry:
        """One entry as the driver describes it; asked at most every TOKEN_SECONDS."""
        key, now, changes = _make_key(storage_path), time.monotonic(), read_total()
        kept = self._entries.get(key)
        is_same = kept is not None and kept.mount is storage_path.mount and kept.changes == changes
        if kept is not None and is_same and now - kept.read_at < TOKEN_SECONDS:
            return kept.entry
        entry = await storage_path.driver.stat(storage_path.path)
        if len(self._entries) >= MAX_ENTRIES:
            self._entries.clear()
        self._entries[key] = _KnownEntry(storage_path.mount, entry, now, changes)
        return entry

    async def _read(self, storage_path: StoragePath, most: int | None) -> CachedFolder:
        folder = await _read_folder(storage_path, most)
        self._keep(storage_path, folder)
        return folder

    async def _read_first(self, storage_path: StoragePath, place: PageSource) -> CachedFolder | PagedFolder:
        """The folder, of which there is nothing yet but the first page."""
        key = _make_key(storage_path)
        stamp = Stamp(key)
        paged = PagedFolder(key, place, storage_path.mount, _get_max_age(storage_path))
        page = await place.driver.list_page(place.path)
        columns = await paged.start_with(page)
        if not page.next_start:
            folder = await make_folder(columns, storage_path.mount, None, TOKEN_MAX_AGE, stamp)
            self._keep(storage_path, folder)
            return folder
        paged.is_cached = stamp.is_current()
        self._paged[key] = paged
        if len(self._paged) > MOST_PAGED:
            self._paged.popitem(last=False)
        return paged

    def _keep(self, storage_path: StoragePath, folder: CachedFolder) -> None:
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
        """Account for what `folder` weighs now and drop the oldest while all weigh too much."""
        if folder.is_cached:
            weight = folder.weight
            self.weight += weight - folder.counted
            folder.counted = weight
            while self.weight > self._largest and len(self._folders) > 1:
                self._drop(next(iter(self._folders)))

    def _drop(self, key: Key) -> None:
        folder = self._folders.pop(key, None)
        if folder is not None:
            folder.is_cached = False
            self.weight -= folder.counted
            folder.counted = 0

    def forget(self, storage_id: int, path: TreePath) -> None:
        """Drop the folder `path`, in which something changed, wherever it is shown."""
        keys = find_places(storage_id, path)
        note_folders(keys)
        for key in keys:
            self._drop(key)

    def forget_below(self, storage_id: int, path: TreePath = ROOT) -> None:
        """Drop the folder `path` and everything below it, wherever they are shown."""
        keys = find_places(storage_id, path)
        note_trees(keys)
        places = [(id, "/" if place == "/" else f"{place}/") for id, place in keys]

        def is_below(key: Key) -> bool:
            return any(key[0] == id and f"{key[1]}/".startswith(prefix) for id, prefix in places)

        for key in [key for key in self._folders if is_below(key)]:
            self._drop(key)
        for key in [key for key in self._paged if is_below(key)]:
            del self._paged[key]

    def clear(self) -> None:
        """Drop every folder."""
        note_every_folder()
        for key in list(self._folders):
            self._drop(key)
        self._paged.clear()


async def _read_folder(storage_path: StoragePath, most: int | None) -> CachedFolder:
    driver, stamp = storage_path.driver, Stamp(_make_key(storage_path))
    began = time.monotonic()
    before = time.time_ns()
    token = await driver.get_change_token(storage_path.path) if driver.capabilities.get_change_token else None
    columns = await collect_entries(driver.list(storage_path.path), most)
    if token is not None and before - token < RACY_NS:
        token = None
    max_age = min(TOKEN_MAX_AGE, max(1.0, MAX_AGE_FACTOR * (time.monotonic() - began)))
    return await make_folder(columns, storage_path.mount, token, max_age, stamp)


async def collect_entries(batches: AsyncIterator[Sequence[Entry]], most: int | None = None) -> Columns:
    """All entries of a listing; TooLarge when they are more than `most`."""
    columns = Columns()
    async for batch in batches:
        deadlines.check()
        for start in range(0, len(batch), CHUNK_ITEMS):
            if start:
                await asyncio.sleep(0)
            columns.extend(batch[start : start + CHUNK_ITEMS])
        if most is not None and len(columns) > most:
            raise TooLarge(f"this folder has more than {most} entries: ask for pages of it with per_page")
    columns.freeze()
    return columns


def listings() -> Listings:
    """The cache of this process."""
    return runtime.get(Listings)


def _make_key(storage_path: StoragePath) -> Key:
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
    """Seconds for which a listing may be kept; 0 for not at all."""
    if storage_path.driver.capabilities.get_change_token:
        return TOKEN_MAX_AGE
    if storage_path.driver.config.no_cache:
        return 0.0
    seconds = _get_cache_minutes(storage_path.mount.storage, storage_path.path) * 60.0
    trusted = config().snapshot_seconds  # in the cloud other functions write, and nothing reports that here
    return seconds if trusted is None or platform().reports_changes else min(seconds, trusted)


def _get_cache_minutes(storage: Storage, path: TreePath) -> float:
    """What the first of the storage's `glob:minutes` lines that matches says, else its cache_expiration."""
    for line in storage.custom_cache_policies.splitlines():
        glob, _, minutes = line.strip().rpartition(":")
        if glob and minutes.isdecimal() and fnmatchcase(str(path), glob):
            return float(minutes)
    return float(storage.cache_expiration)


def explain_list_failure(problem: StorageProblem, direct_lookup: bool) -> Problem:
    """A listing's failure in the words clients know (behaviour 1.4)."""
    explained: Problem = problem
    if isinstance(problem, EntryNotFound):
        explained = problem.with_prefix("failed get dir: failed to get obj" if direct_lookup else "failed get dir")
    elif not isinstance(problem, NotAFolder | StorageUnavailable):
        explained = problem.with_prefix("failed to list objs")
    return explained.with_prefix("failed get objs")
