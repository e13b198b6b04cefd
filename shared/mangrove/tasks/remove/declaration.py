"""The machine that removes, and restores from the trash: its models and its steps.

Its tasks are of the kind `move`, as clients know them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mangrove.tasks.core.model import CopyCursor, Machine, Schema, Spec, Step, TaskKind, WalkCursor


@dataclass(kw_only=True)
class RemoveSpec(Spec):
    """Remove entries of a folder, or all folders without a file below it, or restore entries of the trash."""

    machine: Literal["remove"] = "remove"
    folder: str
    """A path of the tree."""
    password: str = ""
    """The password of the folder."""
    count: int = 0
    """Rows of the list of entries in staging; 0 for the empty folders."""
    restores: bool = False
    """True if the list has ids of entries of the trash, which are restored."""
    overwrite: bool = False
    """True if a restored entry replaces an entry that has its name."""


@dataclass(kw_only=True)
class RemoveCursor(CopyCursor, WalkCursor):
    """The progress of the removal in the list of entries, or in the list of folders."""

    position: int = 0
    """Entries of the list that were removed or failed."""


REMOVE = Schema(RemoveSpec, RemoveCursor)
MACHINE = Machine("remove", REMOVE, (Step("Remove", "worker:remove"), Step("Settle", "worker:clean")))
KINDS: tuple[TaskKind, ...] = ()
