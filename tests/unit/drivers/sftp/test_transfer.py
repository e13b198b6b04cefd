"""Bytes of files, on a server that answers as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mangrove.core.problems import EntryChanged, Unreachable
from mangrove.drivers.sftp import transfer
from mangrove.drivers.sftp.errors import translate_errors
from mangrove.drivers.sftp.once import Once
from mangrove.drivers.sftp.transfer import Body, write_blocks
from tests.contract.drivers.actions import body

CONTENT = bytes(range(256)) * 40


class OddFile:
    """A file whose server gives what it likes: at most `shortest` bytes, late ones before early ones."""

    def __init__(self, content: bytes = b"", shortest: int = 1 << 20) -> None:
        self.content = bytearray(content)
        self.shortest = shortest
        self.under_way = self.most = 0
        self.failure: Exception | None = None

    async def _wait(self, offset: int) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(offset % 7):
            await asyncio.sleep(0)
        self.under_way -= 1
        if self.failure is not None and offset > 5000:
            raise self.failure

    async def read(self, size: int, offset: int) -> bytes:
        await self._wait(offset)
        return bytes(self.content[offset : offset + min(size, self.shortest)])

    async def write(self, content: bytes, offset: int) -> int:
        await self._wait(offset)
        self.content.extend(bytes(max(offset + len(content) - len(self.content), 0)))
        self.content[offset : offset + len(content)] = content
        return len(content)


class OddSession:
    read_block = write_block = 100

    async def ask(self, request: Awaitable[Any], name: str = "") -> Any:
        with translate_errors(name):
            return await request


def run(work: Callable[[Any], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await work(OddSession())

    asyncio.run(all_of_it())


async def read(session: Any, file: OddFile, offset: int, end: int | None) -> bytes:
    return b"".join([block async for block in Body(session, file, "f", (offset, end), AsyncExitStack())])


@pytest.mark.parametrize("shortest", [1 << 20, 64, 33])
@pytest.mark.parametrize(
    ("offset", "end"),
    [(0, None), (0, len(CONTENT)), (7, 1234), (0, 0), (5, 5), (99, 10_240), (30_000, None), (10_200, None)],
)
def test_every_range_comes_in_order(shortest: int, offset: int, end: int | None) -> None:
    async def work(session: Any) -> None:
        assert await read(session, OddFile(CONTENT, shortest), offset, end) == CONTENT[offset:end]

    run(work)


def test_a_file_that_becomes_shorter_is_noticed() -> None:
    async def work(session: Any) -> None:
        with pytest.raises(EntryChanged):
            await read(session, OddFile(CONTENT), 99, len(CONTENT) + 1)

    run(work)


def test_little_is_asked_for_until_it_is_known_to_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "AHEAD", 3000)
    monkeypatch.setattr(transfer, "FIRST_AHEAD", 500)
    monkeypatch.setattr(transfer, "YIELDED", 100)

    async def work(session: Any) -> None:
        file = OddFile(CONTENT)
        reading = Body(session, file, "f", (0, None), AsyncExitStack())
        await anext(reading)
        assert file.most <= 5
        assert b"".join([block async for block in reading]) == CONTENT[100:]
        assert 20 <= file.most <= 31

    run(work)


def test_a_failure_in_the_middle_releases_what_was_held() -> None:
    async def work(session: Any) -> None:
        file, released = OddFile(CONTENT), asyncio.Event()
        file.failure = ConnectionResetError()
        held = AsyncExitStack()
        held.callback(released.set)
        reading = Body(session, file, "f", (0, None), held)
        with pytest.raises(Unreachable):
            async for _ in reading:
                pass
        assert released.is_set()
        await reading.aclose()

    run(work)


def test_what_nobody_reads_is_released() -> None:
    async def work(session: Any) -> None:
        for taken in (0, 1):
            released, held = asyncio.Event(), AsyncExitStack()
            held.callback(released.set)
            reading = Body(session, OddFile(CONTENT), "f", (0, None), held)
            for _ in range(taken):
                await anext(reading)
            del reading
            await asyncio.wait_for(released.wait(), 30)

    run(work)


def test_a_body_is_written_in_requests_of_one_size_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "AHEAD", 1000)

    async def work(session: Any) -> None:
        file = OddFile(b"old")
        pieces = body(CONTENT[:5], CONTENT[5:5000], b"", CONTENT[5000:])
        assert await write_blocks(session, file, "f", pieces, 3) == len(CONTENT) + 3
        assert file.content == b"old" + CONTENT
        assert 5 <= file.most <= 10
        file.failure = ConnectionResetError()
        with pytest.raises(Unreachable):
            await write_blocks(session, file, "f", body(CONTENT))

    run(work)


def test_what_is_found_out_once_is_looked_for_again_only_after_a_failure() -> None:
    tries: list[int] = []

    async def find() -> int:
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise Unreachable
        return len(tries)

    once = Once(find)

    async def ask() -> list[Any]:
        return await asyncio.gather(*(once.get() for _ in range(5)), return_exceptions=True)

    assert {type(one) for one in asyncio.run(ask())} == {Unreachable}
    assert asyncio.run(ask()) == asyncio.run(ask()) == [2] * 5
    assert len(tries) == 2
