"""The search: the names at and below a folder that match and that the caller may see."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem, SearchUnavailable
from mangrove.drivers.base import ROOT, Entry
from mangrove.records.index_changes import ChangeKind, IndexChange, IndexedName
from mangrove.search import query
from mangrove.search.area import SearchArea, find_area
from mangrove.search.calls import DamagedSegment, TablesLost
from mangrove.search.index import search_index
from mangrove.search.names import decode_name, encode_name
from mangrove.search.query import Filters, Hit, SearchSource
from mangrove.search.scope import IndexScope, is_indexed
from mangrove.search.segments import SegmentStore
from mangrove.search.statements import SegmentsPart, TablesPart
from mangrove.search.tables import VIRTUAL, SearchedStorage
from mangrove.search.words import SqlCondition, unite
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import WORKING, Mount

START_SECONDS = 0.25  # time to wait for a storage that does not run yet
ATTEMPTS = 2  # the second is without the index that was found damaged, or with tables that are loaded again


@dataclass(frozen=True, slots=True)
class HitPage:
    """A page of hits, and the total number of hits.

    `behind`, `missing`: ids of storages whose index should be updated, or is missing. `is_partial`: an index is being
    built.
    """

    hits: Sequence[Hit]
    total: int
    behind: frozenset[int]
    missing: frozenset[int]
    is_partial: bool = False


def require_search(settings: Settings) -> None:
    """Raise SearchUnavailable if the search is switched off."""
    if not settings.has_search_index:
        raise SearchUnavailable


async def find(access: PathAccess, filters: Filters, start: int, count: int) -> HitPage:
    """Return at most `count` hits from `start` on, at and below a folder of the tree or of a share link.

    Raise the problems of its listing, SearchUnavailable or SearchTooSlow.
    """
    require_search(access.tree.settings)
    area = await find_area(access)
    searched = await _find_storages([*area.folders.values()])
    for _ in range(ATTEMPTS - 1):
        try:
            return await _find(area, searched, filters, start, count)
        except DamagedSegment as damaged:
            await _drop_damaged(searched, damaged)
        except TablesLost:
            pass  # another process of the database has empty tables now
    return await _find(area, searched, filters, start, count)


async def _find(
    area: SearchArea, searched: Sequence[SearchedStorage], filters: Filters, start: int, count: int
) -> HitPage:
    """Return the hits. Raise DamagedSegment, SearchTooSlow, or TablesLost if the database ended meanwhile."""
    index = search_index()
    generation = index.database.generation
    opened = await index.tables.open(searched)
    places = [*await _find_virtual(area, opened.places), *opened.places]
    hits, total = await query.run(places, filters, area.evaluator, start, count)
    if index.database.generation != generation:
        raise TablesLost
    is_partial = bool(opened.missing or opened.partial)
    return HitPage([area.show(hit) for hit in hits], total, opened.behind, opened.missing, is_partial)


async def _find_storages(folders: Sequence[PathAccess]) -> list[SearchedStorage]:
    """Return the storages that hold the folders or are mounted below one, if they have an index and run."""
    if not folders:
        return []
    table, settings = folders[0].tree.table, folders[0].tree.settings
    roots: dict[TreePath, list[TreePath]] = {}
    for top in (folder.path for folder in folders):
        if holding := table.find_mounts(top):
            roots.setdefault(holding[0].path, []).append(top.below(holding[0].path))
        for path in table.mount_paths:
            if path.within(top) and path != top:
                roots.setdefault(path, []).append(ROOT)
    chosen = [_choose_running(table.by_path[path], settings) for path in roots]
    paths = list(roots)
    waiting = [number for number, mount in enumerate(chosen) if mount is None]
    started = await asyncio.gather(*(_choose(table.by_path[paths[number]], settings) for number in waiting))
    for number, mount in zip(waiting, started, strict=True):
        chosen[number] = mount
    return [
        SearchedStorage(mount.storage.id, path, tuple(roots[path]), tuple(table.nested.get(path, ())))
        for path, mount in zip(paths, chosen, strict=True)
        if mount is not None
    ]


def _choose_running(mounts: Sequence[Mount], settings: Settings) -> Mount | None:
    """Return the first of the storages at a path that has an index, if it runs."""
    mount = next((mount for mount in mounts if is_indexed(mount.storage, settings)), None)
    runs = mount is not None and mount.driver is not None and not mount.has_failed and not mount.is_unreachable
    return mount if runs else None


async def _choose(mounts: Sequence[Mount], settings: Settings) -> Mount | None:
    """Return the first of the storages at a path that has an index and runs: balanced ones hold the same files."""
    for mount in mounts:
        if is_indexed(mount.storage, settings) and await _is_working(mount):
            return mount
    return None


async def _is_working(mount: Mount) -> bool:
    try:
        async with asyncio.timeout(START_SECONDS):
            driver = await mount.get_driver()
            if mount.has_failed:  # it may work nevertheless
                await driver.stat(ROOT)
    except Problem:
        return False
    except TimeoutError:
        return mount.storage.status == WORKING
    return True


async def _drop_damaged(searched: Sequence[SearchedStorage], damaged: DamagedSegment) -> None:
    store = runtime.get(SegmentStore)
    for storage in searched:
        segments = store.get_opened(storage.id)
        if segments is not None and damaged.data in {path.name for path in (*segments.names, *segments.folders)}:
            await store.drop_damaged(segments, damaged.data)


async def _find_virtual(area: SearchArea, places: Sequence[SearchSource]) -> list[SearchSource]:
    """Return the names that no storage has, as listings show them."""
    sources = []
    if area.folders:
        source = await _find_virtual_folders(next(iter(area.folders.values())), places)
        sources.append(replace(source, roots=tuple(area.folders)))
    if area.names:
        tables = search_index().tables
        sources.append(tables.get_virtual(area.names) or await tables.set_virtual(area.names, area.names))
    return sources


async def _find_virtual_folders(access: PathAccess, places: Sequence[SearchSource]) -> SearchSource:
    """Return the folders of the tree that are mounts or lead to them.

    A folder that leads to a mount and that a storage has is in the index of that storage.
    """
    table, scope, tables = access.tree.table, IndexScope.make(access.tree.settings), search_index().tables
    by_mount = {place.mount: place for place in places}
    inside: defaultdict[TreePath, list[tuple[TreePath, str]]] = defaultdict(list)
    for folder, name, _ in table.virtual_folders:
        if folder / name not in table.by_path and (holding := table.find_mounts(folder)):
            inside[holding[0].path].append((folder, name))
    requested_names = {path: names for path, names in inside.items() if path in by_mount}
    key = table, scope, tables.get_versions(by_mount[path].storage_id for path in requested_names)
    place = tables.get_virtual(key)
    if place is None:
        known: set[tuple[str, str]] = set()
        for path, names in requested_names.items():
            known |= await _find_known(by_mount[path], [name for _, name in names])
        changes = [
            IndexChange(VIRTUAL, ChangeKind.NAMES, folder, entries=(IndexedName(name, True, 0, modified),))
            for folder, name, mount in table.virtual_folders
            for modified in [mount.storage.modified.timestamp()]
            if (str(folder), name) not in known and scope.has_folder(folder)
            if scope.select(folder, [Entry(name, 0, modified, True)])
        ]
        place = await tables.set_virtual(key, changes)
    return place


async def _find_known(place: SearchSource, names: Sequence[str]) -> set[tuple[str, str]]:
    """Return the names that a storage has, with the tree paths of their folders."""
    place = replace(place, roots=(ROOT,))
    parts = [TablesPart(0, [place]), *([SegmentsPart(1, place)] if place.segments is not None else ())]
    named = SqlCondition("coalesce(name, folded) IN (SELECT unnest(?::VARCHAR[]))", ([*map(encode_name, names)],))
    rows = unite(part.select(named) for part in parts)
    known_rows = await search_index().database.run(f"SELECT parent, name FROM ({rows.text})", rows.parameters)
    return {(decode_name(parent), decode_name(name)) for parent, name in known_rows}
