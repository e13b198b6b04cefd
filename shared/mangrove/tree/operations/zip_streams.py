"""A selection as the bytes of a ZIP file, made while they are sent. No more than a few blocks are in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mangrove.archives.zip_writer import ZipEntry, ZipMeter, ZipWriter, encode_error, encode_name, make_error_entry
from mangrove.core.chunked import iterate_chunked
from mangrove.core.problems import BrokenArchive, NotReadable, Problem
from mangrove.tree.access import PathAccess
from mangrove.tree.operations.packing import (
    MAX_GROUP_FILES,
    Authorize,
    PackedEntry,
    describe_problem,
    list_selection,
    open_file,
    read_small_files,
    split_groups,
)

HELD_BYTES = 16 << 10  # of a file, not sent before the file is known to be whole: room for the text of an error
SENT_BYTES = 128 << 10  # small entries are sent together
DIRECTORY_GROWTH_BYTES = 32  # by which the record of an error is longer than that of its file, at most
MAX_PADDING_BYTES = 1 << 20  # at once


@dataclass(slots=True)
class ZipPlan:
    """The entries of an archive, which are removed as they are written."""

    entries: deque[PackedEntry]
    length: int | None
    """Bytes of the archive; None if the size of a file is not known."""
    root: PathAccess
    """The folder of the selection, as it was when the plan was made."""


async def make_plan(root: PathAccess, names: Sequence[str], *, strict: bool = False) -> ZipPlan:
    """Return the plan of the archive of some entries of a folder, or of all. Raise TooLarge.

    `strict`: raise the problem of an entry of `names`.
    """
    rows = await list_selection(root, names, strict=strict)
    if any(packed.size is None for packed in rows):
        return ZipPlan(deque(rows), None, root)
    meter = ZipMeter()
    async for packed in iterate_chunked(rows):
        meter.add(make_zip_entry(packed))
    return ZipPlan(deque(rows), meter.get_length(), root)


def get_name(packed: PackedEntry) -> bytes:
    """Return the name of an entry in the archive."""
    return encode_name(packed.path, packed.is_dir and not packed.problem)


def make_zip_entry(packed: PackedEntry) -> ZipEntry:
    """Return an entry as it is in the archive if it can be read."""
    name = get_name(packed)
    if packed.problem:
        return make_error_entry(name, packed.modified, encode_error(packed.problem))
    is_streamed = not packed.is_dir and not packed.is_small
    return ZipEntry(name, packed.modified, 0 if packed.is_dir else packed.size, None if is_streamed else 0)


class ZipStream:
    """The bytes of an archive as an asynchronous generator, `stream`."""

    def __init__(self, plan: ZipPlan, authorize: Authorize) -> None:
        self._plan = plan
        self._authorize = authorize
        self._writer = ZipWriter()
        self._end = 0  # of the present entry, at most, in an archive of a known length
        self._waiting = bytearray()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the archive. A Problem breaks it off: nothing of it may be read any more, or no space is left for the
        text of an error."""
        rows = self._plan.entries
        while rows:
            count = split_groups(list(islice(rows, MAX_GROUP_FILES)))
            part = self._add_group([rows.popleft() for _ in range(count)]) if count else self._add(rows.popleft())
            async with aclosing(part) as blocks:
                async for block in blocks:
                    yield block
        for block in self._writer.finish(self._plan.length):
            self._waiting += block
        yield bytes(self._waiting)

    def _flush(self) -> bytes:
        content, self._waiting = bytes(self._waiting), bytearray()
        return content

    async def _add_group(self, rows: Sequence[PackedEntry]) -> AsyncGenerator[bytes, None]:
        contents = await read_small_files(await self._authorize(), rows)
        for packed, content in zip(rows, contents, strict=True):
            if isinstance(content, bytes):
                self._waiting += self._writer.add_file(get_name(packed), packed.modified, content)
            else:
                self._begin(packed)
                for padding in self._replace(packed, content):
                    self._waiting += padding
            if len(self._waiting) >= SENT_BYTES:
                yield self._flush()

    async def _add(self, packed: PackedEntry) -> AsyncGenerator[bytes, None]:
        self._begin(packed)
        if packed.problem:
            self._waiting += self._writer.add_error(get_name(packed), packed.modified, packed.problem)
        elif packed.is_dir:
            self._waiting += self._writer.add_folder(get_name(packed), packed.modified)
        else:
            async with aclosing(self._add_large_file(packed)) as blocks:
                async for block in blocks:
                    yield block
        if len(self._waiting) >= SENT_BYTES:
            yield self._flush()

    def _begin(self, packed: PackedEntry) -> None:
        """Measure the entry: what stands for it may not be longer."""
        meter = ZipMeter()
        meter.add(make_zip_entry(packed))
        self._end = self._writer.offset + meter.entry_bytes - DIRECTORY_GROWTH_BYTES

    async def _add_large_file(self, packed: PackedEntry) -> AsyncGenerator[bytes, None]:
        writer, is_begun = self._writer, False
        try:
            blocks: Any = await open_file(await self._authorize(), packed)
            async with aclosing(blocks):
                self._waiting += writer.begin_file(get_name(packed), packed.modified, packed.size)
                is_begun = True
                yield self._flush()
                async for block in _hold_back(blocks):
                    yield writer.add_block(block)
            self._waiting += writer.end_file()
        except Problem as problem:
            if is_begun:
                writer.abandon_file()
            for padding in self._replace(packed, problem):
                yield self._flush() + padding

    def _replace(self, packed: PackedEntry, problem: Problem) -> Iterator[bytes]:
        """Yield the text that stands for a file, and the zeros that fill its place; no text for a file that the caller
        may not read any more."""
        writer, is_measured = self._writer, self._plan.length is not None
        if not isinstance(problem, NotReadable):
            name = get_name(packed)
            room = self._end - writer.offset - writer.measure_error(name) if is_measured else None
            if room is not None and room < 0:
                raise BrokenArchive(f"{packed.path}: {problem.message}")
            yield writer.add_error(name, packed.modified, describe_problem(self._plan.root, problem), room)
        while is_measured and writer.offset < self._end:
            yield writer.add_padding(min(self._end - writer.offset, MAX_PADDING_BYTES))


async def _hold_back(blocks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the blocks, but the last HELD_BYTES of all only when no block can fail any more."""
    held = b""
    async for block in blocks:
        if len(block) >= HELD_BYTES:
            if held:
                yield held
            held = block
        else:
            joined = held + block
            if len(joined) > 2 * HELD_BYTES:
                yield joined[:-HELD_BYTES]
                joined = joined[-HELD_BYTES:]
            held = joined
    if held:
        yield held
