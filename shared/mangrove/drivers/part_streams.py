"""The power to store a part of a file as it arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from mangrove.core.paths import TreePath


@runtime_checkable
class StreamsParts(Protocol):
    async def stream_part(
        self, path: TreePath, token: str, number: int, offset: int, body: AsyncIterator[bytes]
    ) -> str:
        """As `Parts.write_part`; the blocks are stored as they come, so that the part is never in memory as a whole."""
        ...
