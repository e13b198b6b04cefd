"""Lookups of entries by name: of one, of one with its related files, and of many names of a folder.

Many names are looked up in a listing of their folder, or in ranges of it, which costs less than a call for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import partial

from mangrove.core import deadlines
from mangrove.core.chunked import in_batches, iterate_chunked
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFolder, Problem
from mangrove.drivers.base import Driver, Entry, PageSource, get_sort_key
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.columns import Selection, make_columns
from mangrove.tree.listing.listing import listings
from mangrove.tree.listing.orders import sort_by_name
from mangrove.tree.mounts import StoragePath

MAX_SINGLE_LOOKUPS = 16  # names that are looked up individually, on demand
MAX_LISTED_ENTRIES = 50_000  # entries of a folder that are read to find names; the rest is looked up
LISTED_ENTRIES_PER_NAME = 50  # they take no longer than a call; so many more are read for many names
LOOKUP_CONCURRENCY = 16
RANGE_CONCURRENCY = 16
NAMES_PER_RANGE_READER = 256
WHOLE_PAGE_ENTRIES = 1000
SHORT_PAGE_ENTRIES = 100  # if names are far from each other
MIN_NAMES_PER_WHOLE_PAGE = 8


async def look_up(storage_path: StoragePath, *, to_show: bool = False) -> Entry:
    """Return an entry from its driver if that answers directly, otherwise from its folder's listing. Raise
    EntryNotFound.

    An entry that is only displayed may be as old as a listing that is used without calling the storage.
    """
    if storage_path.driver.config.direct_lookup or storage_path.path == "/":
        return await (listings().stat(storage_path) if to_show else storage_path.driver.stat(storage_path.path))
    entry = (await listings().get(storage_path.parent)).find(storage_path.path.name)
    if entry is None:
        raise EntryNotFound
    return entry


async def look_up_folder(storage_path: StoragePath) -> Entry:
    """Return an entry as `look_up` does to show it. If it is a folder, its time may be older."""
    return listings().find_folder(storage_path) or await look_up(storage_path, to_show=True)


async def find_entry(storage_path: StoragePath) -> Entry | None:
    """Return an entry, None if there is none."""
    try:
        return await look_up(storage_path)
    except EntryNotFound:
        return None


async def find_recent(storage_path: StoragePath) -> Entry | None:
    """Return an entry as `find_entry` does, or what a lookup of the last moment has found if the driver itself refuses
    an existing name when it stores a file.
    """
    driver = storage_path.driver
    if driver.config.direct_lookup and await driver.can_refuse_existing():
        return await listings().find_recent(storage_path)
    return await find_entry(storage_path)


class Lookups:
    """The entries with certain names of a folder. Other names are looked up on demand, each once."""

    def __init__(self, folder: StoragePath, entries: dict[str, Entry | None]) -> None:
        self.folder = folder
        self._entries = entries

    async def find(self, name: str) -> Entry:
        """Return the entry. Raise EntryNotFound."""
        entry = await self._get(name)
        if entry is None:
            raise EntryNotFound
        return entry

    async def has(self, name: str) -> bool:
        """True if the storage has an entry of that name."""
        return await self._get(name) is not None

    async def _get(self, name: str) -> Entry | None:
        if name not in self._entries:
            self._entries[name] = await find_entry(self.folder.child(name))
        return self._entries[name]


async def look_up_many(folder: StoragePath, names: Collection[str]) -> Lookups:
    """Look up names of a folder. If they are few, or a lookup costs nothing, they are looked up on demand."""
    driver = folder.driver
    if len(names) <= MAX_SINGLE_LOOKUPS:
        return Lookups(folder, {})
    place = await driver.find_paged(folder.path)
    if place is not None and place.driver.capabilities.list_range:
        try:
            entries = await find_in_ranges(place.driver, place.path, [*names])
            return Lookups(folder, dict.fromkeys(names) | entries)
        except NotInOrder:
            return await _look_up_each(folder, names, {})
    if driver.capabilities.find_others:
        return await _look_up_each(folder, names, {})
    return Lookups(folder, {}) if driver.config.no_cache else await _find_in_listing(folder, names)


async def _find_in_listing(folder: StoragePath, names: Collection[str]) -> Lookups:
    requested_names, entries, count = set(names), dict[str, Entry | None](), 0
    limit = max(MAX_LISTED_ENTRIES, LISTED_ENTRIES_PER_NAME * len(requested_names))
    try:
        async for batch in folder.driver.list(folder.path):
            async for entry in iterate_chunked(batch):
                if entry.name in requested_names:
                    entries[entry.name] = entry
            count += len(batch)
            if len(entries) == len(requested_names) or count >= limit:
                break
        else:
            return Lookups(folder, dict.fromkeys(names) | entries)
    except (EntryNotFound, NotAFolder):  # the folder does not exist, so it is empty
        return Lookups(folder, dict.fromkeys(names) | entries)
    return await _look_up_each(folder, names, entries)


async def _look_up_each(folder: StoragePath, names: Collection[str], entries: dict[str, Entry | None]) -> Lookups:
    """Look up the names that are not among the entries."""
    async for batch in in_batches([name for name in names if name not in entries]):
        works = [partial(find_entry, folder.child(name)) for name in batch]
        entries |= zip(batch, await gather_bounded(works, LOOKUP_CONCURRENCY), strict=True)
    return Lookups(folder, entries)


class NotInOrder(Exception):
    """The storage does not list in the order that it promises."""


async def find_in_ranges(driver: Driver, path: TreePath, names: Sequence[str]) -> dict[str, Entry]:
    """Return the entries of a folder with these names, a file before a folder of its name. Raise NotInOrder.

    It needs no more calls than the folder has pages, and hardly more than there are names.
    """
    ordered = sorted(names)
    readers = min(RANGE_CONCURRENCY, -(-len(ordered) // NAMES_PER_RANGE_READER))
    size = -(-len(ordered) // readers)
    parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    results = await gather_bounded([partial(_find_sorted, driver, path, part) for part in parts], RANGE_CONCURRENCY)
    return {name: entry for result in results for name, entry in result.items()}


async def _find_sorted(driver: Driver, path: TreePath, names: Sequence[str]) -> dict[str, Entry]:
    requested_names, entries = set(names), dict[str, Entry]()
    keys = sorted([*names, *(f"{name}/" for name in names)])  # of a file, and of a folder of that name
    position, last, next_start, limit = 0, "", "", WHOLE_PAGE_ENTRIES
    while position < len(keys):
        deadlines.check()
        before, is_first = position, not next_start
        after = max(_get_key_before(keys[position]), last)
        page = await (driver.list_range(path, after, limit) if is_first else driver.list_page(path, next_start))
        page_keys = [get_sort_key(entry) for entry in page.entries]
        if page_keys and min(page_keys) < (after if is_first else last):
            raise NotInOrder
        async for entry in iterate_chunked(page.entries):
            if entry.name in requested_names and not (entry.is_dir and entry.name in entries):
                entries[entry.name] = entry
        if not page.next_start:
            break
        last = max(page_keys, default=last)
        position = bisect_right(keys, last, position)
        limit = WHOLE_PAGE_ENTRIES if position - before >= MIN_NAMES_PER_WHOLE_PAGE else SHORT_PAGE_ENTRIES
        while position < len(keys) and keys[position].removesuffix("/") in entries:
            position += 1
        next_start = page.next_start if position == before else ""
    return entries


def _get_key_before(key: str) -> str:
    """Return a key before this one, with as few keys as possible between the two."""
    letter = ord(key[-1]) - 1
    is_plain = letter >= ord(" ") and letter != 0x7F and not 0xD800 <= letter <= 0xDFFF
    return key[:-1] + (chr(letter) if is_plain else "")


async def look_up_with_related(access: PathAccess, storage_path: StoragePath) -> tuple[Entry, Selection | None]:
    """Return an entry, and the entries of its folder whose names start with its stem, such as subtitles of a film.

    They are sorted by name, and rules are not applied. They are None if the caller may not list the folder, or if that
    fails. A storage that lists in pages returns both in one call, of at most one page.
    """
    name = access.path.name
    stem = name.rpartition(".")[0] or name
    folder = await _find_readable_folder(access)
    if folder is None:
        return await look_up(storage_path, to_show=True), None
    place = await folder.driver.find_paged(folder.path)
    if place is None or await listings().find_fresh(folder) is not None:
        return await look_up(storage_path, to_show=True), await _find_by_prefix(folder, stem)
    entry: Entry | None = None
    related: Selection | None = None
    try:
        entry, related = await _list_by_prefix(place, stem, name)
    except Problem:
        pass  # the lookup of the entry shows the problem
    own_source = await storage_path.driver.find_paged(storage_path.path.parent)  # of the driver that a trash wraps
    is_same_folder = storage_path.driver.capabilities.list_page and place == own_source
    if entry is None or not is_same_folder:
        entry = await look_up(storage_path, to_show=True)
    return entry, related


async def _find_readable_folder(access: PathAccess) -> StoragePath | None:
    parent = access.parent
    try:
        return await parent.locate() if parent.may_read() else None
    except Problem:
        return None


async def _find_by_prefix(folder: StoragePath, prefix: str) -> Selection | None:
    try:
        related = (await listings().get(folder)).find_by_prefix(prefix)
        await related.read_details()
    except Problem:
        return None
    return related


async def _list_by_prefix(place: PageSource, prefix: str, name: str) -> tuple[Entry | None, Selection]:
    """Return the entry of that name, a file before a folder, if the first page has it; and that page by name."""
    page = await place.driver.list_page(place.path, prefix=prefix)
    named = [entry for entry in page.entries if entry.name == name]
    columns = await make_columns(page.entries)
    entries = await sort_by_name(Selection(columns, range(len(columns))))
    return min(named, key=lambda entry: entry.is_dir, default=None), entries
