"""Bytes of local files, read and written in threads, block by block."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from mangrove.drivers.base import BLOCK
from mangrove.drivers.local.rooted import told

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


async def threaded(work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Run blocking work in a thread."""
    if kwargs:
        return await asyncio.to_thread(work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)


async def unbroken(work: Callable[..., Result], *args: Any) -> Result:
    """As `threaded`; when cancelled, first waits for the work to end, so that what it uses may be closed."""
    running = asyncio.get_running_loop().run_in_executor(None, work, *args)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class Handle:
    """An open file, closed at the latest when nobody knows it any more: iterators that never begin have no end."""

    def __init__(self, number: int) -> None:
        self.number = number

    def close(self) -> None:
        if self.number >= 0:
            number, self.number = self.number, -1
            os.close(number)

    __del__ = close


async def blocks(handle: Handle, offset: int, length: int | None) -> AsyncIterator[bytes]:
    """The file's bytes; closes the handle at the end, also of an iterator that is not read to it, or not at all."""
    loop = asyncio.get_running_loop()
    left = length
    try:
        while left is None or left > 0:
            wanted = BLOCK if left is None else min(BLOCK, left)
            with told():
                block = await loop.run_in_executor(None, os.pread, handle.number, wanted, offset)
            if not block:
                return
            offset += len(block)
            left = None if left is None else left - len(block)
            yield block
    finally:
        handle.close()


async def pour(body: AsyncIterator[bytes], handle: int) -> int:
    """Write a body in blocks, the next one gathered while one is written; answers its size."""
    size, waiting, held = 0, [], 0
    writing: asyncio.Future[Any] | None = None
    loop = asyncio.get_running_loop()
    try:
        async for chunk in body:
            waiting.append(chunk)
            held += len(chunk)
            if held >= BLOCK:
                if writing is not None:
                    await asyncio.shield(writing)
                writing = loop.run_in_executor(None, _write, handle, waiting)
                size, waiting, held = size + held, [], 0
    finally:
        if writing is not None:
            await asyncio.wait([writing])
    if writing is not None:
        await writing
    await unbroken(_write, handle, waiting)
    return size + held


def _write(handle: int, chunks: Sequence[bytes]) -> None:
    with told():
        for chunk in [b"".join(chunks)] if len(chunks) > 1 else chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(handle, view) :]
