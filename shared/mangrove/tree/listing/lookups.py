"""Many names of one folder looked up at once: a listing, or a part of it, costs less than a question for each."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from mangrove.core.chunked import in_batches, iterate_chunked
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import EntryNotFound, NotAFolder
from mangrove.drivers.base import Entry
from mangrove.tree.access import lookup
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.ranges import NotInOrder, find_in_ranges

FEW = 16  # names that are asked for one by one
LARGEST_LISTED = 50_000  # entries of a folder that are read to find the names; those not among them are asked for
LISTED_FOR_EACH = 50  # entries that take no longer to read than a question; so many more for many names
AT_ONCE = 16


class Lookups:
    """What a folder has of some names. Of names that nobody looked up in advance, the storage is asked."""

    def __init__(self, folder: StoragePath, found: dict[str, Entry | None]) -> None:
        self._folder = folder
        self._found = found

    async def find(self, name: str) -> Entry:
        """The entry; EntryNotFound."""
        if name not in self._found:
            return await lookup(self._folder.child(name))
        entry = self._found[name]
        if entry is None:
            raise EntryNotFound
        return entry

    async def has(self, name: str) -> bool:
        """Whether the storage has an entry of that name."""
        try:
            await self.find(name)
        except EntryNotFound:
            return False
        return True


async def look_up(folder: StoragePath, names: Collection[str]) -> Lookups:
    """Look names up in a folder. A few, or where asking costs nothing, are asked for when they are needed."""
    driver = folder.driver
    if len(names) <= FEW:
        return Lookups(folder, {})
    place = await driver.find_paged(folder.path)
    if place is not None and place.driver.capabilities.list_range:
        try:
            listed = await find_in_ranges(place.driver, place.path, [*names])
            return Lookups(folder, dict.fromkeys(names) | listed)
        except NotInOrder:
            return await _ask_all(folder, names, {})
    if driver.capabilities.find_others:
        return await _ask_all(folder, names, {})
    return Lookups(folder, {}) if driver.config.no_cache else await _list(folder, names)


async def _list(folder: StoragePath, names: Collection[str]) -> Lookups:
    wanted, found, count = set(names), dict[str, Entry | None](), 0
    most = max(LARGEST_LISTED, LISTED_FOR_EACH * len(wanted))
    is_whole = True
    try:
        async for batch in folder.driver.list(folder.path):
            async for entry in iterate_chunked(batch):
                if entry.name in wanted:
                    found[entry.name] = entry
            count += len(batch)
            if len(found) == len(wanted) or count >= most:
                is_whole = False
                break
    except (EntryNotFound, NotAFolder):
        pass  # there is no folder, and nothing in it
    if is_whole:
        return Lookups(folder, dict.fromkeys(names) | found)
    return await _ask_all(folder, names, found)


async def _ask_all(folder: StoragePath, names: Collection[str], found: dict[str, Entry | None]) -> Lookups:
    """What was found, and what is asked for."""
    async for some in in_batches([name for name in names if name not in found]):
        found |= zip(some, await gather_bounded([partial(_ask, folder, name) for name in some], AT_ONCE), strict=True)
    return Lookups(folder, found)


async def _ask(folder: StoragePath, name: str) -> Entry | None:
    try:
        return await lookup(folder.child(name))
    except EntryNotFound:
        return None
