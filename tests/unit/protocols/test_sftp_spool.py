"""Bytes that wait to become a file: a block that was not written is never forgotten."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import BLOCK, StagedFile
from mangrove.protocols.sftp.handles import ConnectionHandles, SftpBudget
from mangrove.protocols.sftp.writing import Spool
from tests.unit.protocols.sftp_scene import open_nothing


def make_handles() -> ConnectionHandles:
    return ConnectionHandles(SftpBudget(None), 1)


class FullDisk:
    """A nameless file on a disk that has room for one block."""

    is_committed = False

    async def write(self, offset: int, content: bytes) -> None:
        if offset >= BLOCK:
            raise StorageProblem("no space left")

    async def read(self, offset: int, size: int) -> bytes:
        return bytes(size)

    async def truncate(self, size: int) -> None:
        pass

    def close(self) -> None:
        pass


async def open_full_disk() -> FullDisk:
    return FullDisk()


def test_after_a_block_that_was_not_written_nothing_more_is_taken() -> None:
    async def work() -> None:
        spool = Spool(make_handles(), open_full_disk)
        with pytest.raises(StorageProblem, match="no space left"):
            for number in range(8):
                await spool.write(number * BLOCK, bytes(BLOCK))
        for call in (spool.flush(), spool.write(0, b"x" * BLOCK), spool.truncate(1), spool.read(0, 1)):
            with pytest.raises(StorageProblem, match="no space left"):
                await call
        await spool.close()

    asyncio.run(work())


def test_a_block_under_way_is_read_back_and_ends_before_the_file_is_closed() -> None:
    async def work() -> None:
        spool = Spool(make_handles(), open_nothing)
        for number in range(5):
            await spool.write(number * BLOCK, bytes([number]) * BLOCK)
        await spool.write(2 * BLOCK, b"over")
        assert await spool.read(2 * BLOCK - 2, 8) == b"\1\1over\2\2"
        assert (await spool.read(4 * BLOCK, 2 * BLOCK)) == bytes([4]) * BLOCK
        await spool.write(5 * BLOCK, bytes(BLOCK))
        await spool.write(6 * BLOCK, b"end")
        await spool.close()

    asyncio.run(work())


def test_small_file_stays_in_memory_in_any_order() -> None:
    async def refuse() -> StagedFile:
        raise AssertionError("a small file needs no other file")

    async def work() -> None:
        spool = Spool(make_handles(), refuse)
        assert await spool.reserve(BLOCK)
        await spool.write(4, b"end")
        await spool.write(0, b"ab")
        assert await spool.read(0, BLOCK) == b"ab\0\0end"
        await spool.truncate(5)
        await spool.truncate(6)
        assert (await spool.read(1, 3), await spool.read(3, BLOCK)) == (b"b\0\0", b"\0e\0")
        assert spool.size == 6 and spool.can_extend
        await spool.close()

    asyncio.run(work())


def test_file_leaves_memory_with_its_bytes_when_it_grows() -> None:
    async def work() -> None:
        spool = Spool(make_handles(), open_nothing)
        await spool.write(0, b"start")
        await spool.write(5, bytes(BLOCK))
        await spool.write(BLOCK + 5, b"end")
        assert not spool.can_extend
        assert await spool.read(0, 6) == b"start\0"
        assert await spool.read(BLOCK + 4, 10) == b"\0end"
        await spool.close()

    asyncio.run(work())
