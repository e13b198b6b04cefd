"""All places at which one folder is shown: where its storage leads to, and the storages that lead there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem, StorageProblem
from mangrove.drivers.base import Driver, Redirects
from mangrove.drivers.context import MAX_REDIRECTS
from mangrove.tree.listing.folder_changes import Key
from mangrove.tree.mounts import MOST_PLACES, Mount, Mounts, MountTable


class Place(NamedTuple):
    """A folder by its path inside a storage; `deep`: with all below it."""

    storage_id: int
    path: str
    deep: bool = False


def find_places(storage_id: int, path: TreePath) -> set[Key]:
    """Where a path of a storage is listed: there, and in the storages that it leads to."""
    found: set[Key] = {(storage_id, str(path))}
    waiting: Sequence[Key] = [*found]
    for _ in range(MAX_REDIRECTS):
        waiting = [key for place in waiting for key in _find_others(place) if key not in found]
        found.update(waiting)
        if not waiting or len(found) > MOST_PLACES:
            break
    return found


def _find_others(key: Key) -> Iterator[Key]:
    """The places that a storage shows at a path instead of files of its own."""
    table = runtime.get(Mounts).table
    mount = table.by_id.get(key[0])
    if mount is None or mount.driver is None or not mount.driver.capabilities.find_others:
        return
    try:
        others = mount.driver.find_others(TreePath(key[1]))
    except StorageProblem:
        return  # it leads nowhere
    for other in others:
        for target in table.find_mounts(other):
            yield target.storage.id, str(other.below(target.path))


async def find_all_places(storage_id: int, path: TreePath, deep: bool) -> set[Place]:
    """The same, and the places in all storages that lead to one of them. `deep`: the folder with all below it, also
    where only something below it is shown elsewhere."""
    found = {Place(*key, deep) for key in find_places(storage_id, path)}
    table = runtime.get(Mounts).table
    if not table.showing:
        return found
    waiting = [*found]
    for _ in range(MAX_REDIRECTS):
        shown = [place for one in waiting for place in await _find_sources(table, one)]
        waiting = [place for place in dict.fromkeys(shown) if place not in found]
        found.update(waiting)
        if not waiting or len(found) > MOST_PLACES:
            break
    return found


async def _find_sources(table: MountTable, place: Place) -> list[Place]:
    """Where other storages show a place."""
    mount = table.by_id.get(place.storage_id)
    if mount is None:
        return []
    path = mount.path / place.path
    found: list[Place] = []
    for one in table.showing:
        if (redirects := await _get_redirects(one)) is not None:
            sources = redirects.find_sources(path, below=place.deep)
            found += [Place(one.storage.id, str(source), place.deep) for source in sources]
    return found


async def _get_redirects(mount: Mount) -> Redirects | Driver | None:
    """What knows where the storage shows a path of the tree; None while it does not run."""
    if mount.redirects is not None:
        return mount.redirects
    try:
        driver = await mount.get_driver()
    except Problem:
        return None  # nobody sees anything there
    return driver if driver.capabilities.find_others else None
