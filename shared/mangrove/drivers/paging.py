"""The power to list a folder in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mangrove.drivers.base import Entry
from mangrove.paths import TreePath


class EntriesPage(NamedTuple):
    """Some entries of a folder; `next_start`: where those behind them begin, "" at the end."""

    entries: Sequence[Entry]
    next_start: str


@runtime_checkable
class ListsPages(Protocol):
    """A storage that lists a folder in pages of its own length, one call for each, and goes on later from any of them.

    `list` yields the same entries in the same order.
    """

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        """The page that begins at `start`, which is the `next_start` of another one, however old; "" for the first.

        `prefix`: only the names that begin so. NotFound, or NotAFolder, where the first page shows that; not with a
        prefix.
        """
        ...
