"""Bytes of local files in blocks: ranges, handles that are closed, writes that a cancellation does not tear."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mangrove.drivers.base import BLOCK
from mangrove.drivers.local.blocks import FileHandle, read_blocks, run_in_thread, run_to_completion, write_body
from mangrove.problems import StorageProblem


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd"))


RANGES = [(0, None), (0, 0), (1, 10), (BLOCK - 1, 2), (BLOCK, None), (2 * BLOCK, 99), (9 * BLOCK, None)]
BODIES = [[], [b""], [b"a", b"b"], [bytes(BLOCK)] * 3 + [b"end"], [bytes(3 * BLOCK + 1)]]


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_a_range_is_read_in_blocks(tmp_path: Path, offset: int, length: int | None) -> None:
    content = os.urandom(2 * BLOCK + 5)
    (tmp_path / "f").write_bytes(content)

    async def read() -> list[bytes]:
        handle = FileHandle(os.open(tmp_path / "f", os.O_RDONLY))
        return [block async for block in read_blocks(handle, offset, length)]

    blocks = asyncio.run(read())
    assert b"".join(blocks) == content[offset : None if length is None else offset + length]
    assert all(0 < len(block) <= BLOCK for block in blocks)


def test_a_handle_is_closed_however_its_reader_ends(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(3 * BLOCK))

    def open_reader() -> AsyncIterator[bytes]:
        return read_blocks(FileHandle(os.open(tmp_path / "f", os.O_RDONLY)), 0, None)

    async def go() -> None:
        await run_in_thread(time.sleep, 0)
        before = open_handles()
        open_reader()  # never iterated
        gc.collect()
        assert open_handles() == before
        async for _ in (left := open_reader()):
            break
        await left.aclose()  # type: ignore[attr-defined]
        assert open_handles() == before

    asyncio.run(go())


@pytest.mark.parametrize("chunks", BODIES)
def test_a_body_is_written_whole_and_its_size_returned(tmp_path: Path, chunks: list[bytes]) -> None:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    with open(tmp_path / "f", "wb") as file:
        size = asyncio.run(write_body(body(), file.fileno()))
    assert (tmp_path / "f").read_bytes() == b"".join(chunks)
    assert size == len(b"".join(chunks))


def test_an_error_of_the_disk_is_a_problem(tmp_path: Path) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x"

    handle = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(StorageProblem, match="no space left on the storage"):
            asyncio.run(write_body(body(), handle))
    finally:
        os.close(handle)


def test_a_blocking_function_ends_before_its_cancelled_caller_does() -> None:
    async def go() -> None:
        ended: list[str] = []

        def work(name: str) -> None:
            time.sleep(0.1)
            ended.append(name)

        caller = asyncio.create_task(run_to_completion(work, "work"))
        await asyncio.sleep(0.02)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert ended == ["work"]

    asyncio.run(go())
