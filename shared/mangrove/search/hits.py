"""What a search finds, and who says what of it a caller may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, Protocol

from mangrove.core.paths import TreePath


class Hit(NamedTuple):
    """A name that is found. `parent`: the tree path of its folder; the rest as in `drivers.base.Entry`."""

    parent: TreePath
    name: str
    is_dir: bool
    size: int | None
    modified: float


class Seen(Enum):
    """What a caller sees of a folder as a whole."""

    NOTHING = 0
    EVERYTHING = 1


NOTHING: Literal[Seen.NOTHING] = Seen.NOTHING
EVERYTHING: Literal[Seen.EVERYTHING] = Seen.EVERYTHING

Visibility = Seen | Callable[[Hit], bool]


@dataclass(frozen=True, slots=True)
class HidableRows:
    """Which hits tests may refuse at all: those whose names one of the `patterns` matches, which are RE2, and with
    `folders` all folders, too."""

    patterns: tuple[str, ...]
    folders: bool


class VisibilityEvaluator(Protocol):
    """Who says what a caller may see. Asked in another thread than the event loop's, one folder after the other."""

    @property
    def is_needed(self) -> bool:
        """False: everything may be seen."""
        ...

    @property
    def hidable(self) -> HidableRows | None:
        """None: every hit in a folder that may be seen in part has to be tested."""
        ...

    def evaluate(self, parent: TreePath) -> Visibility:
        """NOTHING, EVERYTHING, or a test of each hit in the folder of that tree path."""
        ...
