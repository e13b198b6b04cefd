"""Decompressors with one interface; their libraries are imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

from mangrove.archives.base import MAX_MEMORY
from mangrove.core.problems import BrokenArchive, NotSupported

TOO_MUCH_MEMORY = f"the archive needs more than {MAX_MEMORY >> 20} MiB of memory to be unpacked"
_INPUT_SLICE = 1 << 12  # bytes of input per call, if the output cannot be limited


class Decompressor(Protocol):
    """The interface of the standard library's bz2 and lzma. `ends_with_input`: empty input marks the end."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def ends_with_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def _translate_error(error: Exception) -> BrokenArchive:
    """Return the problem for an error; the libraries distinguish too little memory from damage only by their text."""
    return BrokenArchive(TOO_MUCH_MEMORY if "memory" in str(error).lower() else "the archive has damaged data")


class _StandardDecompressor:
    """A decompressor with the standard library's own interface."""

    ends_with_input = False

    def __init__(self, decompressor: Any, *errors: type[Exception]) -> None:
        self._decompressor = decompressor
        self._errors: tuple[type[Exception], ...] = (*errors, EOFError, MemoryError)

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._decompressor.needs_input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decompressor.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            return bytes(self._decompressor.decompress(data, max_length))
        except self._errors as error:
            raise _translate_error(error) from error


class _ZlibDecompressor:
    ends_with_input = False

    def __init__(self, window_bits: int) -> None:
        import zlib

        self._decompressor = zlib.decompressobj(window_bits)
        self._error = zlib.error
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            block = self._decompressor.decompress(self._decompressor.unconsumed_tail + data, max_length)
        except self._error as error:
            raise _translate_error(error) from error
        self.needs_input = not self._decompressor.unconsumed_tail and len(block) < max_length
        return block


class Deflate64Decompressor:
    """Raw deflate64."""

    ends_with_input = False
    unused_data = b""

    def __init__(self) -> None:
        import inflate64

        self._decompressor = inflate64.Inflater()
        self._packed = b""
        self._block = b""

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.eof) and not self._block

    @property
    def needs_input(self) -> bool:
        return not self._packed and not self._block

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._packed += data
        if not self._block:
            head, self._packed = self._packed[:_INPUT_SLICE], self._packed[_INPUT_SLICE:]
            try:
                self._block = self._decompressor.inflate(head)
            except (ValueError, RuntimeError, MemoryError, EOFError) as error:
                raise _translate_error(error) from error
        block, self._block = self._block[:max_length], self._block[max_length:]
        return block


class _FilterDecompressor:
    """A branch or delta filter of liblzma alone.

    It allows them only in front of LZMA2, so the data are framed as uncompressed chunks of LZMA2.
    """

    ends_with_input = True
    unused_data = b""

    def __init__(self, filters: Sequence[dict[str, int]]) -> None:
        import lzma

        chain = [*filters, {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}]
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain)
        self._has_started = False

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def needs_input(self) -> bool:
        return self._decompressor.needs_input

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if not self._decompressor.needs_input:
            return self._decompressor.decompress(b"", max_length)
        framed = bytearray()
        for start in range(0, len(data), 1 << 16):
            piece = data[start : start + (1 << 16)]
            framed += bytes([2 if self._has_started else 1]) + (len(piece) - 1).to_bytes(2, "big") + piece
            self._has_started = True
        # no error to translate: the framing is internal
        return self._decompressor.decompress(bytes(framed) if data else b"\0", max_length)


def make_deflate() -> Decompressor:
    """Raw deflate."""
    return _ZlibDecompressor(-15)


def make_gzip() -> Decompressor:
    """Deflate with the header and checksum of gzip."""
    return _ZlibDecompressor(31)


def make_bzip2() -> Decompressor:
    """One bzip2 stream."""
    import bz2

    return _StandardDecompressor(bz2.BZ2Decompressor(), OSError)


def make_xz() -> Decompressor:
    """One xz stream."""
    import lzma

    return _StandardDecompressor(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY + (1 << 24)), lzma.LZMAError)


def make_zstd() -> Decompressor:
    """One Zstandard frame."""
    if sys.version_info >= (3, 14):
        from compression import zstd as library
    else:
        from backports import zstd as library
    options = {int(library.DecompressionParameter.window_log_max): MAX_MEMORY.bit_length() - 1}
    return _StandardDecompressor(library.ZstdDecompressor(options=options), library.ZstdError)


def make_lzma1(properties: bytes) -> Decompressor:
    """Raw LZMA; `properties` are the five bytes of 7-Zip."""
    import lzma

    if len(properties) != 5 or properties[0] >= 225:
        raise BrokenArchive
    code, size = properties[0], int.from_bytes(properties[1:], "little")
    dictionary = _check_dictionary_size(size)
    lc, lp, pb = code % 9, code // 9 % 5, code // 45
    if lc + lp > 4:
        raise NotSupported("the archive is packed by an unknown method")
    lzma1 = {"id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": lc, "lp": lp, "pb": pb}
    return _StandardDecompressor(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[lzma1]), lzma.LZMAError)


def make_lzma2(properties: bytes) -> Decompressor:
    """Raw LZMA2; `properties` is the one byte of 7-Zip."""
    import lzma

    if len(properties) != 1 or properties[0] > 40:
        raise BrokenArchive
    bits = properties[0]
    size = (1 << 32) - 1 if bits == 40 else (2 | (bits & 1)) << (bits // 2 + 11)
    lzma2 = {"id": lzma.FILTER_LZMA2, "dict_size": _check_dictionary_size(size)}
    return _StandardDecompressor(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[lzma2]), lzma.LZMAError)


def _check_dictionary_size(size: int) -> int:
    """Return `size`, at least the minimum of liblzma. Raise BrokenArchive above MAX_MEMORY."""
    if size > MAX_MEMORY:
        raise BrokenArchive(TOO_MUCH_MEMORY)
    return max(size, 1 << 12)


def make_branch(name: str) -> Decompressor:
    """A filter for machine code; `name` as in liblzma: X86, POWERPC, IA64, ARM, ARMTHUMB, SPARC."""
    import lzma

    return _FilterDecompressor([{"id": getattr(lzma, f"FILTER_{name}")}])


def make_delta(distance: int) -> Decompressor:
    """A delta filter; `distance` in bytes."""
    import lzma

    return _FilterDecompressor([{"id": lzma.FILTER_DELTA, "dist": distance}])
