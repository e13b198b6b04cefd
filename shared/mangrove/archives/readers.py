"""Readers of an archive's bytes. Each one reads from the next only when it is read itself, so memory stays limited."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from mangrove.archives.base import BLOCK_SIZE, RATIO_EXEMPT, ArchiveLimits, Source
from mangrove.archives.codecs import Decompressor
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive, Problem

CHUNK_SIZE = 1 << 16  # bytes of packed data that are unpacked together
INLINE_SIZE = 1 << 14  # bytes below which processing is faster than starting a thread
MIN_READ_AHEAD, MAX_READ_AHEAD = 1 << 13, 1 << 22  # bytes
MAX_EMPTY_STREAMS = 1000  # consecutive streams that unpack to nothing
TRUNCATED = "the archive ends too early"


class Reader(Protocol):
    async def read(self, max_length: int) -> bytes:
        """Return up to `max_length` bytes, at least one; `b""` at the end."""
        ...


class ReadAhead:
    """A source with a read-ahead that doubles while reads are sequential, up to MAX_READ_AHEAD bytes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.size = source.size
        self._start = 0
        self._buffer = b""
        self._ahead = MIN_READ_AHEAD

    def preload(self, start: int, content: bytes) -> None:
        """Set the buffer to `content`: the bytes of the source from `start` on."""
        self._start, self._buffer = start, content

    async def read(self, offset: int, max_length: int, stop: int) -> bytes:
        """Return up to `max_length` bytes from `offset`, none from `stop` on.

        Raise BrokenArchive if the source is shorter.
        """
        start = offset - self._start
        if not 0 <= start < len(self._buffer):
            gap = start - len(self._buffer)
            self._ahead = min(self._ahead * 2, MAX_READ_AHEAD) if 0 <= gap <= self._ahead else MIN_READ_AHEAD
            length = min(max(self._ahead, min(max_length, MAX_READ_AHEAD)), min(stop, self.size) - offset)
            if length <= 0:
                return b""
            self._start, self._buffer, start = offset, await self.source.read(offset, length), 0
            if len(self._buffer) != length:
                raise BrokenArchive(TRUNCATED)
        return self._buffer[start : start + min(max_length, stop - offset)]


class RangeReader:
    """The bytes of a source from `position` up to `stop`; skipping reads nothing."""

    def __init__(self, read_ahead: ReadAhead, position: int, stop: int) -> None:
        self._read_ahead = read_ahead
        self.position = position
        self.stop = stop

    async def read(self, max_length: int) -> bytes:
        block = await self._read_ahead.read(self.position, max_length, self.stop)
        self.position += len(block)
        return block


class HeadReader:
    """The first `remaining` bytes of a reader. It raises BrokenArchive if there are fewer."""

    def __init__(self, reader: Reader, remaining: int) -> None:
        self._reader = reader
        self._remaining = remaining

    async def read(self, max_length: int) -> bytes:
        if not self._remaining:
            return b""
        block = await self._reader.read(min(max_length, self._remaining))
        if not block:
            raise BrokenArchive(TRUNCATED)
        self._remaining -= len(block)
        return block


