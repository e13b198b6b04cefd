"""Bytes of local files, read and written in threads, block by block."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple, Unpack

from mangrove.concurrency import finish_despite_cancel
from mangrove.drivers.base import BLOCK
from mangrove.drivers.local.rooted import translate_errors

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


def run_in_thread(function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> asyncio.Future[Result]:
    """Run a blocking function in a thread."""
    return asyncio.get_running_loop().run_in_executor(None, function, *args)


async def run_to_completion(function: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result:
    """As `run_in_thread`; when cancelled, first waits for the function to end, so that what it uses may be closed."""
    return await finish_despite_cancel(run_in_thread(function, *args))


class FileHandle:
    """An open file, closed with its last reference: an async generator that is never iterated runs no `finally`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def close(self) -> None:
        if self.number >= 0:
            number, self.number = self.number, -1
            os.close(number)

    __del__ = close


async def read_blocks(handle: FileHandle, offset: int, length: int | None) -> AsyncIterator[bytes]:
    """The file's bytes; closes the handle at the end or when the iterator is closed."""
    left = length
    try:
        while left is None or left > 0:
            size = BLOCK if left is None else min(BLOCK, left)
            with translate_errors():
                block = await run_in_thread(os.pread, handle.number, size, offset)
            if not block:
                return
            offset += len(block)
            left = None if left is None else left - len(block)
            yield block
    finally:
        handle.close()


async def write_body(body: AsyncIterator[bytes], handle: int) -> int:
    """Write a body in blocks, gathering the next one while one is written; its size in bytes."""
    size, chunks, gathered = 0, list[bytes](), 0
    writing: asyncio.Future[Any] | None = None
    try:
        async for chunk in body:
            chunks.append(chunk)
            gathered += len(chunk)
            if gathered >= BLOCK:
                if writing is not None:
                    await asyncio.shield(writing)
                writing = run_in_thread(_write_chunks, handle, chunks)
                size, chunks, gathered = size + gathered, [], 0
    finally:
        if writing is not None:
            await asyncio.wait([writing])
    if writing is not None:
        await writing
    await run_to_completion(_write_chunks, handle, chunks)
    return size + gathered


def _write_chunks(handle: int, chunks: Sequence[bytes]) -> None:
    with translate_errors():
        for chunk in [b"".join(chunks)] if len(chunks) > 1 else chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(handle, view) :]
