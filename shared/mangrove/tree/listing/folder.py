"""One listing: its entries in the order of their storage, by name and as callers select them, and encoded pages.

A stamp shows if a folder changed since it was read, in any process of this machine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from mangrove.core.chunked import PendingRows
from mangrove.core.concurrency import compute_pools
from mangrove.core.runtime import BoundedCache
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.drivers.base import Entry
from mangrove.tree.listing.columns import Columns, Selection, encode_name
from mangrove.tree.listing.orders import SortOrder, sort_by_name, sort_columns
from mangrove.tree.mount_table import FolderKey
from mangrove.tree.mounts import Mount

ROWS_PER_CHUNK = 512  # encoded in one call
MAX_WHOLE_ROWS = 4096  # of an answer that is encoded as a whole; a longer one is encoded while it is sent
MAX_SELECTIONS = 8  # of a folder in addition to all entries in the order of its storage: four bytes per entry
MAX_ROW_BYTES = 16 << 20  # of the encoded pages of a folder
FOLDER_BYTES = 1200  # weight of a folder without its columns
SELECTION_BYTES = 400
PAGE_BYTES = 500  # weight of a cached page without its rows

Encode = Callable[[Sequence[Entry]], bytes]


def _make_row_cache() -> BoundedCache[Hashable, bytes]:
    """Return a cache of encoded pages."""
    return BoundedCache(MAX_ROW_BYTES, lambda page: sys.getsizeof(page) + PAGE_BYTES)


@dataclass(slots=True)
class View:
    """Entries with the format of their rows. Rows are JSON objects, separated by commas."""

    entries: Selection
    encode: Encode
    cache: BoundedCache[Hashable, bytes] = field(default_factory=_make_row_cache)
    key: Hashable = None  # in the cache: equal for views with the same rows

    async def get_content(self, *pieces: tuple[int, int] | bytes) -> orjson.Fragment | PendingRows:
        """Join ranges of the view and encoded rows. If there are many rows, they are encoded while they are sent.

        Raise StorageProblem if sizes and times that rows lack cannot be read.
        """
        ranges = [piece for piece in pieces if not isinstance(piece, bytes)]
        for start, stop in ranges:
            if self.cache.get((self.key, start, stop)) is None:
                await self.entries.read_details(start, stop)
        if sum(stop - start for start, stop in ranges) > MAX_WHOLE_ROWS:
            return PendingRows(self._stream(pieces))
        return join_rows(*[piece if isinstance(piece, bytes) else await self._get_rows(*piece) for piece in pieces])

    async def _get_rows(self, start: int, stop: int) -> bytes:
        key = (self.key, start, stop)
        page = self.cache.get(key)
        if page is None:
            page = b",".join([rows async for rows in encode_in_thread(self.encode, self.entries, start, stop)])
            self.cache.put(key, page)
        return page

    async def _stream(self, pieces: Sequence[tuple[int, int] | bytes]) -> AsyncIterator[bytes]:
        for piece in pieces:
            if not isinstance(piece, bytes):
                async for rows in encode_in_thread(self.encode, self.entries, *piece):
                    yield rows
            elif piece:
                yield piece


def join_rows(*pieces: bytes) -> orjson.Fragment:
    """Join pieces of encoded rows to one JSON array, ready for an answer."""
    return orjson.Fragment(b"[" + b",".join(piece for piece in pieces if piece) + b"]")


async def encode_in_thread(encode: Encode, entries: Sequence[Entry], start: int, stop: int) -> AsyncIterator[bytes]:
    """Encode entries in a thread. Yield their rows in chunks."""
    pool = compute_pools().batches

    def encode_range(first: int) -> bytes:
        return encode(entries[first : min(first + ROWS_PER_CHUNK, stop)])

    for first in range(start, stop, ROWS_PER_CHUNK):
        rows = await pool.run(encode_range, first)
        if rows:
            yield rows


class CachedFolder:
    """One listing, sorted in the order of its storage."""

    def __init__(
        self, entries: Selection, by_name: Selection, mount: Mount, token: int | None, max_age: float, stamp: Stamp
    ) -> None:
        self.entries = entries
        self.mount = mount
        self.is_cached = False
        self.token = token  # the change token under which it was read; None if it cannot be trusted
        self.checked_at = self.read_at = time.monotonic()
        self.max_age = max_age  # seconds for which an unchanged token is trusted
        self.stamp = stamp  # taken before it was read
        self.counted_weight = 0  # bytes that are counted in the cache
        self.rows = _make_row_cache()
        self._by_name = by_name
        self._own_weight = FOLDER_BYTES + sum(part.weight for part in (entries.columns, entries, by_name))
        self._selections: OrderedDict[tuple[SortOrder, Hashable], Selection] = OrderedDict()
        self._lock = asyncio.Lock()

    @property
    def weight(self) -> int:
        """Its size in bytes."""
        selections = sum(selection.weight + SELECTION_BYTES for selection in self._selections.values())
        return self._own_weight + selections + self.rows.weight

    @property
    def has_thumbs(self) -> bool:
        """True if entries may have thumbnails."""
        return self.entries.columns.has_thumbs

    def find(self, name: str) -> Entry | None:
        """Return the entry of that name."""
        return self._by_name.find_last(name)

    def find_by_prefix(self, prefix: str) -> Selection:
        """Return the entries whose names start with `prefix`, by name."""
        return self._by_name.find_range(encode_name(prefix))

    async def select_entries(self, order: SortOrder, key: Hashable, test: Callable[[Entry], bool] | None) -> Selection:
        """Return the entries that pass `test` in an order. Tests with the same result have the same `key`.

        Beyond MAX_SELECTIONS, the least recently used selection is dropped.
        """
        async with self._lock:
            return await self._select(order, None if test is None else key, test)

    async def _select(
        self, order: SortOrder, key: Hashable = None, test: Callable[[Entry], bool] | None = None
    ) -> Selection:
        """Return a cached selection, or make it. The one of all entries in the storage's order is always there."""
        if test is None and order == SortOrder.of(self.mount.storage):
            return self.entries
        entries = self._selections.pop((order, key), None)
        if entries is None and test is not None:
            entries = await (await self._select(order)).select(test)
        elif entries is None:
            entries = await sort_columns(self.entries.columns, order)
        self._selections[order, key] = entries
        if len(self._selections) > MAX_SELECTIONS:
            self._selections.popitem(last=False)
        return entries


