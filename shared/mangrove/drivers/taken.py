"""Lookups of many names that may be taken in a storage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os.path import commonprefix

from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFolder
from mangrove.drivers.base import Driver

MAX_PAGES_PER_FOLDER = 3  # of a folder, read to learn its content
LOOKUP_CONCURRENCY = 8  # folders, or names


async def find_taken(driver: Driver, targets: Sequence[TreePath]) -> set[TreePath]:
    """Return the paths that exist: from a listing of each folder, or of a large folder by individual lookups."""
    folders: dict[TreePath, list[str]] = {}
    for path in targets:
        folders.setdefault(path.parent, []).append(path.name)

    async def find(folder: TreePath, names: Sequence[str]) -> set[TreePath]:
        begin = commonprefix(names)  # noqa: RUF071 - names are compared, not paths
        start, taken_names = "", set[str]()
        for _ in range(MAX_PAGES_PER_FOLDER):
            try:
                page = await driver.list_page(folder, start, begin)
            except (EntryNotFound, NotAFolder):
                return set()
            taken_names |= {entry.name for entry in page.entries}
            start = page.next_start
            if not start:
                return {folder / name for name in names if name in taken_names}
        paths = [folder / name for name in names]
        taken = await gather_bounded([partial(_is_taken, driver, path) for path in paths], LOOKUP_CONCURRENCY)
        return {path for path, is_taken in zip(paths, taken, strict=True) if is_taken}

    return set().union(*await gather_bounded([partial(find, *item) for item in folders.items()], LOOKUP_CONCURRENCY))


async def _is_taken(driver: Driver, path: TreePath) -> bool:
    try:
        await driver.stat(path)
    except EntryNotFound:
        return False
    return True
