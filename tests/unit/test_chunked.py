"""Work in chunks has the same result as the work in one piece, and gives other tasks their turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from mangrove.core.chunked import chunked, iterate_chunked, split_chunks, stream


@chunked
def count_slowly(rounds: int) -> Generator[None, None, int]:
    for _ in range(rounds):
        time.sleep(0.001)
        yield
    return rounds


def test_others_have_their_turn_while_work_goes_on() -> None:
    async def go() -> None:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        other = asyncio.create_task(take_turns())
        assert await count_slowly(50) == 50
        assert turns > 10
        turns = 0
        async for _ in iterate_chunked(range(20)):
            time.sleep(0.001)  # noqa: ASYNC251 - what takes this long here is work
        assert turns > 3
        other.cancel()

    asyncio.run(go())


def test_an_error_in_the_work_is_raised() -> None:
    @chunked
    def fail() -> Generator[None, None, Any]:
        time.sleep(0.01)
        yield
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        asyncio.run(fail())


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
