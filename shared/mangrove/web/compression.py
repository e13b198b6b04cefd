"""Answers compressed for clients that take gzip, and how large they are for a function of the cloud."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from mangrove.core import runtime

LEAST = 1024  # bytes: a shorter answer is sent as it is
AT_ONCE = 32 << 10  # bytes that are compressed in less time than a thread takes
LEVEL = 2
LARGEST_CACHE, LARGEST_KEPT = 8 << 20, 1 << 20  # bytes of all compressed answers that are kept, and of one of them


def takes_gzip(scope: Scope) -> bool:
    """Whether the client says so."""
    for part in Headers(scope=scope).get("accept-encoding", "").lower().split(","):
        encoding, _, weight = part.replace(" ", "").partition(";q=")
        if encoding in ("gzip", "x-gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False


class CompressedAnswers:
    """What was compressed last: a page that many ask for is compressed once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._weight = 0

    async def compress(self, body: bytes) -> bytes:
        """The body in gzip."""
        if len(body) <= AT_ONCE:
            return zlib.compress(body, LEVEL, 16 + zlib.MAX_WBITS)
        key = hashlib.sha256(body).digest() if len(body) <= LARGEST_KEPT else b""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        compressed = await asyncio.to_thread(zlib.compress, body, LEVEL, 16 + zlib.MAX_WBITS)
        if key and key not in self._kept:
            self._kept[key] = compressed
            self._weight += len(compressed)
            while self._weight > LARGEST_CACHE:
                self._weight -= len(self._kept.popitem(last=False)[1])
        return compressed


async def compress(body: bytes) -> bytes:
    """The body in gzip, from what is kept where it was compressed before."""
    return await runtime.get(CompressedAnswers).compress(body)


async def compress_pieces(pieces: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The same of a body that comes in pieces, as soon as they come."""
    source: Any = pieces
    compressor = zlib.compressobj(LEVEL, wbits=16 + zlib.MAX_WBITS)
    async with aclosing(source):
        async for piece in source:
            if compressed := await asyncio.to_thread(compressor.compress, piece):
                yield compressed
    yield compressor.flush()


def measure(body: bytes, is_compressed: bool) -> int:
    """Bytes of a body in what a function returns: bytes in base64, JSON as text in JSON."""
    return -(-len(body) // 3) * 4 if is_compressed else len(body) + body.count(b'"') + body.count(b"\\")
