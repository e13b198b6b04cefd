"""Many names of one folder looked up at once: one listing costs less than a question for each."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from mangrove.concurrency import gather_bounded
from mangrove.drivers.base import Entry
from mangrove.drivers.paging import ListsPages
from mangrove.problems import NotAFolder, NotFound
from mangrove.slices import in_batches, in_slices
from mangrove.tree.access import lookup
from mangrove.tree.mounts import Located

FEW = 16  # names that are asked for one by one
LARGEST_LISTED = 50_000  # entries of a folder that are read to find the names; those not among them are asked for
AT_ONCE = 16


class Lookups:
    """What a folder has of some names. Of names that nobody looked up in advance, the storage is asked."""

    def __init__(self, folder: Located, found: dict[str, Entry | None]) -> None:
        self._folder = folder
        self._found = found

    async def find(self, name: str) -> Entry:
        """The entry; NotFound."""
        if name not in self._found:
            return await lookup(self._folder.child(name))
        entry = self._found[name]
        if entry is None:
            raise NotFound
        return entry

    async def has(self, name: str) -> bool:
        """Whether the storage has an entry of that name."""
        try:
            await self.find(name)
        except NotFound:
            return False
        return True


async def look_up(folder: Located, names: Collection[str]) -> Lookups:
    """Look names up in a folder. A few, or where asking costs nothing, are asked for when they are needed."""
    config = folder.driver.config
    if len(names) <= FEW or (config.no_cache and not isinstance(folder.driver, ListsPages)):
        return Lookups(folder, {})
    wanted, found, count = set(names), dict[str, Entry | None](), 0
    is_whole = True
    try:
        async for batch in folder.driver.list(folder.path):
            async for entry in in_slices(batch):
                if entry.name in wanted:
                    found[entry.name] = entry
            count += len(batch)
            if len(found) == len(wanted) or count >= LARGEST_LISTED:
                is_whole = False
                break
    except (NotFound, NotAFolder):
        pass  # there is no folder, and nothing in it
    missing = [name for name in names if name not in found]
    if is_whole:
        return Lookups(folder, found | dict.fromkeys(missing))
    async for some in in_batches(missing):
        found |= zip(some, await gather_bounded([partial(_ask, folder, name) for name in some], AT_ONCE), strict=True)
    return Lookups(folder, found)


async def _ask(folder: Located, name: str) -> Entry | None:
    try:
        return await lookup(folder.child(name))
    except NotFound:
        return None
