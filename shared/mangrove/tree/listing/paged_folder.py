"""A folder that is never held as a whole: where the pages of its storage begin, and those of them that were read last.

Entries come in the storage's own order. How many there are is known when the end was read; until then `total` is one
more than those that are known, so that whoever pages goes on.
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
from mangrove.core.chunked import run_chunked
from mangrove.drivers.base import EntriesPage, Entry, PageSource
from mangrove.tree.listing.columns import Columns, Selection, make_columns
from mangrove.tree.listing.folder_changes import Key, Stamp
from mangrove.tree.mounts import Mount

BLOCKS = 8  # pages of the storage that are kept of one folder
VIEWS = 8
MARKS_SECONDS = 1800.0  # for which it is remembered where pages begin: a position, whatever is there by then


class Part(NamedTuple):
    """Some entries of a folder, and how many it has; of one whose end was not read yet, one more than are known."""

    entries: Sequence[Entry]
    total: int


class _Block(NamedTuple):
    """A page of the storage."""

    columns: Columns
    read_at: float


class PagedFolder:
    """`key`: the folder that is shown; `place`: where its pages are. `max_age`: seconds for which a page of the storage
    may be kept.

    A page is known by its number of entries and the last of them: when one is another than before, what was known of
    those behind it is forgotten.
    """

    def __init__(self, key: Key, place: PageSource, mount: Mount, max_age: float) -> None:
        self.place = place
        self.mount = mount
        self.began_at = time.monotonic()
        self.is_cached = False
        self.is_large = False  # too many to be sorted
        self._max_age = max_age
        self._starts = [""]  # of the pages that are known
        self._ends: list[tuple[int, str]] = []  # of those that were read: how many entries, and the name of the last
        self._is_complete = False
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._counts: OrderedDict[Hashable, MutableSequence[int]] = OrderedDict()
        self._key = key
        self._stamp = Stamp(key)
        self._reading = asyncio.Lock()

    async def start_with(self, page: EntriesPage) -> Columns:
        """Take the first page, which was read since this was made."""
        return await self._keep(0, page, self._stamp)

    def forget_entries(self) -> None:
        """Something changed: no page that was read before serves any more."""
        self._stamp = Stamp(self._key)
        self._blocks.clear()

    async def read(self, key: Hashable, test: Callable[[Entry], bool] | None, start: int, stop: int) -> Part:
        """Entries `start` to `stop` of those that pass `test`; `key` is equal for tests that let the same ones pass.

        OutOfTime when a page far behind those that are known cannot be reached in time.
        """
        async with self._reading:
            counts = self._get_counts(key)
            found: list[Entry] = []
            number = bisect_right(counts, start) - 1
            while number < len(self._starts):
                deadlines.check()
                visible = await _select(await self._get_block(number), test)
                before = counts[number]
                after = before + len(visible)
                _set_count(counts, number + 1, after)
                found += visible[max(start - before, 0) : max(stop - before, 0)]
                if after >= stop:
                    break
                number += 1
            is_known = self._is_complete and len(counts) > len(self._starts)
            return Part(found, counts[-1] + (not is_known))

    def _get_counts(self, key: Hashable) -> MutableSequence[int]:
        """How many visible entries come before each page of the storage."""
        counts = self._counts.setdefault(key, array("Q", [0]))
        self._counts.move_to_end(key)
        if len(self._counts) > VIEWS:
            self._counts.popitem(last=False)
        return counts

    async def _get_block(self, number: int) -> Columns:
        if not self._stamp.is_current():
            self.forget_entries()
        kept = self._blocks.get(number)
        if kept is not None and time.monotonic() - kept.read_at < self._max_age:
            self._blocks.move_to_end(number)
            return kept.columns
        stamp = self._stamp
        page = await self.place.driver.list_page(self.place.path, self._starts[number])
        return await self._keep(number, page, stamp)

    async def _keep(self, number: int, page: EntriesPage, stamp: Stamp) -> Columns:
        read_at = time.monotonic()
        columns = await run_chunked(make_columns(page.entries))
        self._note_end(number, page)
        if stamp is self._stamp and stamp.is_current() and self._max_age > 0:
            self._blocks[number] = _Block(columns, read_at)
            self._blocks.move_to_end(number)
            if len(self._blocks) > BLOCKS:
                self._blocks.popitem(last=False)
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
        """Forget all that is known of what comes behind the beginning of a page."""
        del self._starts[number + 1 :], self._ends[number:]
        for other in [other for other in self._blocks if other > number]:
            del self._blocks[other]
        for counts in self._counts.values():
            del counts[number + 1 :]


async def _select(columns: Columns, test: Callable[[Entry], bool] | None) -> Selection:
    everything = Selection(columns, range(len(columns)))
    return everything if test is None else await run_chunked(everything.select(test))


def _set_count(counts: MutableSequence[int], number: int, count: int) -> None:
    if number < len(counts) and counts[number] != count:
        del counts[number:]
    if number == len(counts):
        counts.append(count)
