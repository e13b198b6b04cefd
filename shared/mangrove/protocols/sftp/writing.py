"""A file open for writing: it appears complete when it is closed, or not at all.

It is written and read in any order: up to a block in memory, more in a nameless file of its storage if that has such
files (`open_staged`), else in a temporary file of up to MAX_SPOOLED_BYTES_PER_FILE, or fewer if there is no room.

A larger file is sent to its storage while it is received, and from then on has to arrive in order. As POSIX requires,
the old content of a file stays until it is overwritten; it is read as far as it is needed.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from mangrove import configuration
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, NameConflict, NotSupported, Problem, StorageProblem, TooLarge
from mangrove.drivers.base import BLOCK, Entry, StagedFile, Upload
from mangrove.protocols.sftp.handles import READ_BYTES, SPOOL_STEP_BYTES, ConnectionHandles, HandleAccess
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import uploads

MAX_SPOOLED_BYTES_PER_FILE = 256 << 20  # of a temporary file
FREE_SPACE_CHECK_BYTES = 1 << 20  # a larger gap has to fit into the free space of the storage
MAX_OFFSET = (1 << 63) - 1  # largest offset


@dataclass(frozen=True, slots=True)
class Old:
    """A file that was opened without truncating it, with its old content."""

    storage_path: StoragePath
    entry: Entry


class _TemporaryFile:
    """A staged file of this machine. Nothing of it remains after a crash."""

    is_committed = False

    def __init__(self, folder: Path | None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - `close` closes it

    async def write(self, offset: int, content: bytes) -> None:
        await finish_despite_cancel(asyncio.to_thread(_write_all, self._file.fileno(), content, offset))

    async def read(self, offset: int, size: int) -> bytes:
        return await asyncio.to_thread(os.pread, self._file.fileno(), size, offset)

    async def truncate(self, size: int) -> None:
        await asyncio.to_thread(os.ftruncate, self._file.fileno(), size)

    def close(self) -> None:
        self._file.close()


class Spool:
    """The bytes so far. Up to BLOCK bytes are in memory; more are gathered to blocks, one of which is written to a file
    while the next one is received.

    `open_staged` returns a nameless file of the storage or raises NotSupported: then it is a temporary one. After a
    failed write, nothing more is written.
    """

    def __init__(self, handles: ConnectionHandles, open_staged: Callable[[], Awaitable[StagedFile]]) -> None:
        self.staged: StagedFile | None = None  # the file, if it is one of the storage
        self._handles = handles
        self._open_staged = open_staged
        self._reserved = 0  # bytes of the temporary file that are counted
        self._file: StagedFile | None = None  # None while all bytes are in memory
        self._writing: asyncio.Task[None] | None = None
        self._failure: Problem | OSError | None = None
        self._pending = bytearray()
        self._offset = 0  # offset of the pending bytes
        self.size = 0

    @property
    def is_in_memory(self) -> bool:
        """True while it has no file."""
        return self._file is None

    @property
    def can_extend(self) -> bool:
        """True if `truncate` adds zeros without writing them."""
        return self._file is None or self.staged is not None

    async def reserve(self, size: int) -> bool:
        """Reserve room for a file of `size` bytes. Return False if it has to go to the storage instead."""
        if self._file is None and size <= BLOCK:
            return True
        await self._open_file()
        if self.staged is not None or size <= self._reserved:
            return True
        if size > MAX_SPOOLED_BYTES_PER_FILE:
            return False
        growth = -(-size // SPOOL_STEP_BYTES) * SPOOL_STEP_BYTES - self._reserved
        is_reserved = await self._handles.budget.take_spool(self._handles.user_id, growth)
        if is_reserved:
            self._reserved += growth
        return is_reserved

    async def _open_file(self) -> StagedFile:
        if self._file is None:
            try:
                self._file = self.staged = await self._open_staged()
            except NotSupported:
                self._file = _TemporaryFile(self._handles.budget.folder)
        return self._file

    async def write(self, offset: int, content: bytes) -> None:
        """Write bytes; a gap before them is filled with zeros. Room for them is reserved before."""
        stop = offset + len(content)
        if self._file is None and stop <= BLOCK:
            self._pending.extend(bytes(max(0, offset - len(self._pending))))
            self._pending[offset:stop] = content
        else:
            if offset != self._offset + len(self._pending) or len(self._pending) >= BLOCK:
                await self._start_writing()
                self._offset = offset
            self._pending += content
        self.size = max(self.size, stop)

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes from `offset`. Fewer than `size` are returned only at the end."""
        if self._file is None:
            return bytes(self._pending[offset : offset + size])
        await self.flush()
        return await self._file.read(offset, size)

    async def truncate(self, size: int) -> None:
        """Truncate the file to `size`, or extend it with zeros."""
        if self._file is None and size <= BLOCK:
            del self._pending[size:]
            self._pending.extend(bytes(size - len(self._pending)))
        else:
            file = await self._open_file()
            await self.flush()
            await file.truncate(size)
        self.size = size

    async def flush(self) -> None:
        """Write all pending bytes to the file, if there is one."""
        if self._file is not None:
            await self._start_writing()
            await self._wait()

    async def _start_writing(self) -> None:
        await self._wait()
        if self._pending:
            file = await self._open_file()
            content, self._pending = bytes(self._pending), bytearray()
            self._writing = asyncio.create_task(file.write(self._offset, content))
            self._offset += len(content)

    async def _wait(self) -> None:
        """Wait for the block that is being written. Raise its failure, then and at each later call."""
        if self._failure is not None:
            raise self._failure
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                await writing
            except (Problem, OSError) as failure:
                self._failure = failure
                raise

    async def close(self) -> None:
        """Free its room on the disk."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await asyncio.gather(writing, return_exceptions=True)  # a failure is not reported any more
        if self._file is not None:
            self._file.close()
        reserved, self._reserved = self._reserved, 0
        if reserved:
            self._handles.budget.release_spool(self._handles.user_id, reserved)


def _write_all(handle: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


class _Sending:
    """A body that is sent to its storage while it is received. One block waits; a writer of another one waits, too."""

    def __init__(self) -> None:
        self._blocks: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self.position = 0

    async def put(self, content: bytes, task: asyncio.Task[None]) -> None:
        """Pass a block on. Raise the failure of the upload."""
        putting = asyncio.ensure_future(self._blocks.put(content))
        await asyncio.wait([putting, task], return_when=asyncio.FIRST_COMPLETED)
        if not putting.done():
            putting.cancel()
            task.result()
            raise StorageProblem("the storage ended the upload before the end of the file")
        self.position += len(content)

    async def finish(self, task: asyncio.Task[None]) -> None:
        """Signal the end, and wait until the file is stored."""
        putting = asyncio.ensure_future(self._blocks.put(None))
        await asyncio.wait([task])
        putting.cancel()
        task.result()

    async def iterate(self) -> AsyncIterator[bytes]:
        while (block := await self._blocks.get()) is not None:
            yield block


class WrittenFile:
    """A file that is being written.

    `chosen`: its future path; `overwrite`: True if it may replace a file; `is_new`: True if there was none.
    """

    def __init__(
        self, access: HandleAccess, chosen: PathAccess, old: Old | None, overwrite: bool, spool: Spool,
        *, is_new: bool = False,
    ) -> None:  # fmt: skip
        self.modified: float | None = None  # seconds since the epoch, as the client requests
        self.is_appending = False  # each write goes to the end, whatever its offset
        self.access = access
        self._chosen = chosen
        self._received = 0  # bytes that the client has sent, and bytes of the old file
        self._old = old
        self._old_size = (old.entry.size or 0) if old else 0
        self._overwrite = overwrite
        self._is_new = is_new
        self._spool = spool
        self._sending: _Sending | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def path(self) -> TreePath:
        """The path of the finished file."""
        return self._chosen.path

    @property
    def size(self) -> int:
        """The number of bytes that it has now."""
        return max(self._written, self._old_size)

    @property
    def _written(self) -> int:
        return self._spool.size if self._sending is None else self._sending.position

    async def write(self, offset: int, content: bytes) -> None:
        """Write bytes at an offset. Raise BadRequest if the offset is out of order or out of range."""
        if offset + len(content) > MAX_OFFSET:
            raise BadRequest(f"{offset} is not an offset of a file")
        if not content:
            return
        if offset > self._written:
            await self._fill(offset)
        await self._make_room(offset + len(content))
        await self._put(offset, content)
        self._received += len(content)

    async def _make_room(self, size: int) -> None:
        if self._sending is None and not await self._spool.reserve(size):
            await self._start_sending()

    async def _put(self, offset: int, content: bytes) -> None:
        if self._sending is None:
            await self._spool.write(offset, content)
            return
        if offset != self._sending.position:
            raise BadRequest("a file of this size has to be written in order")
        assert self._task is not None
        await self._sending.put(content, self._task)

    async def _fill(self, stop: int) -> None:
        """Provide all bytes before `stop`: of the old file as far as it has them, then zeros."""
        if self._old is not None and self._written < (end := min(stop, self._old_size)):
            await self._copy_old(self._written, end)
        gap = stop - self._written
        await self._check_gap(stop, gap)
        if gap > 0:
            await self._make_room(stop)
        if gap > 0 and self._sending is None and self._spool.can_extend:
            await self._spool.truncate(stop)
        while (gap := stop - self._written) > 0:
            await self._append(bytes(min(gap, BLOCK)))

    async def _check_gap(self, stop: int, gap: int) -> None:
        """Refuse a file with too many bytes that were never sent, and a gap that does not fit into the storage."""
        max_bytes = configuration.cached().settings.sftp_max_gap_mb
        if gap > 0 and stop - self._received > max_bytes:
            raise TooLarge(f"a file can have gaps of {max_bytes >> 20} MiB in total")
        if gap > FREE_SPACE_CHECK_BYTES:
            space = await mounts.get_capacity(self._chosen.find_mount()[0])
            if space is not None and gap > space.free:
                raise StorageProblem(f"no space left for a gap of {gap} bytes")

    async def _copy_old(self, start: int, stop: int) -> None:
        assert self._old is not None
        storage_path, entry = self._old.storage_path, self._old.entry
        async for block in await storage_path.driver.read(storage_path.path, start, stop - start, entry):
            await self._append(block)
            self._received += len(block)

    async def _append(self, content: bytes) -> None:
        await self._make_room(self._written + len(content))
        await self._put(self._written, content)

    async def _start_sending(self) -> None:
        """Send the bytes so far to the storage, and the rest after it."""
        size = self._spool.size
        self._sending = _Sending()
        self._task = asyncio.create_task(self._store(self._sending.iterate()))
        for offset in range(0, size, BLOCK):
            await self._put(offset, await self._spool.read(offset, min(BLOCK, size - offset)))
        await self._spool.close()

    async def _store(self, body: AsyncIterator[bytes], size: int | None = None) -> None:
        await uploads.write(self._chosen, body, self._describe(size), overwrite=self._overwrite, hashes={})

    def _describe(self, size: int | None) -> Upload:
        modified = time.time() if self.modified is None else self.modified
        return Upload(size, modified, staged=self._spool.staged)

    async def _store_new(self) -> bool:
        """Store a small file where none was when it was opened, without another lookup.

        Return False if it has to be looked up: something is there now, or the storage does not refuse a taken name.
        """
        is_small = self._is_new and self._spool.is_in_memory and self._chosen.may_read()
        if not is_small or not await uploads.refuses_existing(self._chosen):
            return False
        body, upload = self._iterate_spool(), self._describe(self._spool.size)
        try:
            await uploads.write(self._chosen, body, upload, overwrite=False, hashes={}, is_new=True)
        except NameConflict:
            return False
        return True

    async def read(self, offset: int, size: int) -> bytes:
        """Return present bytes, at most READ_BYTES. Raise BadRequest if the file is sent to its storage already."""
        size = min(size, READ_BYTES)
        if self._sending is not None:
            raise BadRequest("a file of this size cannot be read before it is closed")
        stop = min(offset + size, self._old_size)
        if stop > self._written:
            await self._fill(stop)
        return await self._spool.read(offset, size)

    async def truncate(self, size: int) -> None:
        """Change the size of the file; added bytes are zeros."""
        if size > MAX_OFFSET:
            raise BadRequest(f"a file cannot have {size} bytes")
        self._old_size = min(self._old_size, size)
        if size > self._written:
            await self._fill(size)
        elif self._sending is None:
            await self._spool.truncate(size)
        elif size < self._written:
            raise BadRequest("a file of this size cannot be truncated while it is written")

    async def finish(self) -> None:
        """Store the file, if the client may still do that. It is complete when this returns."""
        try:
            self._chosen = (await self.access.evaluate()).with_path(self._chosen.path)
            if self._written < self._old_size:
                await self._fill(self._old_size)
            if self._sending is None:
                await self._spool.flush()
                if not await self._store_new():
                    await self._store(self._iterate_spool(), self._spool.size)
            else:
                assert self._task is not None
                await self._sending.finish(self._task)
        finally:
            await self.discard()

    async def _iterate_spool(self) -> AsyncIterator[bytes]:
        staged = self._spool.staged
        for offset in range(0, self._spool.size, BLOCK):
            if staged is not None and staged.is_committed:
                return
            yield await self._spool.read(offset, BLOCK)

    async def discard(self) -> None:
        """Discard the file, unless it is finished."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)  # a failure is not reported any more
        await self._spool.close()
