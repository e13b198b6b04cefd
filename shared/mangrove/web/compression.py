"""Answers compressed for clients that take gzip, and how large they are for a function of the cloud."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from mangrove.core.runtime import CacheKind

LEAST = 1024  # bytes: a shorter answer is sent as it is
AT_ONCE = 32 << 10  # bytes that are compressed in less time than a thread takes
LEVEL = 2
MAX_REMEMBERED_BYTES = 1 << 20  # of one answer, before it is compressed
COMPRESSED_ANSWERS: CacheKind[bytes, bytes] = CacheKind("compressed answers", 8 << 20, len)  # bytes


def takes_gzip(scope: Scope) -> bool:
    """Whether the client says so."""
    for part in Headers(scope=scope).get("accept-encoding", "").lower().split(","):
        encoding, _, weight = part.replace(" ", "").partition(";q=")
        if encoding in ("gzip", "x-gzip", "*"):
            return weight.strip("0.") != "" or not weight
    return False


async def compress(body: bytes) -> bytes:
    """Return the body in gzip. A page that many clients request is compressed once."""
    if len(body) <= AT_ONCE:
        return zlib.compress(body, LEVEL, 16 + zlib.MAX_WBITS)
    if len(body) > MAX_REMEMBERED_BYTES:
        return await asyncio.to_thread(zlib.compress, body, LEVEL, 16 + zlib.MAX_WBITS)
    answers, key = COMPRESSED_ANSWERS.open(), hashlib.sha256(body).digest()
    compressed = answers.get(key)
    if compressed is None:
        compressed = await asyncio.to_thread(zlib.compress, body, LEVEL, 16 + zlib.MAX_WBITS)
        answers.put(key, compressed)
    return compressed


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