async def make_folder(columns: Columns, mount: Mount, token: int | None, max_age: float, stamp: Stamp) -> CachedFolder:
    """Return the listing of all entries that were read."""
    entries = await sort_columns(columns, SortOrder.of(mount.storage))
    by_name = await sort_by_name(entries)
    return CachedFolder(entries, by_name, mount, token, max_age, stamp)


class Stamp:
    """The state of a folder at one moment. It is taken before the folder is read."""

    __slots__ = ("_count", "_key", "_total")

    def __init__(self, key: FolderKey) -> None:
        self._key = key
        self._total = read_total_changes()
        self._count = _read_changes(key)

    def is_current(self) -> bool:
        """True if nothing in the folder changed since, nor any parent as a whole."""
        total = read_total_changes()
        if total == self._total:
            return True
        if _read_changes(self._key) != self._count:
            return False
        self._total = total
        return True


def read_total_changes() -> int:
    """Return a number that differs after each change of any folder."""
    return change_counters().read(Topic.ANY_FOLDER)


def read_tree_changes() -> int:
    """Return a number that differs after each change of any folder with everything below it: it may be gone."""
    return change_counters().read(Topic.ANY_TREE)


def _read_changes(key: FolderKey) -> int:
    own = change_counters().read(Topic.FOLDER, key) + change_counters().read(Topic.EVERY_FOLDER)
    return own + sum(change_counters().read(Topic.TREE, ancestor) for ancestor in _list_ancestors(key))


def _list_ancestors(key: FolderKey) -> Iterator[FolderKey]:
    """Yield the folder and all parents."""
    storage_id, path = key
    yield storage_id, "/"
    end = path.find("/", 1)
    while end > 0:
        yield storage_id, path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield key


def count_folder_changes(keys: Iterable[FolderKey]) -> None:
    """Record that entries of these folders change, or have changed."""
    for key in keys:
        change_counters().bump(Topic.FOLDER, key)
    change_counters().bump(Topic.ANY_FOLDER)


def count_tree_changes(keys: Iterable[FolderKey]) -> None:
    """Record that these folders change with everything below them."""
    for key in keys:
        change_counters().bump(Topic.TREE, key)
    change_counters().bump(Topic.ANY_TREE)
    change_counters().bump(Topic.ANY_FOLDER)


def count_change_of_all() -> None:
    """Invalidate all listings."""
    change_counters().bump(Topic.EVERY_FOLDER)
    change_counters().bump(Topic.ANY_TREE)
    change_counters().bump(Topic.ANY_FOLDER)
