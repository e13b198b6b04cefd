"""Listings of folders: read once, kept sorted, encoded row by row when a page asks, bounded in bytes.

A folder is kept for the storage's cache_expiration (in the cloud no longer than a snapshot), or, where the driver does
not want a cache but can tell cheaply that a folder changed (`ChangeToken`), as long as its token is the same, and never
longer than MAX_AGE_FACTOR times the time it took to read. Every write through this process drops what it touches.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from fnmatch import fnmatchcase
from functools import partial

from mangrove import runtime
from mangrove.config import config
from mangrove.drivers import base
from mangrove.drivers.base import ChangeToken, Entry
from mangrove.paths import TreePath
from mangrove.problems import NotAFolder, NotFound, Problem, StorageProblem, StorageUnavailable
from mangrove.records.storages import Storage
from mangrove.tree.mounts import Located, Mount
from mangrove.tree.shared_reads import SharedReads

LARGEST_CACHE = 96 << 20  # bytes, estimated
ENTRY_BYTES = 320  # what one entry weighs besides its encoded row
ROW_BYTES = 40  # what an encoded row weighs besides its bytes
TOKEN_SECONDS = 0.05  # how long a folder is fresh without asking for its change token
TOKEN_MAX_AGE = 30.0  # seconds that a listing is kept at most while its change token is the same
MAX_AGE_FACTOR = 20.0
RACY_NS = 20_000_000  # a folder changed this shortly before it was read may have changed again unseen
VIEWS = 8  # encoded forms kept of one folder
MAX_ENTRIES = 4096  # single entries kept, each for TOKEN_SECONDS

Encode = Callable[[Entry], bytes]
Key = tuple[int, str]


class View:
    """A folder as callers with the same rights see it: the visible entries and their rows, encoded on demand.

    `weight`: bytes of the encoded rows.
    """

    def __init__(self, visible: Sequence[Entry], encode: Encode) -> None:
        self.visible = visible
        self.weight = 0
        self._encode = encode
        self._rows: list[bytes | None] = [None] * len(visible)

    def get_rows(self, start: int, stop: int) -> list[bytes]:
        """The encoded rows of a slice."""
        rows = self._rows[start:stop]
        for index, row in enumerate(rows):
            if row is None:
                row = self._encode(self.visible[start + index])
                self._rows[start + index] = rows[index] = row
                self.weight += len(row) + ROW_BYTES
        return rows  # type: ignore[return-value]  # no None is left


class CachedFolder:
    """One listing, sorted in its storage's order.

    `token`: the change token it was read under; None when it cannot be trusted. `max_age`: seconds for which an
    unchanged token is believed. `counted`: the weight in bytes that the cache has accounted for.
    """

    def __init__(self, found: list[Entry], mount: Mount, token: int | None, seconds: float) -> None:
        self.entries = sort_entries(found, mount.storage)
        self.mount = mount
        self.is_cached = False
        self.has_thumbs = any(entry.thumb for entry in found)
        self.token = token
        self.checked_at = self.read_at = time.monotonic()
        self.max_age = min(TOKEN_MAX_AGE, max(1.0, MAX_AGE_FACTOR * seconds))
        self.counted = 0
        self._views: OrderedDict[Hashable, View] = OrderedDict()
        self._by_name: dict[str, Entry] | None = None
        self._names: list[str] | None = None

    @property
    def weight(self) -> int:
        """Bytes, estimated."""
        return 200 + ENTRY_BYTES * len(self.entries) + sum(view.weight for view in self._views.values())

    def find(self, name: str) -> Entry | None:
        """The entry of that name."""
        if self._by_name is None:
            self._by_name = {entry.name: entry for entry in self.entries}
        return self._by_name.get(name)

    def find_by_prefix(self, prefix: str) -> list[Entry]:
        """The entries whose names start with `prefix`, by name."""
        if self._names is None:
            self._names = sorted(entry.name for entry in self.entries)
        found: list[Entry] = []
        for name in self._names[bisect_left(self._names, prefix) :]:
            if not name.startswith(prefix):
                break
            entry = self.find(name)
            if entry is not None:
                found.append(entry)
        return found

    def get_view(self, key: Hashable, select: Callable[[Sequence[Entry]], Sequence[Entry]], encode: Encode) -> View:
        """The view kept under `key`, made of what `select` leaves at first use; the least used beyond VIEWS goes."""
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(select(self.entries), encode)
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(key)
        return view


def sort_entries(found: list[Entry], storage: Storage) -> list[Entry]:
    """Sorted by the storage's order_by, if any, then with folders in front or at the back, if wanted."""
    keys: dict[str, Callable[[Entry], object]] = {
        "name": lambda entry: make_natural_key(entry.name),
        "size": lambda entry: entry.size or 0,
        "modified": lambda entry: entry.modified,
    }
    if storage.order_by in keys:
        found = sorted(found, key=keys[storage.order_by], reverse=storage.order_direction == "desc")  # type: ignore[arg-type]
    if storage.extract_folder in ("front", "back"):
        front = storage.extract_folder == "front"
        found = sorted(found, key=lambda entry: entry.is_dir != front)
    return found


