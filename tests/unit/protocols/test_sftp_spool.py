"""Bytes that wait to become a file: a block that was not written is never forgotten."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import BLOCK
from mangrove.protocols.sftp.handles import ConnectionHandles, SftpBudget
from mangrove.protocols.sftp.writing import Spool


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


def test_after_a_block_that_was_not_written_nothing_more_is_taken() -> None:
    async def work() -> None:
        spool = Spool(make_handles(), FullDisk())
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
        spool = Spool(make_handles(), None)
        for number in range(5):
            await spool.write(number * BLOCK, bytes([number]) * BLOCK)
        await spool.write(2 * BLOCK, b"over")
        assert await spool.read(2 * BLOCK - 2, 8) == b"\1\1over\2\2"
        assert (await spool.read(4 * BLOCK, 2 * BLOCK)) == bytes([4]) * BLOCK
        await spool.write(5 * BLOCK, bytes(BLOCK))
        await spool.write(6 * BLOCK, b"end")
        await spool.close()

    asyncio.run(work())
