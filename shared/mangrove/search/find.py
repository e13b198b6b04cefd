"""The search: of the names at and below a folder those that fit and that the caller may see."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem, SearchUnavailable
from mangrove.drivers.base import ROOT, Entry
from mangrove.search import query
from mangrove.search.database import DamagedSegment
from mangrove.search.overlay import Overlay, SearchedMount, VirtualRow
from mangrove.search.query import Filters, Hit, Place
from mangrove.search.scope import IndexScope, is_indexed
from mangrove.search.segments import SegmentStore
from mangrove.search.visibility import find_judge
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.browse import check_folder
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import WORKING, Located, Mount

START_SECONDS = 0.25  # that a storage which does not run yet is waited for
LOOK_SECONDS = 0.25  # that a folder with mounts in it may take to be listed
LOOKS_AT_ONCE = 16
ATTEMPTS = 2  # the second one without the index that was found damaged
VIRTUAL = 0  # the id that stands for what no storage has


@dataclass(frozen=True, slots=True)
class Found:
    """A page of hits, and how many there are on all. The ids of storages that were searched: of those in `behind` the
    index is worth an update, those in `missing` have none."""

    hits: Sequence[Hit]
    total: int
    behind: frozenset[int]
    missing: frozenset[int]


def require_search(settings: Settings) -> None:
    """SearchUnavailable when it is switched off."""
    if not settings.has_search_index:
        raise SearchUnavailable


async def find(access: PathAccess, filters: Filters, start: int, count: int) -> Found:
    """The hits from `start` on, no more than `count`, at and below a folder; fails as its listing does.

    SearchUnavailable, SearchTooSlow.
    """
    require_search(access.settings)
    await check_folder(access)
    judge = await find_judge(access)
    searched = await _find_mounts(access)
    overlay = runtime.get(Overlay)
    # the marks are read before the index is opened: who deletes one has stored what stands for it
    behind = await overlay.lay(searched)
    await overlay.lay_virtual(await _find_virtual_rows(access))
    for attempt in range(ATTEMPTS):
        places = await _open_places(access.path, searched)
        try:
            hits, total = await query.run(places, filters, judge, start, count)
            break
        except DamagedSegment as damaged:
            await _drop_damaged(places, damaged)
            if attempt + 1 == ATTEMPTS:
                raise
    missing = frozenset(place.storage_id for place in places if place.segments is None and place.storage_id != VIRTUAL)
    return Found(hits, total, behind - missing, missing)


async def _find_mounts(access: PathAccess) -> list[SearchedMount]:
    """The storages that hold the folder, or are mounted below it: those that have an index, and run."""
    table, top = access.table, access.path
    scope = IndexScope.make(access.settings)
    paths = [TreePath(path) for path in table.by_path if TreePath(path).within(top) and path != top]
    if holding := table.find_mounts(top):
        paths.insert(0, holding[0].path)
    mounts = await asyncio.gather(*(_choose(table.by_path[path], access.settings) for path in paths))
    return [
        SearchedMount(mount, top.below(path) if top.within(path) else ROOT, scope, tuple(table.nested.get(path, ())))
        for path, mount in zip(paths, mounts, strict=True)
        if mount is not None
    ]


async def _choose(mounts: Sequence[Mount], settings: Settings) -> Mount | None:
    """The first of the storages at a path that has an index and runs: balanced ones hold the same."""
    for mount in mounts:
        if is_indexed(mount.storage, settings) and await _is_working(mount):
            return mount
    return None


async def _is_working(mount: Mount) -> bool:
    try:
        async with asyncio.timeout(START_SECONDS):
            driver = await mount.get_driver()
            if mount.has_failed:  # but serves all the same, perhaps
                await listings().get(Located(driver, ROOT, mount))
    except Problem:
        return False
    except TimeoutError:
        return mount.storage.status == WORKING
    return True


async def _open_places(top: TreePath, searched: Sequence[SearchedMount]) -> list[Place]:
    store = runtime.get(SegmentStore)
    indexes = await asyncio.gather(*(store.open(one.mount.storage.id) for one in searched))
    places = [Place(VIRTUAL, None, ROOT, top)]
    for one, segments in zip(searched, indexes, strict=True):
        places.append(Place(one.mount.storage.id, segments, one.mount.path, one.root, one.others))
    return places


async def _drop_damaged(places: Sequence[Place], damaged: DamagedSegment) -> None:
    for place in places:
        found = place.segments
        if found is not None and damaged.data in {path.name for path in (*found.names, *found.folders)}:
            await runtime.get(SegmentStore).drop_damaged(found)


async def _find_virtual_rows(access: PathAccess) -> Sequence[VirtualRow]:
    """The names of the tree that no storage has, as listings show them: folders that are mounts or lead to some.

    Where a storage has an entry of that name its listing shows that one. So it does here for a mount, of which the
    index says nothing; a folder on the way to one is in the index.
    """
    table, scope = access.table, IndexScope.make(access.settings)
    rows = [
        VirtualRow(folder, Entry(name, 0, mount.storage.modified.timestamp(), True))
        for folder, name, mount in table.virtual_folders
        if scope.has_folder(folder)
    ]
    folders = list({row.folder for row in rows})
    listed = dict(zip(folders, await _list_indexed(access, folders), strict=True))
    chosen = []
    for row in rows:
        folder = listed.get(row.folder)
        entry = folder.find(row.entry.name) if folder is not None else None
        if entry is None:
            chosen.append(row)
        elif row.folder / entry.name in table.by_path:
            chosen.append(VirtualRow(row.folder, entry))
    return [row for row in chosen if scope.select(row.folder, [row.entry])]


async def _list_indexed(access: PathAccess, folders: Sequence[TreePath]) -> list[CachedFolder | None]:
    """The listings of those of the folders that lie in a storage with an index; None where there is none in time."""
    limit = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(path: TreePath) -> CachedFolder | None:
        mount = next(iter(access.table.find_mounts(path)), None)
        if mount is None or not is_indexed(mount.storage, access.settings):
            return None
        try:
            async with limit, asyncio.timeout(LOOK_SECONDS):
                return await listings().get(Located(await mount.get_driver(), path.below(mount.path), mount))
        except (Problem, TimeoutError):
            return None

    return await asyncio.gather(*map(look, folders))
