"""Limits on open handles over SFTP, and the present access of an open handle."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from asyncssh.sftp import (
    SFTPError,
    SFTPFailure,
    SFTPFileAlreadyExists,
    SFTPName,
    SFTPNoSuchFile,
    SFTPOpUnsupported,
    SFTPPermissionDenied,
)

from mangrove import configuration
from mangrove.configuration import mask_private
from mangrove.core.problems import (
    AccessDenied,
    EntryExists,
    EntryNotFound,
    NameConflict,
    NotMounted,
    NotSupported,
    Problem,
    ResourceNotFound,
    StorageForbidden,
    StorageProblem,
    TooMany,
    Unauthorized,
)
from mangrove.drivers.base import BLOCK, Entry
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath

MAX_HANDLES_PER_CONNECTION = 64
MAX_WRITE_HANDLES_PER_CONNECTION = 8
MAX_HANDLES_PER_USER = 256
MAX_HANDLES = 1024  # at most an eighth of the descriptors of the process
EVALUATION_INTERVAL_SECONDS = 1.0  # between two evaluations of the rights of an open handle
SPOOL_RESERVE_BYTES = 256 << 20  # that stay free on the disk of the temporary files
SPOOL_STEP_BYTES = 8 << 20  # the unit in which temporary files are counted


class SftpBudget:
    """The handles and the bytes of temporary files of the users of this process, per user id and in total.

    `folder`: the folder of temporary files, None for the system's default.
    """

    def __init__(self, folder: Path | None, max_handles: int = MAX_HANDLES) -> None:
        self.folder = folder
        self._max_handles = max_handles
        self._handles: Counter[int] = Counter()
        self._spooled: Counter[int] = Counter()

    def take_handle(self, user_id: int) -> None:
        """Count a handle. Raise TooMany if the user or all users have too many."""
        if self._handles[user_id] >= MAX_HANDLES_PER_USER:
            raise TooMany(f"a user may have {MAX_HANDLES_PER_USER} files and folders open")
        if self._handles.total() >= self._max_handles:
            raise TooMany("too many files and folders are open, try again later")
        self._handles[user_id] += 1

    def release_handle(self, user_id: int) -> None:
        """Stop counting a handle."""
        _subtract(self._handles, user_id, 1)

    async def take_spool(self, user_id: int, size: int) -> bool:
        """Count bytes of a temporary file. Return False if there is no room for them."""
        settings = configuration.cached().settings
        self._spooled[user_id] += size
        is_allowed = (
            self._spooled[user_id] <= settings.sftp_max_temporary_mb_per_user
            and self._spooled.total() <= settings.sftp_max_temporary_mb
        ) and await asyncio.to_thread(self._is_disk_free, size)
        if not is_allowed:
            self.release_spool(user_id, size)
        return is_allowed

    def release_spool(self, user_id: int, size: int) -> None:
        """Stop counting bytes of a temporary file."""
        _subtract(self._spooled, user_id, size)

    def _is_disk_free(self, size: int) -> bool:
        disk = os.statvfs(self.folder or tempfile.gettempdir())
        return disk.f_bavail * disk.f_frsize >= size + SPOOL_RESERVE_BYTES


def _subtract(counts: Counter[int], key: int, amount: int) -> None:
    counts[key] -= amount
    if not counts[key]:
        del counts[key]


class ConnectionHandles:
    """The open handles of one connection, on all of its channels."""

    def __init__(self, budget: SftpBudget, user_id: int) -> None:
        self.budget = budget
        self.user_id = user_id
        self._count = 0
        self._write_count = 0

    def take(self, *, is_write: bool = False) -> None:
        """Count a handle. Raise TooMany if the connection, the user or all users have too many."""
        if self._count >= MAX_HANDLES_PER_CONNECTION:
            raise TooMany(f"a connection may have {MAX_HANDLES_PER_CONNECTION} files and folders open")
        if is_write and self._write_count >= MAX_WRITE_HANDLES_PER_CONNECTION:
            raise TooMany(f"a connection may have {MAX_WRITE_HANDLES_PER_CONNECTION} files open for writing")
        self.budget.take_handle(self.user_id)
        self._count += 1
        self._write_count += is_write

    def release(self, *, is_write: bool = False) -> None:
        """Stop counting a handle."""
        self.budget.release_handle(self.user_id)
        self._count -= 1
        self._write_count -= is_write


class HandleAccess:
    """The access of an open handle, evaluated while it is used and when its file is stored.

    `evaluate` returns the access to the path that the client has opened, with the present account, rules and base path.
    `storage_path`: the path in its storage, None for a folder.
    """

    def __init__(
        self,
        opened: PathAccess,
        storage_path: StoragePath | None,
        right: Right,
        evaluate: Callable[[], Awaitable[PathAccess]],
    ) -> None:
        self._opened = opened
        self._storage_path = storage_path
        self._right = right
        self._evaluate = evaluate
        self._evaluated_at = time.monotonic()

    async def follow(self) -> None:
        """Evaluate the access, unless that was done less than a moment ago."""
        if time.monotonic() - self._evaluated_at >= EVALUATION_INTERVAL_SECONDS:
            await self.evaluate()

    async def evaluate(self) -> PathAccess:
        """Return the present access. Raise a Problem if the handle can no longer be used."""
        access = await self._evaluate()
        if access.path != self._opened.path:
            raise AccessDenied("the base path of the account has changed, open the file again")
        if self._right is Right.WRITE:
            access.parent.require(Right.WRITE)
        else:
            access.require_read()
        await self._check_storage(access)
        self._evaluated_at = time.monotonic()
        return access

    async def _check_storage(self, access: PathAccess) -> None:
        if self._storage_path is not None:
            storage_path = await access.locate("")
            if storage_path.driver is not self._storage_path.driver or storage_path.path != self._storage_path.path:
                raise AccessDenied("the storage of the file has changed, open the file again")


class OpenedFolder:
    """An open listing of a folder."""

    def __init__(self, names: AsyncGenerator[SFTPName]) -> None:
        self._names = names

    def __aiter__(self) -> OpenedFolder:
        return self

    async def __anext__(self) -> SFTPName:
        return await anext(self._names)

    async def close(self) -> None:
        """Free the listing."""
        await self._names.aclose()


READ_BYTES = 256 << 10  # per answer
HEX_DIGITS = {"md5": 32, "sha1": 40, "sha256": 64}  # some storages encode them in base64, which is shorter
MAX_SMALL_FILE_BYTES = 96 << 10  # of a file that is read with one call
MAX_SKIPPED_BYTES = 2 * BLOCK  # skipped by reading, which is cheaper than another request to the storage


class OpenedFile:
    """An open file for reading.

    It raises EntryChanged if the storage can tell that the file was replaced since it was opened.
    """

    def __init__(self, storage_path: StoragePath, entry: Entry, access: HandleAccess) -> None:
        self.entry = entry
        self.access = access
        self._storage_path = storage_path
        self._stream: AsyncIterator[bytes] | None = None
        self._buffer = b""
        self._start = 0  # start of the unread bytes in the buffer
        self._position = 0  # their offset in the file
        self._is_read = False  # the buffer has the whole file

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes from `offset`.

        Fewer than `size` are returned only at the end of the file or above READ_BYTES.
        """
        size = min(size, READ_BYTES)
        if self.entry.size is not None:
            size = min(size, self.entry.size - offset)
        if size <= 0:
            return b""
        if await self._read_small():
            return self._buffer[offset : offset + size]
        if self._stream is None or not self._position <= offset <= self._position + MAX_SKIPPED_BYTES:
            await self._seek(offset)
        elif offset > self._position:
            await self._take(offset - self._position)
        return await self._take(size)

    async def _read_small(self) -> bool:
        """Read a small file into the buffer, in one call of the storage. Return True if the buffer has the file."""
        driver = self._storage_path.driver
        is_small = self.entry.size is not None and self.entry.size <= MAX_SMALL_FILE_BYTES
        if not self._is_read and is_small and driver.capabilities.read_whole:
            (file,) = await driver.read_whole([(self._storage_path.path, self.entry)])
            if isinstance(file, StorageProblem):
                raise file
            self._buffer, self._is_read = file.content, True
        return self._is_read

    async def _seek(self, offset: int) -> None:
        await self.close()
        self._stream = await self._storage_path.driver.read(self._storage_path.path, offset, None, self.entry)
        self._position = offset

    async def _take(self, size: int) -> bytes:
        """Return the next bytes of the stream."""
        pieces: list[bytes] = []
        while size:
            if self._start == len(self._buffer):
                assert self._stream is not None
                self._buffer, self._start = await anext(self._stream, b""), 0
                if not self._buffer:
                    break
            piece = self._buffer[self._start : self._start + size]
            self._start += len(piece)
            self._position += len(piece)
            size -= len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def get_checksums(self) -> Mapping[str, str]:
        """Return the checksums in hex by algorithm, as far as the storage knows them without reading the file."""
        driver = self._storage_path.driver
        known = dict(self.entry.hashes or {})
        if driver.capabilities.get_checksums:
            known |= await driver.get_checksums(self._storage_path.path)
        return {name: value for name, value in known.items() if len(value) == HEX_DIGITS.get(name)}

    async def close(self) -> None:
        """Release the resources of the stream."""
        stream, self._stream = self._stream, None
        self._buffer, self._start, self._is_read = b"", 0, False
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


_KINDS: tuple[tuple[tuple[type[Problem], ...], Callable[[str], SFTPError]], ...] = (
    ((NameConflict, EntryExists), SFTPFileAlreadyExists),
    ((EntryNotFound, NotMounted, ResourceNotFound), SFTPNoSuchFile),
    ((AccessDenied, Unauthorized, StorageForbidden), SFTPPermissionDenied),
    ((NotSupported,), SFTPOpUnsupported),
)


def explain(problem: Problem) -> SFTPError:
    """Return the SFTP status of a problem."""
    make = next((make for problems, make in _KINDS if isinstance(problem, problems)), SFTPFailure)
    return make(mask_private(problem.describe()))
