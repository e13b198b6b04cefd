"""One step of packing an archive. Entries are added to the buffer of a part, and parts are stored in staging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

from mangrove.configuration import throttle
from mangrove.core.problems import NotReadable, OutOfTime, Problem, StorageProblem, Unreachable
from mangrove.tasks.compress.archive_parts import ArchiveParts, list_packed
from mangrove.tasks.compress.declaration import CompressCursor, CompressSpec
from mangrove.tasks.compress.packers import Packer, make_packer
from mangrove.tasks.core.partials import StepEnded
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, Run
from mangrove.tree.operations.packing import (
    UNREADABLE,
    Authorize,
    PackedEntry,
    open_file,
    read_small_files,
    split_groups,
)

ZEROS_BYTES = 1 << 20


class PackingStep:
    """The work of one step. Entries that cannot be read are replaced by a text and counted."""

    def __init__(self, run: Run[CompressSpec, CompressCursor], parts: ArchiveParts, authorize: Authorize) -> None:
        self._run = run
        self._parts = parts
        self._authorize = authorize
        self._buffer = bytearray()
        self._packer: Packer
        self._stored: dict[str, Any] = {}

    async def run_to_end(self) -> None:
        """Pack the entries from the position of the cursor on, and end the archive. Raise StepEnded.

        After a failure, the cursor is at the last stored part.
        """
        self._stored = self._run.cursor.dump()
        try:
            await self._pack_all()
        except BaseException:
            self._run.cursor = CompressCursor.load(self._stored)
            raise

    async def _pack_all(self) -> None:
        run, cursor = self._run, self._run.cursor
        entries = list_packed(run.task.id, cursor.entry_count)
        rows = await entries.read_rows(cursor.position)
        self._packer = make_packer(run.spec.name, cursor, rows[0] if rows else None)
        while rows:
            done = await self._pack_some(rows)
            rows = rows[done:] or await entries.read_rows(cursor.position)
        directory = await self._parts.read_directory()
        self._buffer += await asyncio.to_thread(self._packer.finish, directory)
        await self._store_part()
        await self._parts.finish()

    async def _pack_some(self, rows: Sequence[PackedEntry]) -> int:
        """Pack the first entries. Return their number."""
        count = 0 if self._run.cursor.is_begun else split_groups(rows)
        if count:
            contents = await read_small_files(await self._authorize(), rows[:count])
            for packed, content in zip(rows, contents, strict=False):
                await self._add_small(packed, content)
            return count
        await self._add_entry(rows[0])
        return 1

    async def _add_small(self, packed: PackedEntry, content: bytes | Problem) -> None:
        if isinstance(content, bytes):
            await throttle.wait_for_copy(len(content))
            await self._append(self._packer.add_file, packed, content)
            self._run.cursor.bytes_done += len(content)
        else:
            await self._replace(packed, content)
        await self._advance()

    async def _add_entry(self, packed: PackedEntry) -> None:
        if packed.problem:
            await self._replace(packed, StorageProblem(packed.problem))
        elif packed.is_dir:
            await self._append(self._packer.add_folder, packed)
        elif packed.size is None and self._packer.needs_sizes:
            await self._replace(packed, StorageProblem("its size is not known"))
        else:
            await self._add_large_file(packed)
        await self._advance()

    async def _add_large_file(self, packed: PackedEntry) -> None:
        cursor, packer = self._run.cursor, self._packer
        if not cursor.lost:
            try:
                await self._read(packed)
                await self._append(packer.end_file, packed)
                return
            except Problem as problem:
                if isinstance(problem, Unreachable | OutOfTime):
                    raise
                if not cursor.is_begun or packer.abandon_file():
                    await self._replace(packed, problem)
                    return
                cursor.lost = problem.message
        await self._fill(packed)
        await self._append(packer.end_file, packed)
        await self._replace(packed, StorageProblem(cursor.lost))

    async def _read(self, packed: PackedEntry) -> None:
        """Add the rest of a file, from the offset of the cursor on."""
        cursor = self._run.cursor
        blocks: Any = await open_file(await self._authorize(), packed, cursor.offset)
        async with aclosing(blocks):
            if not cursor.is_begun:
                await self._append(self._packer.begin_file, packed)
                cursor.is_begun = True
            async for block in throttle.limit_server_download(blocks):
                await self._add_block(block)

    async def _add_block(self, block: bytes) -> None:
        await self._append(self._packer.add_block, block)
        self._run.cursor.offset += len(block)
        self._run.cursor.bytes_done += len(block)
        await self._end_part()

    async def _fill(self, packed: PackedEntry) -> None:
        """Fill the rest of a file that cannot be read any more with zeros."""
        while (left := (packed.size or 0) - self._run.cursor.offset) > 0:
            await self._add_block(bytes(min(left, ZEROS_BYTES)))

    async def _replace(self, packed: PackedEntry, problem: Problem) -> None:
        """Add the text that replaces an entry. Add nothing for an entry that the owner may not read any more."""
        if isinstance(problem, Unreachable):
            raise problem
        if isinstance(problem, NotReadable):
            return
        cursor = self._run.cursor
        cursor.failed_count += 1
        if len(cursor.errors) < MAX_NAMED_FAILURES:
            cursor.errors.append(f"{packed.path}: {problem.message}")
        text = UNREADABLE if self._run.spec.share else problem.message
        await self._append(self._packer.add_error, packed, text)

    async def _append(self, make: Callable[..., bytes], *args: Any) -> None:
        self._buffer += await asyncio.to_thread(make, *args)

    async def _advance(self) -> None:
        """Go on to the next entry."""
        cursor = self._run.cursor
        cursor.position += 1
        cursor.is_begun, cursor.offset, cursor.lost = False, 0, ""
        await self._end_part()

    async def _end_part(self) -> None:
        """Store a part that is long enough. Raise StepEnded if the time of the step is over."""
        is_late = not self._run.has_time()
        if len(self._buffer) < (self._parts.min_bytes if is_late else self._parts.max_bytes):
            return
        await self._store_part()
        if is_late:
            raise StepEnded

    async def _store_part(self) -> None:
        tail, directory = self._packer.end_part()
        self._buffer += tail
        content, self._buffer = bytes(self._buffer), bytearray()
        self._packer.save(self._run.cursor)
        await self._parts.store(content, directory)
        self._stored = self._run.cursor.dump()
        self._run.show_progress(self._run.cursor.bytes_done)
        self._run.show_items(self._run.cursor.position, self._run.cursor.entry_count)
        await self._run.save()