class RecordReader:
    """A reader of records of a known length that can skip to later positions."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._min_read = 0 if isinstance(reader, RangeReader) else CHUNK_SIZE  # a source has its own read-ahead
        self._buffer = b""
        self._offset = 0  # in the buffer
        self.position = 0

    async def read(self, max_length: int) -> bytes:
        if self._offset >= len(self._buffer):
            self._buffer, self._offset = await self._reader.read(max(max_length, self._min_read)), 0
        block = self._buffer[self._offset : self._offset + max_length]
        self._offset += len(block)
        self.position += len(block)
        return block

    async def read_up_to(self, length: int) -> bytes:
        """Return `length` bytes, fewer only at the end."""
        block = await self.read(length)
        if len(block) in (0, length):
            return block
        content = bytearray(block)
        while len(content) < length and (block := await self.read(length - len(content))):
            content += block
        return bytes(content)

    async def read_exactly(self, length: int) -> bytes:
        """Return `length` bytes. Raise BrokenArchive if there are fewer."""
        content = await self.read_up_to(length)
        if len(content) != length:
            raise BrokenArchive(TRUNCATED)
        return content

    async def skip_to(self, position: int) -> None:
        """Continue at a later position. Raise BrokenArchive if the reader ends before it."""
        buffered = min(position - self.position, len(self._buffer) - self._offset)
        self._offset += buffered
        self.position += buffered
        if position > self.position and isinstance(self._reader, RangeReader):
            self._reader.position += position - self.position
            self.position = position
            if self._reader.position > self._reader.stop:
                raise BrokenArchive(TRUNCATED)
        while self.position < position:
            if not await self.read(min(position - self.position, BLOCK_SIZE)):
                raise BrokenArchive(TRUNCATED)

    async def drain(self) -> None:
        """Read a decompressed stream to its end, so that its checksum is verified; nothing for a plain source."""
        while self._min_read and await self.read(BLOCK_SIZE):
            pass


class DecompressReader:
    """The decompressed bytes of a reader.

    `concatenated`: several streams may follow each other, with zeros after the last.
    """

    def __init__(self, reader: Reader, make_codec: Callable[[], Decompressor], concatenated: bool = False) -> None:
        self._reader = reader
        self._make_codec = make_codec
        self._concatenated = concatenated
        self._codec: Decompressor | None = None
        self._empty = 0  # streams without a byte since the last byte

    async def read(self, max_length: int) -> bytes:
        if self._codec is None:
            self._codec = self._make_codec()
        while True:
            codec, packed = self._codec, b""
            if codec.eof:
                if not await self._start_next_stream(codec):
                    return b""
                continue
            work = BLOCK_SIZE
            if codec.needs_input:
                packed = await self._reader.read(CHUNK_SIZE)
                work = len(packed)
                if not packed and not codec.ends_with_input:
                    raise BrokenArchive(TRUNCATED)
            block = await _decompress(codec, packed, min(max_length, BLOCK_SIZE), work)
            if block:
                self._empty = 0
                return block

    async def _start_next_stream(self, ended: Decompressor) -> bool:
        """True if another stream follows; then it is the current one."""
        if not self._concatenated:
            return False
        rest = ended.unused_data
        while not rest.lstrip(b"\0"):
            rest = await self._reader.read(CHUNK_SIZE)
            if not rest:
                return False
        self._empty += 1
        if self._empty > MAX_EMPTY_STREAMS:
            raise BrokenArchive("the archive has nothing but empty parts")
        await asyncio.sleep(0)  # a file may hold millions of streams of one byte
        self._codec = self._make_codec()
        self._reader = _PrefixedReader(rest.lstrip(b"\0"), self._reader)
        return True


class _PrefixedReader:
    """Some bytes, then those of a reader."""

    def __init__(self, prefix: bytes, reader: Reader) -> None:
        self._prefix = prefix
        self._reader: Reader = reader._reader if isinstance(reader, _PrefixedReader) and not reader._prefix else reader

    async def read(self, max_length: int) -> bytes:
        if not self._prefix:
            return await self._reader.read(max_length)
        block, self._prefix = self._prefix[:max_length], self._prefix[max_length:]
        return block


async def _decompress(codec: Decompressor, packed: bytes, max_length: int, work: int) -> bytes:
    """Return the next bytes of a codec, decompressed in a thread if `work` (bytes to process) is large enough."""
    if work <= INLINE_SIZE:
        return codec.decompress(packed, max_length)
    return await asyncio.to_thread(codec.decompress, packed, max_length)


class LimitReader:
    """A counter that raises ArchiveTooLarge once more was unpacked than the limits allow, including skipped bytes."""

    def __init__(self, reader: Reader, packed: RangeReader, limits: ArchiveLimits) -> None:
        self._reader = reader
        self._packed = packed
        self._start = packed.position
        self._limits = limits
        self._total = 0

    async def read(self, max_length: int) -> bytes:
        block = await self._reader.read(max_length)
        self._total += len(block)
        limits = self._limits
        if limits.size and self._total > limits.size:
            raise ArchiveTooLarge
        packed = self._packed.position - self._start
        if limits.ratio and self._total > max(RATIO_EXEMPT, limits.ratio * packed):
            raise ArchiveTooLarge(f"the archive unpacks to more than {limits.ratio} times its size")
        return block


class Budget:
    """The bytes that all streams of an iteration may yield together."""

    def __init__(self, limits: ArchiveLimits, packed: int) -> None:
        bounds = [limits.size] if limits.size else []
        if limits.ratio:
            bounds.append(max(RATIO_EXEMPT, limits.ratio * packed))
        self._remaining = min(bounds) if bounds else None

    @classmethod
    def make_unlimited(cls) -> Budget:
        return cls(ArchiveLimits(size=0, ratio=0), 0)

    def consume(self, length: int) -> None:
        """Count `length` bytes. Raise ArchiveTooLarge if there are too many."""
        if self._remaining is not None:
            if length > self._remaining:
                raise ArchiveTooLarge
            self._remaining -= length


async def read_verified(
    reader: Reader,
    size: int | None,
    crc: int | None,
    budget: Budget,
    error_class: type[Problem] = BrokenArchive,
    exclusive: bool = False,
) -> AsyncGenerator[bytes, None]:
    """Yield the next `size` bytes of a reader (None: all) in blocks; the last block only if everything is right.

    Raise `error_class` unless their CRC-32 is `crc` (None: not checked), BrokenArchive if there are fewer, or more
    although the reader is for these bytes alone (`exclusive`).
    """
    total = checksum = 0
    pending = b""
    while size is None or total < size:
        block = await reader.read(BLOCK_SIZE if size is None else min(BLOCK_SIZE, size - total))
        if not block:
            if size is None:
                break
            raise BrokenArchive("a file in the archive is shorter than announced")
        total += len(block)
        budget.consume(len(block))
        if crc is not None:
            checksum = await _update_crc(block, checksum)
        if pending:
            yield pending
        pending = block
    if exclusive and await reader.read(1):
        raise BrokenArchive("a file in the archive is longer than announced")
    if crc is not None and checksum != crc:
        is_broken = error_class is BrokenArchive
        raise error_class("the checksum of a file in the archive is wrong" if is_broken else None)
    if pending:
        yield pending


async def _update_crc(block: bytes, crc: int) -> int:
    return zlib.crc32(block, crc) if len(block) <= INLINE_SIZE else await asyncio.to_thread(zlib.crc32, block, crc)
