"""A file open for reading: blocks in order come from one stream of the storage, a seek opens another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from mangrove.drivers.base import BLOCK, Entry
from mangrove.protocols.sftp.handles import HandleAccess
from mangrove.tree.mounts import StoragePath

READ_BYTES = 256 << 10  # of one answer
HEX_DIGITS = {"md5": 32, "sha1": 40, "sha256": 64}  # some storages have them in base64, which is shorter
NEAR = 2 * BLOCK  # bytes that are rather read and dropped than skipped by another request to the storage


class OpenedFile:
    """The file as it was when it was opened: EntryChanged where the storage can tell that it is another one by now."""

    def __init__(self, storage_path: StoragePath, entry: Entry, access: HandleAccess) -> None:
        self.entry = entry
        self.access = access
        self._storage_path = storage_path
        self._stream: AsyncIterator[bytes] | None = None
        self._buffer = b""
        self._start = 0  # of the unread bytes in the buffer
        self._position = 0  # in the file, of those bytes

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes from `offset`, fewer than `size` only at the end of the file or above READ_BYTES."""
        size = min(size, READ_BYTES)
        if self.entry.size is not None and offset >= self.entry.size:
            return b""
        if self._stream is None or not self._position <= offset <= self._position + NEAR:
            await self._seek(offset)
        elif offset > self._position:
            await self._take(offset - self._position)
        return await self._take(size)

    async def _seek(self, offset: int) -> None:
        await self.close()
        self._stream = await self._storage_path.driver.read(self._storage_path.path, offset, None, self.entry)
        self._position = offset

    async def _take(self, size: int) -> bytes:
        """The next bytes of the stream."""
        found: list[bytes] = []
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
            found.append(piece)
        return found[0] if len(found) == 1 else b"".join(found)

    async def get_checksums(self) -> Mapping[str, str]:
        """Algorithm → checksum in hex, as far as the storage knows them without reading the file."""
        driver = self._storage_path.driver
        known = dict(self.entry.hashes or {})
        if driver.capabilities.get_checksums:
            known |= await driver.get_checksums(self._storage_path.path)
        return {name: value for name, value in known.items() if len(value) == HEX_DIGITS.get(name)}

    async def close(self) -> None:
        """Free what the stream holds."""
        stream, self._stream = self._stream, None
        self._buffer, self._start = b"", 0
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
