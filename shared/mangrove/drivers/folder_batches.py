"""Many folders of a storage listed by one call: what a walk asks for where a call costs more than a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Entry
from mangrove.drivers.power import Power


class FolderBatch(NamedTuple):
    """Some entries of one of several folders, by its number among them; `problem`: why there are no more of it."""

    number: int
    entries: Sequence[Entry]
    problem: StorageProblem | None = None


@runtime_checkable
class ListsFolders(Power, Protocol):
    def list_folders(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        """What `Driver.list` answers of each of the folders, one after the other."""
        ...
