"""Tar archives, compressed or not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from mangrove.archives.base import ArchiveLimits, Member, MemberFilter, MemberStreams, Source
from mangrove.archives.codecs import Decompressor
from mangrove.archives.readers import (
    Budget,
    DecompressReader,
    LimitReader,
    RangeReader,
    ReadAhead,
    RecordReader,
    read_verified,
)
from mangrove.archives.tar_headers import iter_headers
from mangrove.archives.validation import EntryValidator


class TarArchive:
    """An open tar archive. `make_codec` is for the whole of it, None if it is not compressed."""

    comment = ""
    encrypted = False

    def __init__(
        self, source: Source, make_codec: Callable[[], Decompressor] | None, encoding: str, limits: ArchiveLimits
    ) -> None:
        self._source = source
        self._make_codec = make_codec
        self._encoding = encoding
        self._limits = limits
        self.sequential = make_codec is not None

    async def open(self) -> None:
        """Raise BrokenArchive unless it starts with a header."""
        async with aclosing(iter_headers(self._open_reader(), self._encoding)) as headers:
            async for _ in headers:
                break

    def _open_reader(self) -> RecordReader:
        packed = RangeReader(ReadAhead(self._source), 0, self._source.size)
        if self._make_codec is None:
            return RecordReader(packed)
        unpacked = DecompressReader(packed, self._make_codec, concatenated=True)
        return RecordReader(LimitReader(unpacked, packed, self._limits))

    async def _iter_members(self, reader: RecordReader) -> AsyncGenerator[Member, None]:
        validator = EntryValidator(self._limits)
        async with aclosing(iter_headers(reader, self._encoding)) as headers:
            async for header in headers:
                member = validator.validate(
                    header.name, header.size, None, header.modified, header.is_dir, header.refused
                )
                if member is not None:
                    yield member

    async def iter_members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._iter_members(self._open_reader())) as members:
            async for member in members:
                yield member

    async def iter_contents(self, is_wanted: MemberFilter) -> MemberStreams:
        reader = self._open_reader()
        budget = Budget(self._limits, self._source.size)
        index = -1
        async with aclosing(self._iter_members(reader)) as members:
            async for member in members:
                index += 1
                if not member.is_dir and not member.refused and is_wanted(index, member):
                    async with aclosing(read_verified(reader, member.size, None, budget)) as stream:
                        yield index, member, stream
