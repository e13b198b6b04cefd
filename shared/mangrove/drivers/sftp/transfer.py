"""Bytes of files, in many concurrent requests of the size that the server supports, and the durability of new files."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import asyncssh

from mangrove.core.chunked import split_chunks
from mangrove.core.problems import EntryChanged, NotSupported, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import make_part_name
from mangrove.drivers.sftp.client import DISK_ANSWER_TIMEOUT_SECONDS, SftpSession
from mangrove.drivers.sftp.entries import CREATE, Discard
from mangrove.drivers.sftp.errors import ServerFailure

MAX_PENDING_BYTES = 4 << 20  # of one file, in unanswered requests
FIRST_PENDING_BYTES = 256 << 10  # until the speed of the reader is known
MIN_BLOCK_BYTES = 256 << 10  # of a block for the reader, made of several answers if requests are smaller
SLOW_READER_SECONDS = 0.5  # for one block
COPY_REQUEST_BYTES = 16 << 20  # copied by the server in one request: later requests of the connection wait for it
MAX_TIMESTAMP = (1 << 32) - 1  # of the protocol, in seconds since the epoch


def _start(request: Awaitable[Any]) -> asyncio.Future[Any]:
    """Send a request now, even if no caller awaits its answer."""
    running = asyncio.ensure_future(request)
    running.add_done_callback(_retrieve_error)
    return running


def _retrieve_error(request: asyncio.Future[Any]) -> None:
    """Prevent asyncio from reporting the failure of a request whose answer is not awaited any more."""
    if not request.cancelled():
        request.exception()


class _Reader:
    """The bytes of an open file from `offset` to `end` (None: its end), in order. Raise EntryChanged if the file ends
    before.

    Up to MAX_PENDING_BYTES are requested ahead; fewer at the start and for a slow reader, of which there may be many.
    """

    def __init__(self, session: SftpSession, file: Any, name: str, offset: int, end: int | None) -> None:
        self._session = session
        self._file = file
        self._name = name
        self._offset = offset
        self._end = end
        self._is_exact = end is not None
        self._max_pending = FIRST_PENDING_BYTES
        self._pending = 0  # bytes
        self._requests: deque[tuple[int, int, asyncio.Future[bytes]]] = deque()  # offset, size, answer

    def _send(self) -> None:
        while (self._end is None or self._offset < self._end) and (
            self._pending < self._max_pending or not self._requests
        ):
            size = self._session.max_read
            if self._end is not None:
                size = min(size, self._end - self._offset)
            self._requests.append((self._offset, size, _start(self._file.read(size, self._offset))))
            self._offset += size
            self._pending += size

    async def _receive(self) -> bytes:
        """Return the bytes of the oldest request; fewer than requested only at the end of the file."""
        offset, size, answer = self._requests.popleft()
        content = await self._session.call(answer, self._name)
        self._pending -= size
        while 0 < len(content) < size:
            rest = self._file.read(size - len(content), offset + len(content))
            more = await self._session.call(rest, self._name)
            if not more:
                break
            content += more
        if len(content) < size:
            if self._is_exact:
                raise EntryChanged("the file became shorter while it was read")
            self._end = offset
            self._cancel()
        return content

    def _cancel(self) -> None:
        for _, _, answer in self._requests:
            answer.cancel()
        self._requests.clear()

    async def read_blocks(self) -> AsyncIterator[bytes]:
        try:
            self._send()
            while self._requests:
                content = await self._receive()
                while len(content) < MIN_BLOCK_BYTES and self._requests and self._requests[0][2].done():
                    content += await self._receive()
                self._send()
                if not content:
                    return
                began = time.monotonic()
                yield content
                is_slow = time.monotonic() - began > SLOW_READER_SECONDS
                self._max_pending = FIRST_PENDING_BYTES if is_slow else min(2 * self._max_pending, MAX_PENDING_BYTES)
        finally:
            self._cancel()


class SftpStream:
    """The bytes of an open file. Its resources are released afterwards, also if the stream is never iterated."""

    def __init__(
        self, session: SftpSession, file: Any, name: str, span: tuple[int, int | None], resources: AsyncExitStack
    ) -> None:
        self._blocks: Any = _Reader(session, file, name, *span).read_blocks()
        self._resources: AsyncExitStack | None = resources
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            block: bytes = await anext(self._blocks)
        except BaseException:
            await self.aclose()
            raise
        return block

    async def aclose(self) -> None:
        resources, self._resources = self._resources, None
        if resources is not None:
            try:
                await self._blocks.aclose()
            finally:
                await _release(resources)

    def __del__(self) -> None:
        if self._resources is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_release_later, self._resources)


async def _release(resources: AsyncExitStack) -> None:
    with suppress(StorageProblem):  # everything was read, or the reader is gone
        await resources.aclose()


def _release_later(resources: AsyncExitStack) -> None:
    _start(_release(resources))


async def write_blocks(session: SftpSession, file: Any, name: str, body: AsyncIterator[bytes], offset: int = 0) -> int:
    """Write a body from `offset` on, with MAX_PENDING_BYTES in transit. Return the offset of its end."""
    requests: deque[asyncio.Future[Any]] = deque()
    max_requests = max(MAX_PENDING_BYTES // session.max_write, 1)
    try:
        async for chunk in split_chunks(body, session.max_write):
            requests.append(_start(file.write(chunk, offset)))
            offset += len(chunk)
            if len(requests) >= max_requests:
                await session.call(requests.popleft(), name)
        while requests:
            await session.call(requests.popleft(), name)
    finally:
        for request in requests:
            request.cancel()
    return offset


async def set_time_and_check(
    session: SftpSession, part: bytes, name: str, size: int, upload: Upload
) -> asyncssh.SFTPAttrs:
    """Set the time of an unfinished file if the server can, and return its attributes.

    Raise EntryNotFound if it does not exist, StorageProblem if it has another size.
    """
    seconds = min(max(int(upload.modified), 0), MAX_TIMESTAMP)
    try:
        await session.call(session.client.utime(part, (seconds, seconds)), name)
    except Unreachable:
        raise
    except StorageProblem:
        pass  # the file keeps the time when it was written
    attributes = await session.call(session.client.lstat(part), name)
    if attributes.size != size:
        raise StorageProblem(f"the server has stored {attributes.size} bytes instead of {size}")
    return attributes


async def sync(session: SftpSession, file: Any, name: str) -> None:
    """Make an open file survive a power cut of the server, if the server supports that."""
    with suppress(NotSupported):
        await session.call(file.fsync(), name, DISK_ANSWER_TIMEOUT_SECONDS)


async def sync_folders(session: SftpSession, folders: Sequence[bytes], name: str) -> None:
    """Make the names in folders survive a power cut of the server, if the server supports that."""

    async def sync_folder(folder: bytes) -> None:
        async with session.open_file(folder, asyncssh.FXF_READ, name) as handle:
            await sync(session, handle, name)

    for result in await asyncio.gather(*map(sync_folder, folders), return_exceptions=True):
        if isinstance(result, StorageProblem) and not isinstance(result, Unreachable):
            continue  # a server that cannot open folders
        if isinstance(result, BaseException):
            raise result


async def can_sync(session: SftpSession, folder: bytes) -> bool:
    """True if the server makes files and names survive a power cut."""
    try:
        async with session.open_file(folder, asyncssh.FXF_READ, "") as handle:
            await session.call(handle.fsync(), "", DISK_ANSWER_TIMEOUT_SECONDS)
    except Unreachable:
        raise
    except StorageProblem:
        return False
    return True


async def copy_bytes(session: SftpSession, source: Any, target: Any, size: int, name: str) -> None:
    """Let the server copy `size` bytes from one open file to another."""
    for offset in range(0, size, COPY_REQUEST_BYTES):
        length = min(COPY_REQUEST_BYTES, size - offset)
        copying = session.client.remote_copy(source, target, offset, length, offset)
        await session.call(copying, name, DISK_ANSWER_TIMEOUT_SECONDS)


async def can_write_into_files(session: SftpSession, folder: bytes, discard: Discard) -> bool:
    """True if the server can write into an existing file; rclone without a cache accepts only whole files."""
    if session.is_openssh:
        return True
    part = folder + b"/" + make_part_name().encode()
    async with session.open_file(part, CREATE, ""):
        pass
    try:
        async with session.open_file(part, asyncssh.FXF_WRITE, "") as file:
            await session.call(file.write(b"x", 1))
    except (ServerFailure, StorageForbidden, NotSupported):
        return False
    finally:
        await discard(part)
    return True
