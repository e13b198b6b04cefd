"""Transfers of bytes with a server that answers in any order and in short pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mangrove.core.problems import EntryChanged, Unreachable
from mangrove.drivers.sftp import transfer
from mangrove.drivers.sftp.client import CachedResult
from mangrove.drivers.sftp.errors import translate_errors
from mangrove.drivers.sftp.transfer import SftpStream, write_blocks
from tests.contract.drivers.actions import body

CONTENT = bytes(range(256)) * 40


class OddFile:
    """A file whose server answers with at most `max_answer` bytes, and late requests before early ones."""

    def __init__(self, content: bytes = b"", max_answer: int = 1 << 20) -> None:
        self.content = bytearray(content)
        self.max_answer = max_answer
        self.pending = self.max_pending = 0
        self.failure: Exception | None = None

    async def _wait(self, offset: int) -> None:
        self.pending += 1
        self.max_pending = max(self.max_pending, self.pending)
        for _ in range(offset % 7):
            await asyncio.sleep(0)
        self.pending -= 1
        if self.failure is not None and offset > 5000:
            raise self.failure

    async def read(self, size: int, offset: int) -> bytes:
        await self._wait(offset)
        return bytes(self.content[offset : offset + min(size, self.max_answer)])

    async def write(self, content: bytes, offset: int) -> int:
        await self._wait(offset)
        self.content.extend(bytes(max(offset + len(content) - len(self.content), 0)))
        self.content[offset : offset + len(content)] = content
        return len(content)


class OddSession:
    max_read = max_write = 100

    async def call(self, request: Awaitable[Any], name: str = "") -> Any:
        with translate_errors(name):
            return await request


def run(work: Callable[[Any], Awaitable[None]]) -> None:
    async def run_work() -> None:
        await work(OddSession())

    asyncio.run(run_work())


async def read(session: Any, file: OddFile, offset: int, end: int | None) -> bytes:
    return b"".join([block async for block in SftpStream(session, file, "f", (offset, end), AsyncExitStack())])


@pytest.mark.parametrize("max_answer", [1 << 20, 64, 33])
@pytest.mark.parametrize(
    ("offset", "end"),
    [(0, None), (0, len(CONTENT)), (7, 1234), (0, 0), (5, 5), (99, 10_240), (30_000, None), (10_200, None)],
)
def test_every_range_comes_in_order(max_answer: int, offset: int, end: int | None) -> None:
    async def work(session: Any) -> None:
        assert await read(session, OddFile(CONTENT, max_answer), offset, end) == CONTENT[offset:end]

    run(work)


def test_a_file_that_becomes_shorter_is_noticed() -> None:
    async def work(session: Any) -> None:
        with pytest.raises(EntryChanged):
            await read(session, OddFile(CONTENT), 99, len(CONTENT) + 1)

    run(work)


def test_few_bytes_are_requested_until_the_reader_is_known_to_be_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_PENDING_BYTES", 3000)
    monkeypatch.setattr(transfer, "FIRST_PENDING_BYTES", 500)
    monkeypatch.setattr(transfer, "MIN_BLOCK_BYTES", 100)

    async def work(session: Any) -> None:
        file = OddFile(CONTENT)
        reading = SftpStream(session, file, "f", (0, None), AsyncExitStack())
        await anext(reading)
        assert file.max_pending <= 5
        assert b"".join([block async for block in reading]) == CONTENT[100:]
        assert 20 <= file.max_pending <= 31

    run(work)


def test_a_failure_in_the_middle_releases_the_resources() -> None:
    async def work(session: Any) -> None:
        file, released = OddFile(CONTENT), asyncio.Event()
        file.failure = ConnectionResetError()
        resources = AsyncExitStack()
        resources.callback(released.set)
        reading = SftpStream(session, file, "f", (0, None), resources)
        with pytest.raises(Unreachable):
            async for _ in reading:
                pass
        assert released.is_set()
        await reading.aclose()

    run(work)


def test_a_stream_without_a_reader_is_released() -> None:
    async def work(session: Any) -> None:
        for count in (0, 1):
            released, resources = asyncio.Event(), AsyncExitStack()
            resources.callback(released.set)
            reading = SftpStream(session, OddFile(CONTENT), "f", (0, None), resources)
            for _ in range(count):
                await anext(reading)
            del reading
            await asyncio.wait_for(released.wait(), 30)

    run(work)


def test_a_body_is_written_in_many_concurrent_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_PENDING_BYTES", 1000)

    async def work(session: Any) -> None:
        file = OddFile(b"old")
        pieces = body(CONTENT[:5], CONTENT[5:5000], b"", CONTENT[5000:])
        assert await write_blocks(session, file, "f", pieces, 3) == len(CONTENT) + 3
        assert file.content == b"old" + CONTENT
        assert 5 <= file.max_pending <= 10
        file.failure = ConnectionResetError()
        with pytest.raises(Unreachable):
            await write_blocks(session, file, "f", body(CONTENT))

    run(work)


def test_a_cached_result_is_computed_again_only_after_a_failure() -> None:
    attempts: list[int] = []

    async def compute() -> int:
        attempts.append(1)
        await asyncio.sleep(0)
        if len(attempts) == 1:
            raise Unreachable
        return len(attempts)

    cached = CachedResult(compute)

    async def get_five() -> list[Any]:
        return await asyncio.gather(*(cached.get() for _ in range(5)), return_exceptions=True)

    assert {type(result) for result in asyncio.run(get_five())} == {Unreachable}
    assert asyncio.run(get_five()) == asyncio.run(get_five()) == [2] * 5
    assert len(attempts) == 2
