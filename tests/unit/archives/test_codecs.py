"""The decompressors behind one interface."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from mangrove.archives import codecs
from mangrove.archives.base import MAX_MEMORY
from mangrove.core.problems import BrokenArchive, NotSupported

CONTENT = os.urandom(50_000) + bytes(500_000)


def raw_lzma(number: int) -> bytes:
    return lzma.compress(CONTENT, lzma.FORMAT_RAW, filters=[{"id": number, "dict_size": 1 << 20}])


CODECS: dict[str, tuple[Callable[[], codecs.Decompressor], Callable[[], bytes]]] = {
    "deflate": (codecs.make_deflate, lambda: zlib.compress(CONTENT, wbits=-15)),
    "deflate64": (codecs.Deflate64Decompressor, lambda: zlib.compress(CONTENT[:40_000], 0, wbits=-15)),
    "gzip": (codecs.make_gzip, lambda: zlib.compress(CONTENT, wbits=31)),
    "bzip2": (codecs.make_bzip2, lambda: bz2.compress(CONTENT)),
    "xz": (codecs.make_xz, lambda: lzma.compress(CONTENT)),
    "lzma1": (
        lambda: codecs.make_lzma1(b"\x5d" + (1 << 20).to_bytes(4, "little")),
        lambda: raw_lzma(lzma.FILTER_LZMA1),
    ),
    "lzma2": (lambda: codecs.make_lzma2(b"\x10"), lambda: raw_lzma(lzma.FILTER_LZMA2)),
}


def unpack(codec: codecs.Decompressor, packed: bytes, step: int = 777, max_length: int = 4096) -> bytes:
    content, offset = bytearray(), 0
    while not codec.eof:
        data = b""
        if codec.needs_input:
            data, offset = packed[offset : offset + step], offset + step
            if not data and not codec.ends_with_input:
                break
        block = codec.decompress(data, max_length)
        assert len(block) <= max_length
        content += block
    return bytes(content)


@pytest.mark.parametrize("name", CODECS)
def test_what_comes_out_is_what_went_in_and_bounded(name: str) -> None:
    make, pack = CODECS[name]
    assert unpack(make(), pack()) == (CONTENT[:40_000] if name == "deflate64" else CONTENT)


@pytest.mark.parametrize("name", [name for name in CODECS if name not in ("lzma1", "lzma2")])
def test_damage_is_a_broken_archive(name: str) -> None:
    with pytest.raises(BrokenArchive, match="damaged data"):
        unpack(CODECS[name][0](), b"\xff" * 5000)


def test_what_follows_a_stream_is_left_over() -> None:
    for name in ("gzip", "bzip2", "xz"):
        make, pack = CODECS[name]
        codec = make()
        unpack(codec, pack() + b"rest", step=1 << 30)
        assert (codec.eof, codec.unused_data) == (True, b"rest")


@pytest.mark.parametrize("name", ["X86", "POWERPC", "IA64", "ARM", "ARMTHUMB", "SPARC"])
def test_a_branch_filter_is_undone(name: str) -> None:
    filters: list[dict[str, Any]] = [{"id": getattr(lzma, f"FILTER_{name}")}, {"id": lzma.FILTER_LZMA2, "preset": 0}]
    packed = lzma.compress(CONTENT, lzma.FORMAT_RAW, filters=filters)
    filtered = lzma.decompress(packed, lzma.FORMAT_RAW, filters=filters[1:])
    assert unpack(codecs.make_branch(name), filtered, step=70_000) == CONTENT


@pytest.mark.parametrize("distance", [1, 4, 256])
def test_a_delta_is_undone(distance: int) -> None:
    deltas = bytes((byte - (CONTENT[at - distance] if at >= distance else 0)) & 255 for at, byte in enumerate(CONTENT))
    assert unpack(codecs.make_delta(distance), deltas, step=70_000) == CONTENT


@pytest.mark.parametrize("properties", [b"", b"\x5d", b"\xe1" + bytes(4), bytes(6)])
def test_properties_that_lzma_cannot_have_are_broken(properties: bytes) -> None:
    with pytest.raises(BrokenArchive):
        codecs.make_lzma1(properties)
    with pytest.raises(BrokenArchive):
        codecs.make_lzma2(properties + b"\x29" * (not properties) + b"x" * (len(properties) == 1))


def test_a_dictionary_above_the_bound_is_refused_before_memory_is_taken() -> None:
    for make in (lambda: codecs.make_lzma1(b"\x5d" + (MAX_MEMORY + 1).to_bytes(4, "little")),
                 lambda: codecs.make_lzma2(b"\x28")):  # fmt: skip
        with pytest.raises(BrokenArchive, match="256 MiB of memory"):
            make()
    with pytest.raises(NotSupported):
        codecs.make_lzma1(bytes([4 * 9 + 8]) + bytes(4))
