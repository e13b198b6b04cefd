"""Files that are read and written in blocks, and staged files that have no name yet."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar, TypeVarTuple

from mangrove.core.platform import platform
from mangrove.drivers.base import BLOCK
from mangrove.drivers.local.rooted import check_wanted, translate_errors
from mangrove.drivers.threads import StorageThreads

SMALL_BLOCK = 96 << 10  # bytes
SWALLOWED = 8 << 20  # bytes that the buffers of a connection may hold although the client does not read them
MAX_SEND_SECONDS = 0.005  # that a thread sends to a client that makes room again and again
MAX_CHUNKS_PER_WRITE = 1024  # that one call of the kernel writes
SLOW_BLOCK_SECONDS = 0.5  # after which a block was taken late
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class FileHandle:
    """An open file, closed with its last reference: an async generator that is never iterated runs no `finally`.

    It is closed later, in a thread of its storage: if the storage hangs, that may take forever.
    """

    def __init__(self, number: int, threads: StorageThreads) -> None:
        self.number = number
        self._threads = threads

    async def send_to(self, socket: int, offset: int, count: int) -> int:
        """See `SendableFile`."""
        return await self._threads.run_to_completion(_send, socket, self.number, offset, count)

    def close(self) -> None:
        if self.number >= 0:
            number, self.number = self.number, -1
            try:
                self._threads.run_later(os.close, number)
            except RuntimeError:
                pass  # the process ends and cannot start a thread

    __del__ = close


def _send(socket: int, handle: int, offset: int, count: int) -> int:
    """Send to a fast client, which makes room in less time than another thread needs to start."""
    done, end = 0, time.monotonic() + MAX_SEND_SECONDS
    while done < count:
        try:
            sent = os.sendfile(socket, handle, offset + done, count - done)
        except BlockingIOError:
            if done and (left := end - time.monotonic()) > 0 and _wait_for_room(socket, left):
                continue
            if done:
                break
            raise  # it is the socket's, as is the next one
        except ConnectionError:
            raise
        except OSError as error:
            with translate_errors():
                raise error
        if not sent:
            break
        done += sent
    return done


def _wait_for_room(socket: int, seconds: float) -> bool:
    """True if the socket accepts bytes again before that time."""
    waiting = select.poll()
    waiting.register(socket, select.POLLOUT)
    return bool(waiting.poll(seconds * 1000))


async def read_blocks(
    threads: StorageThreads, handle: FileHandle, offset: int, length: int | None
) -> AsyncIterator[bytes]:
    """Yield the file's bytes. Close the handle at the end or when the iterator is closed.

    Blocks are small until the buffers of a connection cannot have absorbed the bytes so far, and after a block that was
    taken late: two blocks are in memory for each reader, and there may be many slow ones.
    """
    left = length
    pace = Pace()
    try:
        while left is None or left > 0:
            size = pace.block if left is None else min(pace.block, left)
            with translate_errors():
                block = await threads.run(os.pread, handle.number, size, offset)
            if not block:
                return
            offset += len(block)
            left = None if left is None else left - len(block)
            handed_over = time.monotonic()
            yield block
            pace.note(len(block), time.monotonic() - handed_over)
    finally:
        handle.close()


class Pace:
    """The speed at which a reader takes its bytes. `block`: bytes to send it next."""

    def __init__(self) -> None:
        self.block = SMALL_BLOCK
        self._taken = 0

    def note(self, size: int, seconds: float) -> None:
        """Record that so many bytes were taken so late."""
        self._taken = self._taken + size if seconds < SLOW_BLOCK_SECONDS else 0
        self.block = BLOCK if self._taken >= SWALLOWED else SMALL_BLOCK


async def write_body(
    threads: StorageThreads, body: AsyncIterator[bytes], handle: int, offset: int = 0, *, is_own: bool = False
) -> int:
    """Write a body from `offset` on in blocks, gathering the next one while one is written. Return its size in bytes.

    `is_own`: it is an internal file of the service.
    """
    size, chunks, gathered = 0, list[bytes](), 0
    writing: asyncio.Future[Any] | None = None
    try:
        async for chunk in body:
            chunks.append(chunk)
            gathered += len(chunk)
            if gathered >= BLOCK:
                if writing is not None:
                    await asyncio.shield(writing)
                writing = asyncio.ensure_future(threads.run(write_chunks, handle, chunks, offset + size, is_own))
                size, chunks, gathered = size + gathered, [], 0
    finally:
        if writing is not None:
            await asyncio.wait([writing])
    if writing is not None:
        await writing
    await threads.run_to_completion(write_chunks, handle, chunks, offset + size, is_own)
    return size + gathered


def write_chunks(handle: int, chunks: Sequence[bytes], offset: int, is_own: bool = False) -> None:
    """Write the blocks in order; blocks. Raise DataDiskFull or StorageFull."""
    platform().require_space(handle, is_own=is_own)
    left = deque(memoryview(chunk) for chunk in (chunks if len(chunks) <= MAX_CHUNKS_PER_WRITE else [b"".join(chunks)]))
    with translate_errors():
        while left:
            check_wanted()  # the handle of a call that was given up may belong to another file now
            done = os.pwritev(handle, left, offset)
            offset += done
            while left and done >= len(left[0]):
                done -= len(left.popleft())
            if left:
                left[0] = left[0][done:]


class LocalStagedFile:
    """See `StagedFile`. `handle`: open for reading and writing, and closed with this."""

    def __init__(self, handle: FileHandle, threads: StorageThreads) -> None:
        self.is_committed = False
        self.handle = handle
        self.threads = threads

    async def write(self, offset: int, content: bytes) -> None:
        await self.threads.run_to_completion(write_chunks, self.handle.number, [content], offset)

    async def read(self, offset: int, size: int) -> bytes:
        with translate_errors():
            return await self.threads.run(os.pread, self.handle.number, size, offset)

    async def truncate(self, size: int) -> None:
        with translate_errors():
            await self.threads.run_to_completion(os.ftruncate, self.handle.number, size)

    async def get_size(self) -> int:
        """The number of bytes that it has."""
        with translate_errors():
            return (await self.threads.run(os.fstat, self.handle.number)).st_size

    def close(self) -> None:
        self.handle.close()
