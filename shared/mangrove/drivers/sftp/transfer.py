"""Bytes of files: many requests under way at once, each for as much as the server takes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import Any

from mangrove.core.chunked import split_chunks
from mangrove.core.problems import EntryChanged, StorageProblem
from mangrove.drivers.sftp.session import Session

AHEAD = 4 << 20  # bytes under way for one file
FIRST_AHEAD = 256 << 10  # the same before it is known how fast they are taken
YIELDED = 256 << 10  # bytes of a block that is handed over, where requests are smaller
SLOW_SECONDS = 0.5  # a block that is taken this late


def _start(request: Awaitable[Any]) -> asyncio.Future[Any]:
    """Send a request now, whether or not somebody will wait for its answer."""
    running = asyncio.ensure_future(request)
    running.add_done_callback(_take_error)
    return running


def _take_error(done: asyncio.Future[Any]) -> None:
    """Of what nobody waits for any more."""
    if not done.cancelled():
        done.exception()


class _Reader:
    """The bytes from `offset` to `end` of an open file, in order; to its end where `end` is None.

    EntryChanged when the file ends before.

    Up to AHEAD bytes are asked for at once, few at the beginning and of a reader that is slow: those may be many.
    """

    def __init__(self, session: Session, file: Any, name: str, offset: int, end: int | None) -> None:
        self._session = session
        self._file = file
        self._name = name
        self._offset = offset
        self._end = end
        self._is_exact = end is not None
        self._ahead = FIRST_AHEAD
        self._asked = 0  # bytes under way
        self._running: deque[tuple[int, int, asyncio.Future[bytes]]] = deque()  # offset, size, answer

    def _send(self) -> None:
        block = self._session.read_block
        while (self._end is None or self._offset < self._end) and (self._asked < self._ahead or not self._running):
            size = block if self._end is None else min(block, self._end - self._offset)
            self._running.append((self._offset, size, _start(self._file.read(size, self._offset))))
            self._offset += size
            self._asked += size

    async def _take(self) -> bytes:
        """The bytes of the oldest request; fewer than it asked for at the end of the file only."""
        offset, size, answer = self._running.popleft()
        content = await self._session.ask(answer, self._name)
        self._asked -= size
        while 0 < len(content) < size:
            rest = self._file.read(size - len(content), offset + len(content))
            more = await self._session.ask(rest, self._name)
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
        for _, _, answer in self._running:
            answer.cancel()
        self._running.clear()

    async def read_blocks(self) -> AsyncIterator[bytes]:
        try:
            self._send()
            while self._running:
                content = await self._take()
                while len(content) < YIELDED and self._running and self._running[0][2].done():
                    content += await self._take()
                self._send()
                if not content:
                    return
                began = time.monotonic()
                yield content
                is_slow = time.monotonic() - began > SLOW_SECONDS
                self._ahead = FIRST_AHEAD if is_slow else min(2 * self._ahead, AHEAD)
        finally:
            self._cancel()


class Body:
    """The bytes of a file that is open, with what has to be released after them: also when nobody iterates it."""

    def __init__(self, session: Session, file: Any, name: str, span: tuple[int, int | None], held: AsyncExitStack):
        self._blocks: Any = _Reader(session, file, name, *span).read_blocks()
        self._held: AsyncExitStack | None = held
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
        held, self._held = self._held, None
        if held is not None:
            try:
                await self._blocks.aclose()
            finally:
                await _release(held)

    def __del__(self) -> None:
        if self._held is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_release_later, self._held)


async def _release(held: AsyncExitStack) -> None:
    try:
        await held.aclose()
    except StorageProblem:
        pass  # all was read, or the reader has gone


def _release_later(held: AsyncExitStack) -> None:
    _start(_release(held))


async def write_blocks(session: Session, file: Any, name: str, body: AsyncIterator[bytes], offset: int = 0) -> int:
    """Write a body from `offset` on, AHEAD bytes under way at once; where it ends."""
    block = session.write_block
    running: deque[asyncio.Future[Any]] = deque()
    most = max(AHEAD // block, 1)
    try:
        async for chunk in split_chunks(body, block):
            running.append(_start(file.write(chunk, offset)))
            offset += len(chunk)
            if len(running) >= most:
                await session.ask(running.popleft(), name)
        while running:
            await session.ask(running.popleft(), name)
    finally:
        for request in running:
            request.cancel()
    return offset
