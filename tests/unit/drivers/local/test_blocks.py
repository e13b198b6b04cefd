"""Bytes of local files in blocks: ranges, handles that are closed, writes that a cancellation does not tear."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import socket
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mangrove.core.problems import StorageFull
from mangrove.drivers.base import BLOCK
from mangrove.drivers.local import blocks
from mangrove.drivers.local.blocks import (
    SLOW_BLOCK_SECONDS,
    SMALL_BLOCK,
    SWALLOWED,
    FileHandle,
    Pace,
    read_blocks,
    write_body,
)
from mangrove.drivers.threads import StorageThreads


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd"))


RANGES = [(0, None), (0, 0), (1, 10), (BLOCK - 1, 2), (BLOCK, None), (2 * BLOCK, 99), (9 * BLOCK, None)]
BODIES = [
    [],
    [b""],
    [b"a", b"b"],
    [b"", b"ab", b""],
    [b"x"] * 3000,
    [bytes(BLOCK)] * 3 + [b"end"],
    [bytes(3 * BLOCK + 1)],
]


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_a_range_is_read_in_blocks(tmp_path: Path, offset: int, length: int | None) -> None:
    content = os.urandom(2 * BLOCK + 5)
    (tmp_path / "f").write_bytes(content)

    async def read() -> list[bytes]:
        threads = StorageThreads("test")
        handle = FileHandle(os.open(tmp_path / "f", os.O_RDONLY), threads)
        return [block async for block in read_blocks(threads, handle, offset, length)]

    blocks = asyncio.run(read())
    assert b"".join(blocks) == content[offset : None if length is None else offset + length]
    assert all(0 < len(block) <= BLOCK for block in blocks)


def test_a_handle_is_closed_however_its_reader_ends(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(3 * BLOCK))

    def open_reader() -> AsyncIterator[bytes]:
        return read_blocks(threads, FileHandle(os.open(tmp_path / "f", os.O_RDONLY), threads), 0, None)

    async def all_closed() -> None:
        async with asyncio.timeout(30):
            while open_handles() > before:  # they are closed in a thread
                gc.collect()
                await asyncio.sleep(0.01)

    threads = StorageThreads("test")
    before = 0

    async def go() -> None:
        nonlocal before
        await threads.run(time.sleep, 0)
        before = open_handles()
        open_reader()  # never iterated
        gc.collect()
        await all_closed()
        async for _ in (left := open_reader()):
            break
        await left.aclose()  # type: ignore[attr-defined]
        await all_closed()

    asyncio.run(go())


@pytest.mark.parametrize("chunks", BODIES)
def test_a_body_is_written_whole_and_its_size_returned(tmp_path: Path, chunks: list[bytes]) -> None:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    with open(tmp_path / "f", "wb") as file:
        size = asyncio.run(write_body(StorageThreads("test"), body(), file.fileno()))
    assert (tmp_path / "f").read_bytes() == b"".join(chunks)
    assert size == len(b"".join(chunks))


def test_a_body_is_written_whole_where_the_system_takes_a_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_some(handle: int, buffers: Sequence[bytes], offset: int) -> int:
        return os.pwrite(handle, b"".join(buffers)[:5], offset)

    async def body() -> AsyncIterator[bytes]:
        for chunk in (b"abc", b"", b"defgh", b"ijklmnopqr", b"s"):
            yield chunk

    monkeypatch.setattr(os, "pwritev", write_some)
    with open(tmp_path / "f", "wb") as file:
        assert asyncio.run(write_body(StorageThreads("test"), body(), file.fileno())) == 19
    assert (tmp_path / "f").read_bytes() == b"abcdefghijklmnopqrs"


def test_a_client_that_makes_room_gets_more_by_the_same_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(8 * BLOCK)  # more than the kernel keeps for a connection
    (tmp_path / "f").write_bytes(content)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def send() -> list[int]:
        handle = FileHandle(os.open(tmp_path / "f", os.O_RDONLY), StorageThreads("test"))
        parts = [await handle.send_to(ours.fileno(), 0, BLOCK)]
        while parts[-1]:  # nobody takes any
            try:
                parts.append(await handle.send_to(ours.fileno(), sum(parts), 1))
            except BlockingIOError:
                break
        monkeypatch.setattr(blocks, "MAX_SEND_SECONDS", 120.0)
        taking = asyncio.create_task(asyncio.to_thread(take))
        await asyncio.to_thread(select.select, (), [ours], ())
        parts.append(await handle.send_to(ours.fileno(), sum(parts), len(content)))
        assert await handle.send_to(ours.fileno(), sum(parts), 1) == 0
        ours.shutdown(socket.SHUT_WR)
        assert await taking == content
        return parts

    def take() -> bytes:
        received = bytearray()
        while block := theirs.recv(1 << 16):
            received += block
        return bytes(received)

    with ours, theirs:
        parts = asyncio.run(send())
    assert sum(parts) == len(content)
    assert parts[-1] > 4 * BLOCK


def test_an_error_of_the_disk_is_a_problem(tmp_path: Path) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x"

    handle = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(StorageFull, match="no space left on the storage"):
            asyncio.run(write_body(StorageThreads("test"), body(), handle))
    finally:
        os.close(handle)


def test_a_blocking_function_ends_before_its_cancelled_caller_does() -> None:
    async def go() -> None:
        ended: list[str] = []

        def work(name: str) -> None:
            time.sleep(0.1)
            ended.append(name)

        caller = asyncio.create_task(StorageThreads("test").run_to_completion(work, "work"))
        await asyncio.sleep(0.02)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert ended == ["work"]

    asyncio.run(go())


def test_blocks_are_small_until_a_reader_is_known_to_be_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(bytes(SWALLOWED + 3 * BLOCK))

    async def read() -> list[int]:
        threads = StorageThreads("test")
        handle = FileHandle(os.open(tmp_path / "f", os.O_RDONLY), threads)
        return [len(block) async for block in read_blocks(threads, handle, 0, None)]

    with monkeypatch.context() as patient:
        patient.setattr(blocks, "SLOW_BLOCK_SECONDS", 60.0)
        sizes = asyncio.run(read())
    small = sizes[: SWALLOWED // SMALL_BLOCK]
    assert set(small) == {SMALL_BLOCK}
    assert BLOCK in sizes
    pace = Pace()
    pace.note(SWALLOWED, 0.0)
    assert pace.block == BLOCK
    pace.note(BLOCK, SLOW_BLOCK_SECONDS)
    assert pace.block == SMALL_BLOCK
