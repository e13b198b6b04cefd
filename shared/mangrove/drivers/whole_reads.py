"""The power to read many small files by one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Entry


class WholeFile(NamedTuple):
    """A file as `stat` shows it, and all its bytes, which are of that version."""

    entry: Entry
    content: bytes


@runtime_checkable
class ReadsWhole(Protocol):
    async def read_whole(self, files: Sequence[tuple[TreePath, Entry]]) -> Sequence[WholeFile | StorageProblem]:
        """Files as `stat` or a listing showed them, in their order: each whole, or why not; EntryChanged for another
        one by now. All of them are in memory at once: the caller bounds how much that is."""
        ...
