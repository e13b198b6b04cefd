"""The context of a driver: its mount, the rest of the tree, and state that processes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mangrove.core.context_variables import set_in_context
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem

if TYPE_CHECKING:
    from mangrove.drivers.base import Driver
    from mangrove.drivers.options import Options

ROOT = TreePath("/")
MAX_REDIRECTS = 8  # storages that lead to storages
_redirects: ContextVar[int] = ContextVar("redirects", default=0)


class Resolver(Protocol):
    """Access of a driver to other parts of the tree. It is passed in its context, never imported."""

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        """Return the running driver of `path` and the path inside it. Raise StorageProblem if there is none."""
        ...

    def folders(self, path: TreePath) -> Sequence[str]:
        """Return the names of the folders right below `path` that lead to mounts."""
        ...


class Redirects(Protocol):
    """The parts of the tree that a storage shows."""

    def find_targets(self, path: TreePath) -> Sequence[TreePath]:
        """Return the paths of the tree to which a path of the storage leads; none if it leads nowhere else."""
        ...

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """Return the paths of the storage that show a folder of the tree; with `below` also those that show only a
        part of it.
        """
        ...


def limit_redirects() -> AbstractContextManager[None]:
    """Count the storages that lead to each other. Raise StorageProblem for too many, as in a circle.

    Do not hold it across the `yield` of a generator.
    """
    count = _redirects.get()
    if count >= MAX_REDIRECTS:
        raise StorageProblem("the storages lead to each other in a circle")
    return set_in_context(_redirects, count + 1)


class SharedState(Protocol):
    """A text that all processes of a service share for one storage. It is not an option."""

    async def read(self) -> str:
        """Return the text, "" at first."""
        ...

    async def replace(self, old: str, new: str) -> bool:
        """Replace the text if it is still `old`. Return True if it was."""
        ...


class LocalState:
    """The state of a driver that no other process runs."""

    def __init__(self) -> None:
        self._text = ""

    async def read(self) -> str:
        """Return the text."""
        return self._text

    async def replace(self, old: str, new: str) -> bool:
        """Replace the text if it is still `old`. Return True if it was."""
        if self._text == old:
            self._text = new
            return True
        return False


@dataclass(frozen=True, slots=True)
class DriverContext:
    """The context of a driver."""

    mount_path: TreePath = ROOT
    modified: float = 0.0  # of the storage's record: seconds since the epoch
    resolver: Resolver | None = None
    report_status: Callable[[str], Awaitable[None]] | None = None
    """Reports the problem of a storage that works nevertheless; "" when it has ended."""
    save_options: Callable[[Options], Awaitable[None]] | None = None
    proxy_range: bool = False  # of the record: bytes that pass through the service are read in ranges of their own
    char_mapping: Mapping[str, str] = field(default_factory=dict)
    """The displayed text by the text in names of the storage that a path cannot contain."""
    storage_id: int = 0  # of the record
    state: SharedState = field(default_factory=LocalState)
