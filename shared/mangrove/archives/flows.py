"""Bytes on their way out of an archive: pulled, never pushed, so that nothing waits in memory."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from mangrove.archives.base import BLOCK, GRACE, Limits, Source
from mangrove.archives.codecs import Decompressor
from mangrove.problems import ArchiveTooLarge, BrokenArchive, Problem

PIECE = 1 << 16  # bytes of packed data that are unpacked at once
SMALL = 1 << 14  # packed bytes that are unpacked sooner than a thread is found
NEAR, FAR = 1 << 13, 1 << 22  # bytes: the least and the most that are read ahead
MOST_EMPTY = 1000  # streams in a row that unpack to nothing
CUT_SHORT = "the archive ends too early"


class Flow(Protocol):
    async def read(self, most: int) -> bytes:
        """Up to `most` bytes, at least one; `b""` at the end."""
        ...


class Window:
    """A source with a read-ahead that grows while it is read in order, up to FAR bytes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.size = source.size
        self._start = 0
        self._held = b""
        self._ahead = NEAR

    def hold(self, start: int, held: bytes) -> None:
        """Answer from these bytes, too, until others are read."""
        self._start, self._held = start, held

    async def read(self, offset: int, most: int, stop: int) -> bytes:
        """Up to `most` bytes from `offset`, nothing read from `stop` on; BrokenArchive when the source is shorter."""
        at = offset - self._start
        if not 0 <= at < len(self._held):
            gap = offset - self._start - len(self._held)
            self._ahead = min(self._ahead * 2, FAR) if 0 <= gap <= self._ahead else NEAR
            wanted = min(max(self._ahead, min(most, FAR)), min(stop, self.size) - offset)
            if wanted <= 0:
                return b""
            self._start, self._held, at = offset, await self.source.read(offset, wanted), 0
            if len(self._held) != wanted:
                raise BrokenArchive(CUT_SHORT)
        return self._held[at : at + min(most, stop - offset)]


class Ranged:
    """The bytes of a source from `position` up to `stop`; a jump costs nothing."""

    def __init__(self, window: Window, position: int, stop: int) -> None:
        self._window = window
        self.position = position
        self.stop = stop

    async def read(self, most: int) -> bytes:
        block = await self._window.read(self.position, most, self.stop)
        self.position += len(block)
        return block

    async def forward(self, position: int) -> None:
        self.position = position


