"""One step of packing an archive. Entries are added to the buffer of a part, and parts are stored in staging.

The archive in staging is a file in parts, and for each part its records for the end of the archive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.platform import platform
from mangrove.core.problems import (
    EntryNotFound,
    NotReadable,
    NotSupported,
    OutOfTime,
    Problem,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import Driver, Entry, Upload
from mangrove.tasks.compress.declaration import CompressCursor, CompressSpec
from mangrove.tasks.compress.packers import Packer, make_packer
from mangrove.tasks.core import files, staging
from mangrove.tasks.core.model import PartialFile
from mangrove.tasks.core.partials import PartReceipts, StepEnded, begin_partial, drop_partial, find_receipts
from mangrove.tasks.core.staging import StagedList, StagedPath
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
PART_BYTES = 16 << 20
MIN_BUCKET_PART_BYTES = 5 << 20  # the minimum of S3, except at the end of a file
MAX_PARTS = 9_000  # the maximum of S3 is 10,000
MAX_DIRECTORY_BYTES = 64 << 20  # of one part
DIRECTORY_HEAD = b"\0"  # before the records, since S3 returns no range of an empty object


def list_packed(task_id: str, count: int) -> StagedList[PackedEntry]:
    """Return the list of the entries that a task packs."""
    return StagedList(task_id, "packed", count, lambda row: PackedEntry(*row))


async def find_archive(run: Run[CompressSpec, CompressCursor]) -> StagedPath:
    """Return the path of the archive in staging."""
    return StagedPath(await staging.driver(), staging.get_path(run.task.id, run.spec.name))


class ArchiveParts:
    """The parts of the archive. The cursor has the number of valid parts."""

    def __init__(
        self, run: Run[CompressSpec, CompressCursor], path: StagedPath, partial: PartialFile, receipts: PartReceipts
    ) -> None:
        self._run = run
        self._path = path
        self._partial = partial
        self._receipts = receipts

    @property
    def _storage(self) -> Driver:
        return self._path.driver

    @property
    def max_bytes(self) -> int:
        """The bytes after which a part ends."""
        return max(PART_BYTES, -(-self._run.view.total_bytes // MAX_PARTS))

    @property
    def min_bytes(self) -> int:
        """The bytes that a part needs to be the last one of a step."""
        return 1 if platform().has_disk else MIN_BUCKET_PART_BYTES

    async def store(self, content: bytes, directory: bytes) -> None:
        """Store the next part, and its records for the directory at the end. The caller saves the cursor."""
        cursor = self._run.cursor
        number = cursor.parts + 1
        records = DIRECTORY_HEAD + directory
        upload = Upload(len(records), time.time())
        await staging.store(self._run.task.id, f"directory-{number:06}", stream(records), upload)
        receipt = await finish_despite_cancel(
            self._storage.write_part(self._path.path, self._partial.token, number, cursor.size, content)
        )
        await self._receipts.add(cursor.parts, receipt)
        await self._receipts.save()
        cursor.parts, cursor.size = number, cursor.size + len(content)
        pass_checkpoint("compress.part")

    async def read_directory(self) -> bytes:
        """Return the records of all parts, joined."""
        directory = bytearray()
        for number in range(1, self._run.cursor.parts + 1):
            path = StagedPath(self._storage, staging.get_path(self._run.task.id, f"directory-{number:06}"))
            directory += (await files.read_whole(path, MAX_DIRECTORY_BYTES)).removeprefix(DIRECTORY_HEAD)
        return bytes(directory)

    async def finish(self) -> None:
        """Join the parts to a file, unless a worker that died has already done so."""
        size = self._run.cursor.size
        try:
            await self._storage.finish(
                self._path.path, self._partial.token, self._receipts.list(), Upload(size, time.time())
            )
        except EntryNotFound:
            present = await files.find(self._path)
            if present is None or present.size != size:
                raise StorageProblem("the parts stored so far are gone") from None
        self._run.cursor.partial = None


async def open_parts(run: Run[CompressSpec, CompressCursor]) -> ArchiveParts:
    """Return the archive of a run. Begin it again if its parts do not fit the cursor any more."""
    path = await find_archive(run)
    await staging.make_parent(path.path)
    upload, source = Upload(None, time.time()), Entry(run.spec.name, None, 0.0, False)
    while True:
        partial = await begin_partial(run, path, path.driver, upload, PART_BYTES, source)
        if partial is None:
            raise NotSupported
        receipts = await find_receipts(run, partial)
        if receipts is not None and len(receipts) == run.cursor.parts:
            return ArchiveParts(run, path, partial, receipts)
        if receipts is None or len(receipts):
            await drop_partial(run)
        cursor = run.cursor
        run.cursor = CompressCursor(
            attempt=cursor.attempt, is_planned=cursor.is_planned, entry_count=cursor.entry_count,
            partial=cursor.partial, has_receipts=cursor.has_receipts,
        )  # fmt: skip


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
