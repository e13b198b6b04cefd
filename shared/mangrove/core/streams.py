"""Bodies as they pass: asynchronous iterators of blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def split_chunks(blocks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in chunks of exactly `size`, the last one shorter."""
    waiting: list[bytes] = []
    length = 0
    async for block in blocks:
        start = 0
        while length + len(block) - start >= size:
            cut = start + size - length
            yield b"".join([*waiting, block[start:cut]])
            waiting, length, start = [], 0, cut
        if start < len(block):
            waiting.append(block[start:])
            length += len(block) - start
    if waiting:
        yield b"".join(waiting)


async def stream(content: bytes) -> AsyncIterator[bytes]:
    """A body of these bytes."""
    if content:
        yield content