_digits = re.compile(r"(\d+)")


def make_natural_key(name: str) -> list[tuple[int, int, str]]:
    """A key under which `a2` comes before `a10`; letters compare with case."""
    return [
        (0, int(part), part) if part.isdecimal() and len(part) < 4000 else (1, 0, part)
        for part in _digits.split(name)
        if part
    ]


class Listings:
    """The cache: least recently used folders go when the estimate passes LARGEST_CACHE."""

    def __init__(self, largest: int = LARGEST_CACHE) -> None:
        self._largest = largest
        self._folders: OrderedDict[Key, CachedFolder] = OrderedDict()
        self._reads: SharedReads[CachedFolder] = SharedReads()
        self._entries: dict[Key, tuple[Mount, Entry, float]] = {}
        self._changes = 0
        self.weight = 0

    async def get(self, located: Located, *, refresh: bool = False) -> CachedFolder:
        """The folder, from the cache while it is fresh; the driver's StorageProblem when it cannot be read.

        One read serves all that asked before it began; if it is kept, also those that asked while it went on.
        With `refresh` nothing serves that began to be read before this call.
        """
        key = _make_key(located)
        if not refresh:
            folder = self._folders.get(key)
            if folder is not None and await _is_fresh(folder, located) and self._folders.get(key) is folder:
                self._folders.move_to_end(key)
                return folder
        return await self._reads.get(
            (located.mount, located.path),
            partial(self._read, key, located),
            lambda folder: folder.is_cached and not refresh,
        )

    async def stat(self, located: Located) -> Entry:
        """One entry as the driver describes it; asked at most every TOKEN_SECONDS."""
        key, now, changes = _make_key(located), time.monotonic(), self._changes
        kept = self._entries.get(key)
        if kept is not None and kept[0] is located.mount and now - kept[2] < TOKEN_SECONDS:
            return kept[1]
        entry = await located.driver.stat(located.path)
        if len(self._entries) >= MAX_ENTRIES:
            self._entries.clear()
        if changes == self._changes:
            self._entries[key] = (located.mount, entry, now)
        return entry

    async def _read(self, key: Key, located: Located) -> CachedFolder:
        driver = located.driver
        began = time.monotonic()
        before = time.time_ns()
        changes = self._changes
        token = await driver.get_change_token(located.path) if isinstance(driver, ChangeToken) else None
        found = await base.list_all(driver, located.path)
        folder = CachedFolder(found, located.mount, token, time.monotonic() - began)
        if token is not None and before - token < RACY_NS:
            folder.token = None
        self._drop(key)
        if _get_max_age(located) > 0 and found and changes == self._changes:
            self._folders[key] = folder
            folder.is_cached = True
            self.update_weight(folder)
        return folder

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

    def _note_change(self) -> None:
        """What is being read right now is not kept."""
        self._changes += 1
        self._entries.clear()

    def forget(self, storage_id: int, path: TreePath) -> None:
        """Drop the folder `path`, in which something changed."""
        self._note_change()
        self._drop((storage_id, str(path)))

    def forget_below(self, storage_id: int, path: TreePath | None = None) -> None:
        """Drop the folder `path` (None: the whole storage) and everything below it."""
        self._note_change()
        prefix = "/" if path is None or path == "/" else f"{path}/"
        for key in [key for key in self._folders if key[0] == storage_id and f"{key[1]}/".startswith(prefix)]:
            self._drop(key)

    def clear(self) -> None:
        """Drop every folder."""
        self._note_change()
        for key in list(self._folders):
            self._drop(key)


def listings() -> Listings:
    """The cache of this process."""
    return runtime.get(Listings)


def _make_key(located: Located) -> Key:
    return located.mount.storage.id, str(located.path)


async def _is_fresh(folder: CachedFolder, located: Located) -> bool:
    now = time.monotonic()
    if folder.mount is not located.mount:
        return False
    driver = located.driver
    if not isinstance(driver, ChangeToken):
        return now - folder.read_at < _get_max_age(located)
    if now - folder.checked_at < TOKEN_SECONDS:
        return True
    if folder.token is None or now - folder.read_at > folder.max_age:
        return False
    try:
        if await driver.get_change_token(located.path) != folder.token:
            return False
    except Problem:
        return False
    folder.checked_at = now
    return True


def _get_max_age(located: Located) -> float:
    """Seconds for which a listing may be kept; 0 for not at all."""
    if isinstance(located.driver, ChangeToken):
        return TOKEN_MAX_AGE
    if located.driver.config.no_cache:
        return 0.0
    seconds = _get_cache_minutes(located.mount.storage, located.path) * 60.0
    trusted = config().snapshot_seconds  # in the cloud other functions write, and nothing reports that here
    return seconds if trusted is None or config().on_one_machine else min(seconds, trusted)


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
    if isinstance(problem, NotFound):
        explained = problem.with_prefix("failed get dir: failed to get obj" if direct_lookup else "failed get dir")
    elif not isinstance(problem, NotAFolder | StorageUnavailable):
        explained = problem.with_prefix("failed to list objs")
    return explained.with_prefix("failed get objs")
