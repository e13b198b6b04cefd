"""The hits of a search, and the visibility of hits for a caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, Protocol

from mangrove.core.paths import TreePath


class Hit(NamedTuple):
    """A matching name.

    `parent`: the tree path of its folder; the rest as in `drivers.base.Entry`.
    """

    parent: TreePath
    name: str
    is_dir: bool
    size: int | None
    modified: float


class Seen(Enum):
    """The visibility of a folder as a whole."""

    NOTHING = 0
    EVERYTHING = 1


NOTHING: Literal[Seen.NOTHING] = Seen.NOTHING
EVERYTHING: Literal[Seen.EVERYTHING] = Seen.EVERYTHING

Visibility = Seen | Callable[[Hit], bool]


@dataclass(frozen=True, slots=True)
class HidableRows:
    """Hits that rules may hide: names that match one of the RE2 `patterns`, and with `folders` all folders."""

    patterns: tuple[str, ...]
    folders: bool


class VisibilityEvaluator(Protocol):
    """The visibility of folders for a caller. It is called in a thread, for one folder after the other."""

    @property
    def is_needed(self) -> bool:
        """False if the caller may see everything."""
        ...

    @property
    def hidable(self) -> HidableRows | None:
        """The hits that have to be tested in a folder that is partly visible; None for every hit."""
        ...

    def evaluate(self, parent: TreePath) -> Visibility:
        """Return NOTHING, EVERYTHING, or a test of each hit in the folder of that tree path."""
        ...
