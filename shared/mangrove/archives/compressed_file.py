"""One compressed file that is not an archive: its only member has the name without the extension."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from mangrove.archives.base import ArchiveLimits, Member, MemberFilter, MemberStreams, Source
from mangrove.archives.codecs import Decompressor
from mangrove.archives.readers import Budget, DecompressReader, LimitReader, RangeReader, ReadAhead, read_verified
from mangrove.archives.validation import EntryValidator


class CompressedFile:
    """A gzip, bzip2, xz or zstd file."""

    comment = ""
    encrypted = False
    sequential = False

    def __init__(
        self, source: Source, make_codec: Callable[[], Decompressor], name: str, limits: ArchiveLimits
    ) -> None:
        self._source = source
        self._make_codec = make_codec
        self._name = name
        self._limits = limits

    async def open(self) -> None:
        """Raise BrokenArchive unless its first block can be unpacked."""
        await self._open_reader().read(1)

    def _open_reader(self) -> LimitReader:
        packed = RangeReader(ReadAhead(self._source), 0, self._source.size)
        return LimitReader(DecompressReader(packed, self._make_codec, concatenated=True), packed, self._limits)

    async def iter_members(self) -> AsyncGenerator[Member, None]:
        member = EntryValidator(self._limits).validate(self._name, None, self._source.size, 0.0, False)
        if member is not None:
            yield member

    async def iter_contents(self, is_wanted: MemberFilter) -> MemberStreams:
        budget = Budget(self._limits, self._source.size)
        async for member in self.iter_members():
            if not member.refused and is_wanted(0, member):
                async with aclosing(read_verified(self._open_reader(), None, None, budget)) as stream:
                    yield 0, member, stream
