"""A file of a Local storage that is written in any order before it has a name."""

from __future__ import annotations

import os

from mangrove.drivers.local.blocks import FileHandle, write_chunks
from mangrove.drivers.local.rooted import translate_errors
from mangrove.drivers.threads import StorageThreads


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
        """Bytes that it has."""
        with translate_errors():
            return (await self.threads.run(os.fstat, self.handle.number)).st_size

    def close(self) -> None:
        self.handle.close()
