"""A folder that is never in memory as a whole: the starts of the pages of its storage, and the pages that were read
last.

Entries are in the order of the storage. Their number is known once the last page was read. Until then `total` is one
more than the number of known entries, so that a client requests the next page.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, MutableSequence, Sequence
from typing import NamedTuple

from mangrove.core import deadlines
from mangrove.core.runtime import BoundedCache
from mangrove.drivers.base import EntriesPage, Entry, PageSource
from mangrove.tree.listing.columns import Columns, Selection, make_columns
from mangrove.tree.listing.folder import Stamp
from mangrove.tree.mount_table import FolderKey
from mangrove.tree.mounts import Mount

MAX_CACHED_PAGES = 8  # of the storage, of one folder
MAX_VIEWS = 8
PAGE_STARTS_SECONDS = 1800.0  # for which the starts of pages are remembered, even if they have changed


class EntriesPart(NamedTuple):
    """A part of the entries of a folder, and the total.

    Before the last page was read, the total is one more than the known entries.
    """

    entries: Sequence[Entry]
    total: int


class _CachedPage(NamedTuple):
    columns: Columns
    read_at: float


class PagedFolder:
    """The pages of a folder.

    A page is recognised by its number of entries and its last entry. If it differs from before, everything about the
    pages behind it is dropped.
    """

    def __init__(self, key: FolderKey, place: PageSource, mount: Mount, max_age: float) -> None:
        self.place = place  # of the pages
        self.mount = mount
        self.began_at = time.monotonic()
        self.is_cached = False
        self.is_large = False  # too many entries to sort
        self._max_age = max_age  # seconds for which a page of the storage may be cached
        self._starts = [""]  # of the known pages
        self._ends: list[tuple[int, str]] = []  # of the pages that were read: number of entries, name of the last
        self._is_complete = False
        self._pages: BoundedCache[int, _CachedPage] = BoundedCache(MAX_CACHED_PAGES)
        self._counts: OrderedDict[Hashable, MutableSequence[int]] = OrderedDict()
        self._key = key  # of the displayed folder
        self._stamp = Stamp(key)
        self._lock = asyncio.Lock()

    async def start_with(self, page: EntriesPage) -> Columns:
        """Add the first page, which was read after this object was made."""
        return await self._add_page(0, page, self._stamp)

    def forget_entries(self) -> None:
        """Drop all pages after a change."""
        self._stamp = Stamp(self._key)
        self._pages.clear()

    async def read(self, key: Hashable, test: Callable[[Entry], bool] | None, start: int, stop: int) -> EntriesPart:
        """Return entries `start` to `stop` of those that pass `test`; tests with the same result have the same `key`.

        Raise OutOfTime if a page far behind the known ones cannot be reached in time.
        """
        async with self._lock:
            counts = self._get_counts(key)
            entries: list[Entry] = []
            number = bisect_right(counts, start) - 1
            while number < len(self._starts):
                deadlines.check()
                visible = await _select(await self._get_page(number), test)
                before = counts[number]
                after = before + len(visible)
                _set_count(counts, number + 1, after)
                entries += visible[max(start - before, 0) : max(stop - before, 0)]
                if after >= stop:
                    break
                number += 1
            is_total_known = self._is_complete and len(counts) > len(self._starts)
            return EntriesPart(entries, counts[-1] + (not is_total_known))

    def _get_counts(self, key: Hashable) -> MutableSequence[int]:
        """Return the numbers of visible entries before each page of the storage."""
        counts = self._counts.setdefault(key, array("Q", [0]))
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_VIEWS:
            self._counts.popitem(last=False)
        return counts

    async def _get_page(self, number: int) -> Columns:
        if not self._stamp.is_current():
            self.forget_entries()
        cached = self._pages.get(number)
        if cached is not None and time.monotonic() - cached.read_at < self._max_age:
            return cached.columns
        stamp = self._stamp
        page = await self.place.driver.list_page(self.place.path, self._starts[number])
        return await self._add_page(number, page, stamp)

    async def _add_page(self, number: int, page: EntriesPage, stamp: Stamp) -> Columns:
        read_at = time.monotonic()
        columns = await make_columns(page.entries)
        self._note_end(number, page)
        if stamp is self._stamp and stamp.is_current() and self._max_age > 0:
            self._pages.put(number, _CachedPage(columns, read_at))
        return columns

    def _note_end(self, number: int, page: EntriesPage) -> None:
        end = len(page.entries), page.entries[-1].name if page.entries else ""
        is_same = number < len(self._ends) and self._ends[number] == end
        if not is_same or not page.next_start:
            self._forget_behind(number)
            self._ends.append(end)
        self._is_complete = self._is_complete if page.next_start else True
        if page.next_start and number + 1 == len(self._starts):
            self._starts.append(page.next_start)
            self._is_complete = False

    def _forget_behind(self, number: int) -> None:
        """Drop everything behind the start of a page."""
        del self._starts[number + 1 :], self._ends[number:]
        self._pages.remove_all(lambda cached, _: cached > number)
        for counts in self._counts.values():
            del counts[number + 1 :]


async def _select(columns: Columns, test: Callable[[Entry], bool] | None) -> Selection:
    everything = Selection(columns, range(len(columns)))
    return everything if test is None else await everything.select(test)


def _set_count(counts: MutableSequence[int], number: int, count: int) -> None:
    if number < len(counts) and counts[number] != count:
        del counts[number:]
    if number == len(counts):
        counts.append(count)
