"""The readers that the formats are made of."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from mangrove.archives import codecs
from mangrove.archives.base import BLOCK_SIZE, RATIO_EXEMPT, ArchiveLimits
from mangrove.archives.readers import (
    MAX_READ_AHEAD,
    MIN_READ_AHEAD,
    Budget,
    DecompressReader,
    HeadReader,
    LimitReader,
    RangeReader,
    ReadAhead,
    Reader,
    RecordReader,
    read_verified,
)
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive, WrongArchivePassword
from tests.unit.archives.packing import Held

T = TypeVar("T")
CONTENT = bytes(range(256)) * 4096


def run(work: Awaitable[T]) -> T:
    async def main() -> T:
        return await work

    return asyncio.run(main())


def plain(content: bytes = CONTENT) -> RangeReader:
    return RangeReader(ReadAhead(Held(content)), 0, len(content))


async def read_all(reader: Reader, length: int = 1000) -> bytes:
    content = bytearray()
    while block := await reader.read(length):
        content += block
    return bytes(content)


def test_reading_ahead_grows_in_order_and_starts_small_after_a_jump() -> None:
    async def read() -> list[int]:
        source, taken = Held(bytes(32 << 20)), []
        ahead, position = ReadAhead(source), 0
        for _ in range(2000):
            before = source.taken
            position += len(await ahead.read(position, 8192, source.size))
            taken.append(source.taken - before)
        before = source.taken
        assert len(await ahead.read(30 << 20, 10, source.size)) == 10
        return [*taken, source.taken - before]

    *grown, after_jump = run(read())
    assert max(grown) == MAX_READ_AHEAD
    assert sum(length > 0 for length in grown) < 20
    assert after_jump == MIN_READ_AHEAD


def test_nothing_is_read_beyond_the_stop_and_a_short_source_is_broken() -> None:
    async def read() -> None:
        source = Held(CONTENT)
        assert await ReadAhead(source).read(10, 1000, 20) == CONTENT[10:20]
        assert source.taken == 10
        assert await ReadAhead(source).read(20, 1000, 20) == b""
        source.size += 5
        with pytest.raises(BrokenArchive, match="ends too early"):
            await ReadAhead(source).read(len(CONTENT) - 5, 10, source.size)

    run(read())


def test_what_is_preloaded_is_not_read_again() -> None:
    async def read() -> int:
        source = Held(CONTENT)
        ahead = ReadAhead(source)
        ahead.preload(100, CONTENT[100:200])
        assert await ahead.read(150, 50, source.size) == CONTENT[150:200]
        return source.taken

    assert run(read()) == 0


def test_records_come_whole_and_skipping_reads_nothing_of_a_source() -> None:
    async def read() -> int:
        source = Held(bytes(10 << 20) + b"end")
        reader = RecordReader(RangeReader(ReadAhead(source), 0, source.size))
        assert await reader.read_exactly(512) == bytes(512)
        await reader.skip_to(10 << 20)
        assert (await reader.read_exactly(3), reader.position) == (b"end", source.size)
        assert await reader.read_up_to(10) == b""
        with pytest.raises(BrokenArchive):
            await reader.read_exactly(1)
        with pytest.raises(BrokenArchive):
            await reader.skip_to(source.size + 1)
        return source.taken

    assert run(read()) < 100_000


def test_a_record_is_put_together_from_many_small_blocks() -> None:
    class Drip:
        def __init__(self) -> None:
            self.left = list(CONTENT[:1000])

        async def read(self, max_length: int) -> bytes:
            return bytes([self.left.pop(0)]) if self.left else b""

    async def read() -> None:
        reader = RecordReader(Drip())
        assert await reader.read_exactly(700) == CONTENT[:700]
        await reader.skip_to(900)
        assert await reader.read_up_to(500) == CONTENT[900:1000]

    run(read())


def test_a_head_is_so_long_and_no_longer() -> None:
    async def read() -> None:
        reader = plain()
        assert await read_all(HeadReader(reader, 2500)) == CONTENT[:2500]
        assert await reader.read(1) == CONTENT[2500:2501]
        with pytest.raises(BrokenArchive, match="ends too early"):
            await read_all(HeadReader(plain(b"abc"), 4))

    run(read())


def test_streams_that_follow_each_other_are_one_only_where_that_is_allowed() -> None:
    packed = zlib.compress(b"one", wbits=31) + zlib.compress(b"two", wbits=31) + bytes(100)
    assert run(read_all(DecompressReader(plain(packed), codecs.make_gzip, concatenated=True))) == b"onetwo"
    assert run(read_all(DecompressReader(plain(packed), codecs.make_gzip))) == b"one"
    with pytest.raises(BrokenArchive, match="ends too early"):
        run(read_all(DecompressReader(plain(packed[:15]), codecs.make_gzip)))


def test_limits_hold_for_skipped_bytes_too() -> None:
    size = 3 * RATIO_EXEMPT
    packed = zlib.compress(bytes(size), wbits=-15)

    def limited(limits: ArchiveLimits) -> RecordReader:
        source = plain(packed)
        return RecordReader(LimitReader(DecompressReader(source, codecs.make_deflate), source, limits))

    run(limited(ArchiveLimits(size=0, ratio=0)).skip_to(size))
    with pytest.raises(ArchiveTooLarge, match="times its size"):
        run(limited(ArchiveLimits(size=0, ratio=10)).skip_to(size))
    with pytest.raises(ArchiveTooLarge):
        run(limited(ArchiveLimits(size=size - 1, ratio=0)).skip_to(size))


def test_a_budget_is_for_all_together() -> None:
    budget = Budget(ArchiveLimits(size=10, ratio=0), 1)
    budget.consume(6)
    with pytest.raises(ArchiveTooLarge):
        budget.consume(5)
    budget.consume(4)
    Budget.make_unlimited().consume(1 << 60)
    with pytest.raises(ArchiveTooLarge):
        Budget(ArchiveLimits(size=0, ratio=1), 1).consume(RATIO_EXEMPT + 1)


async def verify(content: bytes, size: int | None, crc: int | None, *more: object) -> list[bytes]:
    return [block async for block in read_verified(plain(content), size, crc, Budget.make_unlimited(), *more)]  # type: ignore[arg-type]


def test_the_last_block_comes_only_when_the_checksum_is_right() -> None:
    async def read(crc: int) -> list[int]:
        lengths = []
        try:
            async for block in read_verified(plain(big), len(big), crc, Budget.make_unlimited()):
                lengths.append(len(block))
        except BrokenArchive as problem:
            assert problem.message == "the checksum of a file in the archive is wrong"
        return lengths

    big = CONTENT * 3
    assert sum(run(read(zlib.crc32(big)))) == len(big)
    assert sum(run(read(zlib.crc32(big) ^ 1))) < len(big)
    assert max(run(read(0))) <= BLOCK_SIZE


def test_a_size_that_is_wrong_is_told_and_one_that_is_not_known_is_not() -> None:
    assert b"".join(run(verify(b"abc", None, None))) == b"abc"
    assert run(verify(b"abc", 2, zlib.crc32(b"ab"))) == [b"ab"]
    with pytest.raises(BrokenArchive, match="shorter than announced"):
        run(verify(b"abc", 4, None))
    with pytest.raises(BrokenArchive, match="longer than announced"):
        run(verify(b"abc", 2, None, BrokenArchive, True))
    with pytest.raises(WrongArchivePassword, match=r"^wrong archive password$"):
        run(verify(b"abc", 3, 0, WrongArchivePassword))
