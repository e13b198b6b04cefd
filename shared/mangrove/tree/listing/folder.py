"""One listing: its entries in the order of their storage, an index by name, and the views of callers.

A stamp shows if a folder changed since it was read, in any process of this machine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence

import orjson

from mangrove.core.chunked import PendingRows
from mangrove.core.concurrency import compute_pools
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.drivers.base import Entry
from mangrove.tree.listing.columns import Columns, Selection, encode_name
from mangrove.tree.listing.orders import SortOrder, sort_by_name, sort_columns
from mangrove.tree.mount_table import FolderKey
from mangrove.tree.mounts import Mount

ROWS_PER_CHUNK = 512  # encoded in one call
MAX_WHOLE_ROWS = 4096  # of an answer that is encoded as a whole; a longer one is encoded while it is sent
MAX_VIEWS = 8  # of a folder
MAX_OTHER_ORDERS = 2  # of a folder in addition to that of its storage: four bytes per entry
MAX_ROW_BYTES_PER_VIEW = 16 << 20
FOLDER_BYTES = 1200  # weight of a folder without its columns
VIEW_BYTES = 900
PAGE_BYTES = 200  # weight of a cached page without its rows

Encode = Callable[[Sequence[Entry]], bytes]


class View:
    """A folder as callers with the same rights see it: the visible entries, and the pages that were read last.

    Rows are JSON objects, separated by commas.
    """

    def __init__(self, visible: Selection, encode: Encode, weight: int = 0) -> None:
        self.visible = visible
        self.weight = weight + VIEW_BYTES  # bytes
        self._encode = encode
        self._pages: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._max_weight = self.weight + MAX_ROW_BYTES_PER_VIEW

    async def get_rows(self, start: int, stop: int) -> bytes:
        """Return the rows from `start` to `stop`."""
        key = (start, stop)
        if key not in self._pages:
            page = b",".join([rows async for rows in self.stream_rows(start, stop)])
            if key not in self._pages:
                self._pages[key] = page
                self.weight += sys.getsizeof(page) + PAGE_BYTES
        self._pages.move_to_end(key)
        page = self._pages[key]
        while self.weight > self._max_weight:
            self.weight -= sys.getsizeof(self._pages.popitem(last=False)[1]) + PAGE_BYTES
        return page

    def stream_rows(self, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield the rows from `start` to `stop` in chunks. They are not cached."""
        return encode_in_thread(self._encode, self.visible, start, stop)

    async def get_content(self, *pieces: tuple[int, int] | bytes) -> orjson.Fragment | PendingRows:
        """Join ranges of the view and encoded rows. If there are many rows, they are encoded while they are sent.

        Raise StorageProblem if sizes and times that rows lack cannot be read.
        """
        ranges = [piece for piece in pieces if not isinstance(piece, bytes)]
        for start, stop in ranges:
            if (start, stop) not in self._pages:
                await self.visible.read_details(start, stop)
        if sum(stop - start for start, stop in ranges) > MAX_WHOLE_ROWS:
            return PendingRows(self._stream(pieces))
        return join_rows(*[piece if isinstance(piece, bytes) else await self.get_rows(*piece) for piece in pieces])

    async def _stream(self, pieces: Sequence[tuple[int, int] | bytes]) -> AsyncIterator[bytes]:
        for piece in pieces:
            if not isinstance(piece, bytes):
                async for rows in self.stream_rows(*piece):
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
        self._by_name = by_name
        self._own_weight = FOLDER_BYTES + sum(part.weight for part in (entries.columns, entries, by_name))
        self._views: OrderedDict[tuple[SortOrder, Hashable], View] = OrderedDict()
        self._other_orders: OrderedDict[SortOrder, Selection] = OrderedDict()
        self._lock = asyncio.Lock()

    @property
    def weight(self) -> int:
        """Its size in bytes."""
        parts: list[View | Selection] = [*self._views.values(), *self._other_orders.values()]
        return self._own_weight + sum(part.weight for part in parts)

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

    async def get_view(
        self, key: Hashable, test: Callable[[Entry], bool] | None, encode: Encode, order: SortOrder
    ) -> View:
        """Return the view with the key, made at its first use from the entries that pass `test`.

        Beyond MAX_VIEWS, the least recently used view is dropped.
        """
        async with self._lock:
            entries = await self._get_sorted(order)
            view = self._views.get((order, key))
            if view is None:
                visible = entries if test is None else await entries.select(test)
                view = View(visible, encode, 0 if visible is entries else visible.weight)
                self._views[order, key] = view
                if len(self._views) > MAX_VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end((order, key))
            return view

    async def _get_sorted(self, order: SortOrder) -> Selection:
        """Return all entries in an order, sorted at its first use."""
        if order == SortOrder.of(self.mount.storage):
            return self.entries
        if order not in self._other_orders:
            columns = self.entries.columns
            self._other_orders[order] = await sort_columns(columns, order)
            if len(self._other_orders) > MAX_OTHER_ORDERS:
                oldest, _ = self._other_orders.popitem(last=False)
                for view_key in [view_key for view_key in self._views if view_key[0] == oldest]:
                    del self._views[view_key]
        self._other_orders.move_to_end(order)
        return self._other_orders[order]


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
