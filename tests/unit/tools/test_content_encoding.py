"""Bodies that are sent compressed: which are decoded, and in what bounds."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from mangrove.core.problems import Problem
from mangrove.tools import http


async def pieces(content: bytes, length: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), length):
        yield content[start : start + length]


def decode(encoding: str, content: bytes) -> list[bytes]:
    async def read() -> list[bytes]:
        return [block async for block in http.decode_body(encoding, pieces(content))]

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("encoding", "name", "needed"),
    [("", "x", False), ("identity", "x", False), (" GZIP ", "x.html", True), ("deflate", "x", True),
     ("gzip", "x.tar.gz", False), ("x-gzip", "x.TGZ", False), ("br", "x.br", False), ("gzip", "gz", True)],
)  # fmt: skip
def test_what_is_compressed_anyway_stays_as_it_is(encoding: str, name: str, needed: bool) -> None:
    assert http.needs_decoding(encoding, name) == needed


def test_an_encoding_that_is_not_known_is_told() -> None:
    with pytest.raises(Problem, match="encoding that nobody asked for"):
        http.needs_decoding("zstd", "x.html")


def test_blocks_are_bounded_and_the_end_is_checked() -> None:
    content = bytes(5 << 20)
    for encoding, packed in (("gzip", gzip.compress(content)), (" Deflate", zlib.compress(content))):
        blocks = decode(encoding, packed)
        assert b"".join(blocks) == content
        assert max(map(len, blocks)) <= http.BLOCK_SIZE
        with pytest.raises(Problem, match="cut off"):
            decode(encoding, packed[:-1])
    assert decode("gzip", gzip.compress(b"x") + b"what follows is dropped") == [b"x"]
    with pytest.raises(Problem, match="broken encoding"):
        decode("gzip", b"plain text")
