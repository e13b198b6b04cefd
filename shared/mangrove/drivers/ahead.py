"""The power to take bytes in any order before they are a file."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.drivers.power import Power


class Ahead(Protocol):
    """A file without a name in a storage. `is_taken`: a `write` has made it the file that it was opened for."""

    is_taken: bool

    async def write(self, offset: int, content: bytes) -> None:
        """Put bytes at an offset; what is not written before it is zeros."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Bytes from `offset`, fewer than `size` only at the end."""
        ...

    async def truncate(self, size: int) -> None:
        """Cut to `size`, or fill up with zeros."""
        ...

    def close(self) -> None:
        """Let go of it; nothing is left of it unless it is taken."""
        ...


@runtime_checkable
class WritesAhead(Power, Protocol):
    """A storage whose `write` takes an `Ahead` of its own, given as `Upload.ahead`, instead of the body."""

    async def open_ahead(self, path: TreePath) -> Ahead:
        """A file for `path`, whose folder exists. NotSupported where it would have to have a name."""
        ...
