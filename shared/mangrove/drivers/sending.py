"""The power to send a file to a socket without its bytes passing through the process (sendfile(2))."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry
from mangrove.drivers.power import Power


class SendableFile(Protocol):
    """An open file; closed with its last reference, too."""

    async def send_to(self, socket: int, offset: int, count: int) -> int:
        """Hand a part of the file to a socket that does not block; how many bytes it took, 0 at the end of the file.

        BlockingIOError when it takes none now, ConnectionError when it is closed.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class OpensFiles(Power, Protocol):
    """A storage whose files the kernel of this machine can send."""

    async def open_file(self, path: TreePath, if_match: Entry | None = None) -> SendableFile:
        """Open a file as `read` does; EntryChanged when it is not that of `if_match`."""
        ...
