"""Bodies that a server sends compressed although it was asked not to, in bounded memory."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator

from mangrove.problems import Problem

BLOCK = 1 << 20  # bytes unpacked at once
FREE = 64 << 20  # bytes that may come out whatever went in
RATIO = 200  # bytes that may come out for one that went in
_PACKED = re.compile(r"\.(gz|tgz|svgz|bz2|tbz2?|xz|txz|zst|tzst|br|lz4?|z|zip|7z|rar|warc)$", re.IGNORECASE)
_KNOWN = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def needed(coding: str, name: str) -> bool:
    """Whether a body in this Content-Encoding is to be unpacked to be the file `name`; Problem when we cannot.

    Servers label archives as encoded, which they are anyway: those are kept as they are sent.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity") or _PACKED.search(name):
        return False
    if coding not in _KNOWN:
        raise Problem("the server sends the file in an encoding that nobody asked for")
    return True


async def unpacked(coding: str, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The bytes in a body, in blocks of at most BLOCK; Problem when it is broken or a bomb."""
    machine = zlib.decompressobj(_KNOWN[coding.strip().lower()])
    taken = given = 0
    async for block in body:
        taken += len(block)
        while block and not machine.eof:
            try:
                piece = machine.decompress(block, BLOCK)
            except zlib.error:
                raise Problem("the file is sent in a broken encoding") from None
            block = machine.unconsumed_tail
            given += len(piece)
            if given > FREE and given > taken * RATIO:
                raise Problem("the file unpacks to far more than is sent")
            if piece:
                yield piece
    if not machine.eof:
        raise Problem("the file was cut off on its way")
