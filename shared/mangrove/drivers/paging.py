"""The power to list a folder in pages, and from any name on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Driver, Entry
from mangrove.drivers.power import Power


class EntriesPage(NamedTuple):
    """Some entries of a folder; `next_start`: where those behind them begin, "" at the end."""

    entries: Sequence[Entry]
    next_start: str


@runtime_checkable
class ListsPages(Power, Protocol):
    """A storage that lists a folder in pages of its own length, one call for each, and goes on later from any of them.

    `list` yields the same entries in the same order.
    """

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        """The page that begins at `start`, which is the `next_start` of another one, however old; "" for the first.

        `prefix`: only the names that begin so. EntryNotFound, or NotAFolder, where the first page shows that; not with
        a prefix.
        """
        ...


@runtime_checkable
class ListsRanges(ListsPages, Protocol):
    """One that begins a listing anywhere. Its order is that of `get_key`, by code points."""

    async def list_range(self, path: TreePath, after: str, most: int) -> EntriesPage:
        """The first entries, `most` at the most, whose keys come after `after`; none where there is no such folder."""
        ...


def get_key(entry: Entry) -> str:
    """What an entry is sorted by."""
    return f"{entry.name}/" if entry.is_dir else entry.name


class PagedPlace(NamedTuple):
    """A folder of a storage that lists it in pages."""

    driver: ListsPages
    path: TreePath


@runtime_checkable
class ShowsPages(Power, Protocol):
    """A storage that shows folders of others, some of them as they are."""

    async def find_paged(self, path: TreePath) -> PagedPlace | None:
        """The folder whose pages hold all that this one shows, in the same order; None when there is no such one."""
        ...


async def find_paged(driver: Driver, path: TreePath) -> PagedPlace | None:
    """Where a folder is listed in pages; None where it is not."""
    if isinstance(driver, ListsPages):
        return PagedPlace(driver, path)
    if not isinstance(driver, ShowsPages):
        return None
    try:
        return await driver.find_paged(path)
    except StorageProblem:
        return None  # a listing tells why
