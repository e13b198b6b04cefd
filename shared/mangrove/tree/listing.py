"""Folders as listed: read once, kept sorted, encoded row by row when a page asks, bounded in bytes.

A folder stays for the storage's cache_expiration (in the cloud no longer than a snapshot), or, where the driver does
not want a cache but can tell cheaply that a folder changed (`Stamps`), as long as its stamp is the same, and never
longer than TRUST times the time it took to read. Every write through this process drops what it touches.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from fnmatch import translate
from functools import lru_cache

import orjson

from mangrove.config import config
from mangrove.drivers import base
from mangrove.drivers.base import ChangeToken, Driver, Entry
from mangrove.paths import TreePath
from mangrove.problems import NotFound, Problem, StorageProblem
from mangrove.records.storages import Storage
from mangrove.tree.mounts import Mount

LARGEST_CACHE = 96 << 20  # bytes, estimated
ENTRY_BYTES = 320  # what one entry weighs besides its encoded row
STAMP_SECONDS = 0.05  # how long a stamp is trusted unasked
TRUST = 20.0
RACY_NS = 20_000_000  # a folder changed this shortly before it was read may have changed again unseen
VIEWS = 8  # encoded forms kept of one folder
SINGLES = 4096  # entries that were asked for by themselves and are trusted for STAMP_SECONDS

Encode = Callable[[Entry], bytes]


class View:
    """A folder as one kind of caller sees it: the visible entries and their rows, encoded on demand."""

    def __init__(self, visible: Sequence[Entry], encode: Encode) -> None:
        self.visible = visible
        self._encode = encode
        self._rows: list[bytes | None] = [None] * len(visible)

    def rows(self, start: int, stop: int) -> tuple[list[bytes], int]:
        """The encoded rows of a slice, and how many bytes of them are new."""
        grown = 0
        chosen = self._rows[start:stop]
        for index, encoded in enumerate(chosen):
            if encoded is None:
                encoded = self._encode(self.visible[start + index])
                self._rows[start + index] = chosen[index] = encoded
                grown += len(encoded) + 40
        return chosen, grown  # type: ignore[return-value]  # no None is left


class Folder:
    """One listing, sorted as its storage wants it."""

    def __init__(self, found: list[Entry], mount: Mount, stamp: int | None, seconds: float) -> None:
        self.entries = arranged(found, mount.storage)
        self.mount = mount
        self.kept = False
        self.thumbs = any(entry.thumb for entry in found)
        self.stamp = stamp
        self.asked = self.read = time.monotonic()
        self.trust = min(30.0, max(1.0, TRUST * seconds))
        self.weight = 200 + ENTRY_BYTES * len(found)
        self._views: OrderedDict[Hashable, View] = OrderedDict()
        self._by_name: dict[str, Entry] | None = None
        self._names: list[str] | None = None

    def named(self, name: str) -> Entry | None:
        """The entry of that name."""
        if self._by_name is None:
            self._by_name = {entry.name: entry for entry in self.entries}
        return self._by_name.get(name)

    def beginning(self, prefix: str) -> list[Entry]:
        """The entries whose names start with `prefix`, by name."""
        if self._names is None:
            self._names = sorted(entry.name for entry in self.entries)
        found: list[Entry] = []
        for name in self._names[bisect_left(self._names, prefix) :]:
            if not name.startswith(prefix):
                break
            entry = self.named(name)
            if entry is not None:
                found.append(entry)
        return found

    def view(self, key: Hashable, visible: Callable[[Entry], bool] | None, encode: Encode) -> View:
        """The view kept under `key`, made on first use; the least used of VIEWS goes."""
        view = self._views.get(key)
        if view is None:
            shown = self.entries if visible is None else [entry for entry in self.entries if visible(entry)]
            view = self._views[key] = View(shown, encode)
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
        self._views.move_to_end(key)
        return view


def arranged(found: list[Entry], storage: Storage) -> list[Entry]:
    """Sorted by the storage's order_by, if any, then with folders in front or at the back, if wanted."""
    keys: dict[str, Callable[[Entry], object]] = {
        "name": lambda entry: natural(entry.name),
        "size": lambda entry: entry.size,
        "modified": lambda entry: entry.modified,
    }
    if storage.order_by in keys:
        found = sorted(found, key=keys[storage.order_by], reverse=storage.order_direction == "desc")  # type: ignore[arg-type]
    if storage.extract_folder in ("front", "back"):
        front = storage.extract_folder == "front"
        found = sorted(found, key=lambda entry: entry.is_dir != front)
    return found


_digits = re.compile(r"(\d+)")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key under which `a2` comes before `a10`; letters compare with case."""
    return [
        (0, int(part), part) if part.isdecimal() and len(part) < 4000 else (1, 0, part)
        for part in _digits.split(name)
        if part
    ]


class _Reading:
    """One folder that several wait for: what was `found` serves all who asked before it was begun to be read."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.found: Folder | None = None
        self.began = 0.0


