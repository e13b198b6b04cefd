"""One listing: its entries in their storage's order, found by name, and what callers with the same rights see of it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence

from mangrove.core import runtime
from mangrove.core.chunked import run_chunked
from mangrove.core.concurrency import ComputePools
from mangrove.drivers.base import Entry
from mangrove.tree.listing.columns import Columns, Selection, encode_name
from mangrove.tree.listing.folder_changes import Stamp
from mangrove.tree.listing.orders import Order, sort
from mangrove.tree.mounts import Mount

ROWS = 512  # that are encoded at once
VIEWS = 8  # kept of one folder
OTHER_ORDERS = 2  # kept of one folder beside its storage's own: four bytes for each entry
LARGEST_VIEW = 16 << 20  # bytes of the rows kept of one view
FOLDER_BYTES = 1200  # what a folder weighs besides its columns
VIEW_BYTES = 900
PAGE_BYTES = 200  # what a kept page weighs besides its rows

Encode = Callable[[Sequence[Entry]], bytes]


class View:
    """A folder as callers with the same rights see it: the visible entries, and the pages that were asked for last.

    Rows are JSON objects with commas between them.
    """

    def __init__(self, visible: Selection, encode: Encode, weight: int = 0) -> None:
        self.visible = visible
        self.weight = weight + VIEW_BYTES  # bytes
        self._encode = encode
        self._pages: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._largest = self.weight + LARGEST_VIEW

    async def get_rows(self, start: int, stop: int) -> bytes:
        """The rows of a slice."""
        key = (start, stop)
        if key not in self._pages:
            page = b",".join([rows async for rows in self.stream_rows(start, stop)])
            if key not in self._pages:
                self._pages[key] = page
                self.weight += sys.getsizeof(page) + PAGE_BYTES
        self._pages.move_to_end(key)
        page = self._pages[key]
        while self.weight > self._largest:
            self.weight -= sys.getsizeof(self._pages.popitem(last=False)[1]) + PAGE_BYTES
        return page

    async def stream_rows(self, start: int, stop: int) -> AsyncIterator[bytes]:
        """The rows of a slice, ROWS of them at once, not kept."""
        thread = runtime.get(ComputePools).batches
        for first in range(start, stop, ROWS):
            yield await thread.run(self._encode_slice, first, min(first + ROWS, stop))

    def _encode_slice(self, start: int, stop: int) -> bytes:
        return self._encode(self.visible[start:stop])


async def encode_in_thread(encode: Encode, entries: Sequence[Entry]) -> bytes:
    """The rows of some entries, ROWS of them at once."""
    thread = runtime.get(ComputePools).batches
    return b",".join(
        [await thread.run(encode, entries[start : start + ROWS]) for start in range(0, len(entries), ROWS)]
    )


class CachedFolder:
    """One listing, sorted in its storage's order; `by_name`: the same entries by name.

    `token`: the change token it was read under; None when it cannot be trusted. `max_age`: seconds for which an
    unchanged token is believed. `stamp`: from before it was read. `counted`: the weight in bytes that
    the cache has accounted for.
    """

    def __init__(
        self, entries: Selection, by_name: Selection, mount: Mount, token: int | None, max_age: float, stamp: Stamp
    ) -> None:
        self.entries = entries
        self.mount = mount
        self.is_cached = False
        self.token = token
        self.checked_at = self.read_at = time.monotonic()
        self.max_age = max_age
        self.stamp = stamp
        self.counted = 0
        self._by_name = by_name
        self._own_weight = FOLDER_BYTES + sum(part.weight for part in (entries.columns, entries, by_name))
        self._views: OrderedDict[tuple[Order, Hashable], View] = OrderedDict()
        self._others: OrderedDict[Order, Selection] = OrderedDict()
        self._making = asyncio.Lock()

    @property
    def weight(self) -> int:
        """Bytes."""
        parts: list[View | Selection] = [*self._views.values(), *self._others.values()]
        return self._own_weight + sum(part.weight for part in parts)

    @property
    def has_thumbs(self) -> bool:
        """Whether there may be thumbnails."""
        return self.entries.columns.has_thumbs

    def find(self, name: str) -> Entry | None:
        """The entry of that name."""
        return self._by_name.find_last(name)

    def find_by_prefix(self, prefix: str) -> Selection:
        """The entries whose names start with `prefix`, by name."""
        return self._by_name.find_range(encode_name(prefix))

    async def get_view(
        self, key: Hashable, test: Callable[[Entry], bool] | None, encode: Encode, order: Order | None = None
    ) -> View:
        """The view kept under `key`, made at first use of what passes `test`; the least used beyond VIEWS goes.

        `order`: another one than the storage's own.
        """
        wanted = order or Order.of(self.mount.storage)
        async with self._making:
            entries = await self._get_sorted(wanted)
            view = self._views.get((wanted, key))
            if view is None:
                view = await _make_view(entries, test, encode)
                self._views[wanted, key] = view
                if len(self._views) > VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end((wanted, key))
            return view

    async def _get_sorted(self, order: Order) -> Selection:
        """All entries in that order, sorted at its first use."""
        if order == Order.of(self.mount.storage):
            return self.entries
        if order not in self._others:
            columns = self.entries.columns
            self._others[order] = Selection(columns, await run_chunked(sort(columns, order)))
            if len(self._others) > OTHER_ORDERS:
                oldest, _ = self._others.popitem(last=False)
                for view in [view for view in self._views if view[0] == oldest]:
                    del self._views[view]
        self._others.move_to_end(order)
        return self._others[order]


async def _make_view(entries: Selection, test: Callable[[Entry], bool] | None, encode: Encode) -> View:
    if test is None:
        return View(entries, encode)
    visible = await run_chunked(entries.select(test))
    return View(visible, encode, visible.weight)


async def make_folder(columns: Columns, mount: Mount, token: int | None, max_age: float, stamp: Stamp) -> CachedFolder:
    """The listing of all that was read."""
    entries = Selection(columns, await run_chunked(sort(columns, Order.of(mount.storage))))
    by_name = await run_chunked(entries.sort_by_name())
    return CachedFolder(entries, by_name, mount, token, max_age, stamp)
