"""Sending a body: in small pieces, of the announced size, also to a server that wants to know the size before."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import IO

from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import BLOCK, Upload
from mangrove.drivers.refusals import refuse_other_size
from mangrove.drivers.webdav.errors import make_problem
from mangrove.drivers.webdav.server import Server

PIECE = 256 << 10  # bytes that are sent at once: a larger one is copied again and again on its way
_LENGTH_REQUIRED = 411


class Uploader:
    """Puts files on one server, and remembers whether it takes a body whose size is not known before."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._takes_chunks: bool | None = None

    async def put(self, url: str, body: AsyncIterator[bytes], upload: Upload) -> None:
        """Store a body as the new file at `url`."""
        headers = {"content-type": upload.mime or "application/octet-stream"}
        if upload.modified > 0:
            headers["x-oc-mtime"] = str(int(upload.modified))
        size = upload.size
        if size is None:
            first, body = await _peek(body)
            size = len(first) if len(first) < BLOCK else None
        if not self._server.may_sign or (size is None and self._takes_chunks is None):
            await self._try_out(url, headers)
        if size is None and not self._takes_chunks:
            await self._put_spooled(url, body, headers)
        else:
            await self._put(url, body, headers, size)

    async def _put(self, url: str, body: AsyncIterator[bytes], headers: dict[str, str], size: int | None) -> None:
        length = {} if size is None else {"content-length": str(size)}
        self._check(await self._server.change("PUT", url, headers | length, _cut(body, size)))

    def _check(self, status: int) -> None:
        if status not in (200, 201, 202, 204):
            raise make_problem(status)

    async def _try_out(self, url: str, headers: dict[str, str]) -> None:
        """Put an empty file in chunks: what a server asks for before it takes a body that can be sent only once."""
        for _ in range(2):
            status = await self._server.change("PUT", url, headers, _nothing())
            if status != 401:
                break
        self._takes_chunks = status != _LENGTH_REQUIRED
        if status != _LENGTH_REQUIRED:
            self._check(status)

    async def _put_spooled(self, url: str, body: AsyncIterator[bytes], headers: dict[str, str]) -> None:
        """Through a file of this machine, since the server wants the size before the first byte."""
        try:
            with await asyncio.to_thread(tempfile.TemporaryFile) as spool:
                size = 0
                async for block in body:
                    size += await asyncio.to_thread(spool.write, block)
                await asyncio.to_thread(spool.seek, 0)
                await self._put(url, _read(spool), headers, size)
        except OSError as error:
            raise StorageProblem(f"no room to keep a file whose size is not known: {error.strerror}") from None


async def _peek(body: AsyncIterator[bytes]) -> tuple[bytes, AsyncIterator[bytes]]:
    """The first BLOCK bytes or more, fewer only when that is all; and the body with them."""
    first = bytearray()
    while len(first) < BLOCK:
        block = await anext(body, None)
        if block is None:
            break
        first += block
    held = bytes(first)

    async def whole() -> AsyncIterator[bytes]:
        yield held
        async for block in body:
            yield block

    return held, whole()


async def _cut(body: AsyncIterator[bytes], size: int | None) -> AsyncIterator[bytes]:
    """The body in pieces; BadRequest when it ends before `size` bytes."""
    sent = 0
    async for block in body:
        for start in range(0, len(block), PIECE):
            yield block[start : start + PIECE]
        sent += len(block)
    refuse_other_size(sent, size)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _read(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while block := await asyncio.to_thread(spool.read, BLOCK):
        yield block