class Listings:
    """The cache: least recently used folders go when the estimate passes LARGEST_CACHE."""

    def __init__(self, largest: int = LARGEST_CACHE) -> None:
        self._largest = largest
        self._folders: OrderedDict[tuple[int, str], Folder] = OrderedDict()
        self._reading: dict[tuple[int, str], _Reading] = {}
        self._singles: dict[tuple[int, str], tuple[Mount, Entry, float]] = {}
        self._changes = 0
        self.weight = 0

    async def get(self, mount: Mount, driver: Driver, inner: TreePath, refresh: bool = False) -> Folder:
        """The folder, from the cache when it is still good; the driver's StorageProblem when it cannot be read."""
        key = (mount.storage.id, str(inner))
        if not refresh and (folder := self._folders.get(key)) and await _good(folder, mount, driver, inner):
            self._folders.move_to_end(key)
            return folder
        reading = self._reading.setdefault(key, _Reading())
        asked = time.monotonic()
        try:
            async with reading.turn:
                folder = self._folders.get(key)
                if folder is not None and folder.read >= asked:
                    return folder
                if reading.found is None or reading.found.mount is not mount or reading.began < asked:
                    began = time.monotonic()
                    reading.found, reading.began = await self._read(key, mount, driver, inner), began
                return reading.found
        finally:
            if not reading.turn.locked():
                self._reading.pop(key, None)

    async def single(self, mount: Mount, driver: Driver, inner: TreePath) -> Entry:
        """What the driver says of one entry; asked at most every STAMP_SECONDS."""
        key, asked, changes = (mount.storage.id, str(inner)), time.monotonic(), self._changes
        kept = self._singles.get(key)
        if kept is not None and kept[0] is mount and asked - kept[2] < STAMP_SECONDS:
            return kept[1]
        entry = await driver.stat(inner)
        if len(self._singles) >= SINGLES:
            self._singles.clear()
        if changes == self._changes:
            self._singles[key] = (mount, entry, asked)
        return entry

    async def _read(self, key: tuple[int, str], mount: Mount, driver: Driver, inner: TreePath) -> Folder:
        began = time.monotonic()
        before = time.time_ns()
        changes = self._changes
        stamp = await driver.get_change_token(inner) if isinstance(driver, ChangeToken) else None
        found = await base.list_all(driver, inner)
        folder = Folder(found, mount, stamp, time.monotonic() - began)
        if stamp is not None and before - stamp < RACY_NS:
            folder.stamp = None
        self._drop(key)
        if _lifetime(mount, driver, inner) > 0 and found and changes == self._changes:
            self._folders[key] = folder
            folder.kept = True
            self.weight += folder.weight
            self._shrink()
        return folder

    def weigh(self, folder: Folder, grown: int) -> None:
        """Account for `grown` more bytes in `folder` and let the oldest go."""
        if folder.kept:
            folder.weight += grown
            self.weight += grown
            self._shrink()

    def _shrink(self) -> None:
        while self.weight > self._largest and len(self._folders) > 1:
            self._drop(next(iter(self._folders)))

    def _drop(self, key: tuple[int, str]) -> None:
        folder = self._folders.pop(key, None)
        if folder is not None:
            folder.kept = False
            self.weight -= folder.weight

    def _changed(self) -> None:
        self._changes += 1
        self._singles.clear()

    def forget(self, storage_id: int, inner: TreePath) -> None:
        """Something in the folder `inner` changed; what is being read right now is not kept either."""
        self._changed()
        self._drop((storage_id, str(inner)))

    def forget_below(self, storage_id: int, inner: TreePath | None = None) -> None:
        """The folder `inner` (None: the storage) and everything below it changed."""
        self._changed()
        below = "/" if inner is None or inner == "/" else f"{inner}/"
        for key in [key for key in self._folders if key[0] == storage_id and f"{key[1]}/".startswith(below)]:
            self._drop(key)

    def clear(self) -> None:
        """Forget every folder."""
        self._changed()
        for key in list(self._folders):
            self._drop(key)


cache = Listings()


async def _good(folder: Folder, mount: Mount, driver: Driver, inner: TreePath) -> bool:
    now = time.monotonic()
    if folder.mount is not mount:
        return False
    if not isinstance(driver, ChangeToken):
        return now - folder.read < _lifetime(mount, driver, inner)
    if now - folder.asked < STAMP_SECONDS:
        return True
    if folder.stamp is None or now - folder.read > folder.trust:
        return False
    try:
        if await driver.get_change_token(inner) != folder.stamp:
            return False
    except Problem:
        return False
    folder.asked = now
    return True


def _lifetime(mount: Mount, driver: Driver, inner: TreePath) -> float:
    """Seconds for which a listing may be kept; 0 for not at all."""
    if isinstance(driver, ChangeToken):
        return 30.0
    if driver.config.no_cache:
        return 0.0
    policies = _policies(mount.storage.custom_cache_policies)
    minutes = next((one for pattern, one in policies if pattern.match(str(inner))), mount.storage.cache_expiration)
    trusted = config().snapshot_seconds  # in the cloud other functions write without our hearing of it
    return minutes * 60.0 if trusted is None or config().on_one_machine else min(minutes * 60.0, trusted)


@lru_cache(maxsize=64)
def _policies(lines: str) -> tuple[tuple[re.Pattern[str], float], ...]:
    found: list[tuple[re.Pattern[str], float]] = []
    for line in lines.splitlines():
        glob, _, minutes = line.strip().rpartition(":")
        if glob and minutes.isdecimal():
            found.append((re.compile(translate(glob)), float(minutes)))
    return tuple(found)


def explained(problem: StorageProblem, direct_lookup: bool) -> Problem:
    """A listing's failure in the words clients know (behaviour 1.4)."""
    if isinstance(problem, NotFound):
        problem = problem.with_prefix("failed get dir: failed to get obj" if direct_lookup else "failed get dir")  # type: ignore[assignment]
    elif problem.message != "not a folder" and not problem.message.startswith("storage status"):
        problem = problem.with_prefix("failed to list objs")  # type: ignore[assignment]
    return problem.with_prefix("failed get objs")


def joined(rows: list[bytes]) -> orjson.Fragment:
    """Rows as one JSON array, ready to be put into an answer."""
    return orjson.Fragment(b"[" + b",".join(rows) + b"]")
