"""Bodies as they pass: asynchronous iterators of blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def split_chunks(blocks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in chunks of exactly `size`, the last one shorter."""
    waiting: list[bytes] = []
    length = 0
    async for block in blocks:
        while length + len(block) >= size:
            cut = size - length
            yield b"".join([*waiting, block[:cut]])
            waiting, length, block = [], 0, block[cut:]
        if block:
            waiting.append(block)
            length += len(block)
    if waiting:
        yield b"".join(waiting)


async def stream(content: bytes) -> AsyncIterator[bytes]:
    """A body of these bytes."""
    if content:
        yield content
