from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mangrove.core.streams import split_chunks, stream


@pytest.mark.parametrize("size", [1, 3, 5, 100])
def test_chunks_have_one_size_but_the_last_whatever_comes(size: int) -> None:
    blocks = [b"", b"ab", b"c" * 17, b"d", b""]

    async def body() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    async def collect() -> list[bytes]:
        return [chunk async for chunk in split_chunks(body(), size)]

    chunks = asyncio.run(collect())
    assert b"".join(chunks) == b"".join(blocks)
    assert {len(chunk) for chunk in chunks[:-1]} <= {size}
    assert 0 < len(chunks[-1]) <= size


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_stream_of_nothing_has_no_block(content: bytes) -> None:
    async def collect() -> list[bytes]:
        return [block async for block in stream(content)]

    assert asyncio.run(collect()) == ([content] if content else [])