class Tape:
    """A flow that is read in records: whole pieces of a known length, and jumps ahead."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._least = 0 if isinstance(flow, Ranged) else PIECE  # a source has its own read-ahead
        self._held = b""
        self._at = 0
        self.position = 0

    async def read(self, most: int) -> bytes:
        if self._at >= len(self._held):
            self._held, self._at = await self._flow.read(max(most, self._least)), 0
        block = self._held[self._at : self._at + most]
        self._at += len(block)
        self.position += len(block)
        return block

    async def exactly(self, length: int) -> bytes:
        """`length` bytes; BrokenArchive when there are fewer."""
        block = await self.read(length)
        if len(block) == length:
            return block
        found = bytearray(block)
        while len(found) < length:
            block = await self.read(length - len(found))
            if not block:
                raise BrokenArchive(CUT_SHORT)
            found += block
        return bytes(found)

    async def forward(self, position: int) -> None:
        """Go on at a later position; BrokenArchive when the flow ends before it."""
        held = min(position - self.position, len(self._held) - self._at)
        self._at += held
        self.position += held
        if position > self.position and isinstance(self._flow, Ranged):
            await self._flow.forward(self._flow.position + position - self.position)
            self.position = position
            if self._flow.position > self._flow.stop:
                raise BrokenArchive(CUT_SHORT)
        while self.position < position:
            if not await self.read(min(position - self.position, BLOCK)):
                raise BrokenArchive(CUT_SHORT)

    async def drain(self) -> None:
        """Read an unpacked flow to its end, so that what is wrong with it shows; one that is not packed is left."""
        while self._least and await self.read(BLOCK):
            pass


class Unpacked:
    """What a decompressor makes of a flow. `several`: its streams may follow each other, zeros after the last."""

    def __init__(self, flow: Flow, make: Callable[[], Decompressor], several: bool = False) -> None:
        self._flow = flow
        self._make = make
        self._several = several
        self._one: Decompressor | None = None
        self._empty = 0  # streams without a byte since the last byte

    async def read(self, most: int) -> bytes:
        if self._one is None:
            self._one = self._make()
        while True:
            one, packed = self._one, b""
            if one.eof:
                if not await self._next(one):
                    return b""
                continue
            if one.needs_input:
                packed = await self._flow.read(PIECE)
                if not packed and not one.ends_with_input:
                    raise BrokenArchive(CUT_SHORT)
            block = await _aside(len(packed) if one.needs_input else BLOCK, one, packed, min(most, BLOCK))
            if block:
                self._empty = 0
                return block

    async def _next(self, one: Decompressor) -> bool:
        """Whether another stream follows; then it has begun."""
        if not self._several:
            return False
        rest = one.unused_data
        while not rest.lstrip(b"\0"):
            rest = await self._flow.read(PIECE)
            if not rest:
                return False
        self._empty += 1
        if self._empty > MOST_EMPTY:
            raise BrokenArchive("the archive has nothing but empty parts")
        await asyncio.sleep(0)  # a file may hold millions of streams of one byte
        self._one = self._make()
        self._flow = _Before(rest.lstrip(b"\0"), self._flow)
        return True


class _Before:
    """Some bytes, then a flow."""

    def __init__(self, held: bytes, flow: Flow) -> None:
        self._held = held
        self._flow: Flow = flow._flow if isinstance(flow, _Before) and not flow._held else flow

    async def read(self, most: int) -> bytes:
        if not self._held:
            return await self._flow.read(most)
        block, self._held = self._held[:most], self._held[most:]
        return block


async def _aside(work: int, one: Decompressor, packed: bytes, most: int) -> bytes:
    if work <= SMALL:
        return one.decompress(packed, most)
    return await asyncio.to_thread(one.decompress, packed, most)


class Metered:
    """A flow that ends with ArchiveTooLarge when it has unpacked more than the limits allow, skipped bytes included."""

    def __init__(self, flow: Flow, packed: Ranged, limits: Limits) -> None:
        self._flow = flow
        self._packed = packed
        self._began = packed.position
        self._limits = limits
        self._total = 0

    async def read(self, most: int) -> bytes:
        block = await self._flow.read(most)
        self._total += len(block)
        limits = self._limits
        if limits.size and self._total > limits.size:
            raise ArchiveTooLarge
        taken = self._packed.position - self._began
        if limits.ratio and self._total > max(GRACE, limits.ratio * taken):
            raise ArchiveTooLarge("the archive is packed too tightly to be honest")
        return block


class Budget:
    """What all streams of one walk may yield together."""

    def __init__(self, limits: Limits, packed: int) -> None:
        bounds = [limits.size] if limits.size else []
        if limits.ratio:
            bounds.append(max(GRACE, limits.ratio * packed))
        self._left = min(bounds) if bounds else -1

    def spend(self, length: int) -> None:
        if self._left >= 0:
            if length > self._left:
                raise ArchiveTooLarge
            self._left -= length


async def checked(
    flow: Flow,
    size: int,
    crc: int | None,
    budget: Budget,
    wrong: type[Problem] = BrokenArchive,
    alone: bool = False,
) -> AsyncGenerator[bytes, None]:
    """The next `size` bytes of a flow (all, when -1) in blocks; the last one only when everything is right.

    Raises `wrong` unless their CRC-32 is `crc`, BrokenArchive when there are fewer, or more of a flow that has
    nothing else (`alone`).
    """
    total = found = 0
    held = b""
    while size < 0 or total < size:
        block = await flow.read(BLOCK if size < 0 else min(BLOCK, size - total))
        if not block and size >= 0:
            raise BrokenArchive("a file in the archive is shorter than announced")
        if not block:
            break
        total += len(block)
        budget.spend(len(block))
        if crc is not None:
            found = await _crc(block, found)
        if held:
            yield held
        held = block
    if alone and await flow.read(1):
        raise BrokenArchive("a file in the archive is longer than announced")
    if crc is not None and found != crc:
        raise wrong(wrong.text if wrong is not BrokenArchive else "the checksum of a file in the archive is wrong")
    if held:
        yield held


async def _crc(block: bytes, before: int) -> int:
    return zlib.crc32(block, before) if len(block) <= SMALL else await asyncio.to_thread(zlib.crc32, block, before)
