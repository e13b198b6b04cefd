"""Decompressors of one form, each made when it is first needed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

from mangrove.archives.base import MEMORY
from mangrove.problems import BrokenArchive, NotSupported

TOO_MUCH_MEMORY = f"the archive needs more than {MEMORY >> 20} MiB of memory to be unpacked"
_SLICE = 1 << 12  # bytes given at once to what cannot bound its output


class Decompressor(Protocol):
    """As in the standard library's bz2 and lzma; `ends_with_input`: it is told the end by empty input."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def ends_with_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def _explained(error: Exception) -> BrokenArchive:
    return BrokenArchive(TOO_MUCH_MEMORY if "memory" in str(error).lower() else "the archive has damaged data")


class _Native:
    """One of the standard library's form."""

    ends_with_input = False

    def __init__(self, one: Any, *errors: type[Exception]) -> None:
        self._one = one
        self._errors: tuple[type[Exception], ...] = (*errors, EOFError, MemoryError)

    @property
    def eof(self) -> bool:
        return bool(self._one.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._one.needs_input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._one.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            return bytes(self._one.decompress(data, max_length))
        except self._errors as error:
            raise _explained(error) from error


class _Zlib:
    ends_with_input = False

    def __init__(self, window_bits: int) -> None:
        import zlib

        self._one = zlib.decompressobj(window_bits)
        self._error = zlib.error
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._one.eof

    @property
    def unused_data(self) -> bytes:
        return self._one.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            block = self._one.decompress(self._one.unconsumed_tail + data, max_length)
        except self._error as error:
            raise _explained(error) from error
        self.needs_input = not self._one.unconsumed_tail and len(block) < max_length
        return block


class _Deflate64:
    ends_with_input = False
    unused_data = b""

    def __init__(self) -> None:
        import inflate64

        self._one = inflate64.Inflater()
        self._packed = b""
        self._block = b""

    @property
    def eof(self) -> bool:
        return bool(self._one.eof) and not self._block

    @property
    def needs_input(self) -> bool:
        return not self._packed and not self._block

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._packed += data
        if not self._block:
            head, self._packed = self._packed[:_SLICE], self._packed[_SLICE:]
            try:
                self._block = self._one.inflate(head)
            except (ValueError, RuntimeError, MemoryError, EOFError) as error:
                raise _explained(error) from error
        block, self._block = self._block[:max_length], self._block[max_length:]
        return block


class _Filter:
    """A branch filter or delta of liblzma alone, which knows them only before LZMA2: the data are framed as its
    uncompressed chunks."""

    ends_with_input = True
    unused_data = b""

    def __init__(self, filters: Sequence[dict[str, int]]) -> None:
        import lzma

        chain = [*filters, {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}]
        self._one = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain)
        self._begun = False

    @property
    def eof(self) -> bool:
        return self._one.eof

    @property
    def needs_input(self) -> bool:
        return self._one.needs_input

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if not self._one.needs_input:
            return self._one.decompress(b"", max_length)
        framed = bytearray()
        for start in range(0, len(data), 1 << 16):
            piece = data[start : start + (1 << 16)]
            framed += bytes([2 if self._begun else 1]) + (len(piece) - 1).to_bytes(2, "big") + piece
            self._begun = True
        return self._one.decompress(bytes(framed) if data else b"\0", max_length)  # the frames are ours: never wrong


def deflate() -> Decompressor:
    return _Zlib(-15)


def gzip() -> Decompressor:
    return _Zlib(31)


def deflate64() -> Decompressor:
    return _Deflate64()


def bzip2() -> Decompressor:
    import bz2

    return _Native(bz2.BZ2Decompressor(), OSError)


def xz() -> Decompressor:
    import lzma

    return _Native(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY + (1 << 24)), lzma.LZMAError)


def zstd() -> Decompressor:
    if sys.version_info >= (3, 14):
        from compression import zstd as library
    else:
        from backports import zstd as library
    most = {int(library.DecompressionParameter.window_log_max): MEMORY.bit_length() - 1}
    return _Native(library.ZstdDecompressor(options=most), library.ZstdError)


def lzma1(properties: bytes) -> Decompressor:
    """Raw LZMA; `properties` are the five bytes of 7-Zip."""
    import lzma

    if len(properties) != 5 or properties[0] >= 225:
        raise BrokenArchive
    code, size = properties[0], int.from_bytes(properties[1:], "little")
    one = {"id": lzma.FILTER_LZMA1, "dict_size": _bounded(size), "lc": code % 9, "lp": code // 9 % 5, "pb": code // 45}
    if one["lc"] + one["lp"] > 4:
        raise NotSupported("the archive is packed in a way that is not known here")
    return _Native(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[one]), lzma.LZMAError)


def lzma2(properties: bytes) -> Decompressor:
    """Raw LZMA2; `properties` is the one byte of 7-Zip."""
    import lzma

    if len(properties) != 1 or properties[0] > 40:
        raise BrokenArchive
    bits = properties[0]
    size = (1 << 32) - 1 if bits == 40 else (2 | (bits & 1)) << (bits // 2 + 11)
    one = {"id": lzma.FILTER_LZMA2, "dict_size": _bounded(size)}
    return _Native(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[one]), lzma.LZMAError)


def _bounded(size: int) -> int:
    if size > MEMORY:
        raise BrokenArchive(TOO_MUCH_MEMORY)
    return max(size, 1 << 12)


def branch(name: str) -> Decompressor:
    """A filter for machine code; `name` as in liblzma: X86, POWERPC, IA64, ARM, ARMTHUMB, SPARC."""
    import lzma

    return _Filter([{"id": getattr(lzma, f"FILTER_{name}")}])


def delta(distance: int) -> Decompressor:
    import lzma

    return _Filter([{"id": lzma.FILTER_DELTA, "dist": distance}])
