"""Bodies that a server compresses without a request, decompressed in limited memory."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator

from mangrove.core.problems import Problem

BLOCK_SIZE = 1 << 20  # bytes decompressed per step
RATIO_EXEMPT = 64 << 20  # bytes that may be decompressed at any ratio
MAX_RATIO = 200  # decompressed to received bytes
_COMPRESSED_FILE = re.compile(r"\.(gz|tgz|svgz|bz2|tbz2?|xz|txz|zst|tzst|br|lz4?|z|zip|7z|rar|warc)$", re.IGNORECASE)
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def needs_decoding(encoding: str, name: str) -> bool:
    """True if a body in this Content-Encoding must be decoded to get the file `name`. Raise Problem for an unknown
    encoding.

    Servers declare an encoding for compressed files, too: those are kept as they are sent.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or _COMPRESSED_FILE.search(name):
        return False
    if encoding not in _WINDOW_BITS:
        raise Problem("the server sends the file in an encoding that nobody asked for")
    return True


async def decode_body(encoding: str, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the decoded bytes of a body, in blocks of at most BLOCK_SIZE. Raise Problem if it is broken or a bomb."""
    decompressor = zlib.decompressobj(_WINDOW_BITS[encoding.strip().lower()])
    received = decoded = 0
    async for block in body:
        received += len(block)
        while block and not decompressor.eof:
            try:
                piece = decompressor.decompress(block, BLOCK_SIZE)
            except zlib.error:
                raise Problem("the file is sent in a broken encoding") from None
            block = decompressor.unconsumed_tail
            decoded += len(piece)
            if decoded > RATIO_EXEMPT and decoded > received * MAX_RATIO:
                raise Problem("the file unpacks to far more than is sent")
            if piece:
                yield piece
    if not decompressor.eof:
        raise Problem("the file was cut off on its way")
