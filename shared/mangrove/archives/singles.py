"""One packed file that is no archive: its one member has the name without the extension."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from mangrove.archives.base import Contents, Limits, Member, Source, Wanted
from mangrove.archives.codecs import Decompressor
from mangrove.archives.flows import Budget, Metered, Ranged, Unpacked, Window, checked
from mangrove.archives.ledger import Ledger


class SingleFile:
    """A gzip, bzip2, xz or zstd file."""

    comment = ""
    encrypted = False
    sequential = False

    def __init__(self, source: Source, make: Callable[[], Decompressor], name: str, limits: Limits) -> None:
        self._source = source
        self._make = make
        self._name = name
        self._limits = limits

    async def open(self) -> None:
        """BrokenArchive unless its first block unpacks."""
        await self._flow().read(1)

    def _flow(self) -> Metered:
        packed = Ranged(Window(self._source), 0, self._source.size)
        return Metered(Unpacked(packed, self._make, several=True), packed, self._limits)

    async def members(self) -> AsyncGenerator[Member, None]:
        member = Ledger(self._limits).admit(self._name, -1, self._source.size, 0.0, False)
        if member is not None:
            yield member

    async def contents(self, wanted: Wanted) -> Contents:
        budget = Budget(self._limits, self._source.size)
        async for member in self.members():
            if not member.refused and wanted(0, member):
                async with aclosing(checked(self._flow(), -1, None, budget)) as stream:
                    yield 0, member, stream
