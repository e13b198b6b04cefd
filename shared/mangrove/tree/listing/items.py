"""What the verbs hand to a task: entries that they could not move, copy or rename at once."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry

NOTHING = Entry("", None, 0.0, False)  # of an item that nobody has looked at yet


@dataclass(frozen=True, slots=True)
class Item:
    """One entry: its name in messages, its paths in the source's and the target's storage, what it was when it was
    looked at, and whether it may replace what is at the target."""

    name: str
    path: TreePath
    target: TreePath
    entry: Entry
    overwrite: bool = False

    @property
    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self.entry.is_dir
