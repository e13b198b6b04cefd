"""An entry, and those beside it that may go with it: subtitles of a film, parts of an archive."""

from __future__ import annotations

from mangrove.core.chunked import run_chunked
from mangrove.core.problems import Problem
from mangrove.drivers.base import Entry, PageSource
from mangrove.tree.access import PathAccess, lookup
from mangrove.tree.listing.columns import Selection, make_columns
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath


async def look_up_with_related(access: PathAccess, storage_path: StoragePath) -> tuple[Entry, Selection | None]:
    """The entry at a path, and what of its folder begins with its stem, by name, rules not applied; None where the
    caller may not list the folder, or that fails.

    A storage that lists in pages tells both in one call, of no more than one page.
    """
    name = access.path.name
    stem = name.rpartition(".")[0] or name
    folder = await _find_folder(access)
    if folder is None:
        return await lookup(storage_path, to_show=True), None
    place = await folder.driver.find_paged(folder.path)
    if place is None or await listings().find_fresh(folder) is not None:
        return await lookup(storage_path, to_show=True), await _find_listed(folder, stem)
    found: tuple[Entry | None, Selection | None] = None, None
    try:
        found = await _list(place, stem, name)
    except Problem:
        pass  # the look at the entry tells
    is_same = storage_path.driver.capabilities.list_page and place == (storage_path.driver, storage_path.path.parent)
    entry = found[0] if is_same else None
    return entry or await lookup(storage_path, to_show=True), found[1]


async def _find_folder(access: PathAccess) -> StoragePath | None:
    parent = access.parent
    try:
        return await parent.locate() if parent.may_read() else None
    except Problem:
        return None


async def _find_listed(folder: StoragePath, stem: str) -> Selection | None:
    try:
        return (await listings().get(folder)).find_by_prefix(stem)
    except Problem:
        return None


async def _list(place: PageSource, stem: str, name: str) -> tuple[Entry | None, Selection]:
    """The entry of that name, a file before a folder, if the first page has it; and that page."""
    page = await place.driver.list_page(place.path, prefix=stem)
    named = [entry for entry in page.entries if entry.name == name]
    columns = await run_chunked(make_columns(page.entries))
    beside = await run_chunked(Selection(columns, range(len(columns))).sort_by_name())
    return min(named, key=lambda entry: entry.is_dir, default=None), beside
