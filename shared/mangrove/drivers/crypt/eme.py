"""EME (ECB-Mix-ECB, Halevi and Rogaway 2003) with AES: each bit of the result depends on each bit of the text."""

from __future__ import annotations

from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

BLOCK = 16  # bytes
LONGEST = 128 * BLOCK
_BITS = 8 * BLOCK
_MASK = (1 << _BITS) - 1
_REDUCTION = 0x87


def _double(block: int) -> int:
    """The product with x in GF(2^128)."""
    return (block << 1) & _MASK ^ (_REDUCTION if block >> (_BITS - 1) else 0)


def _to_int(data: bytes) -> int:
    return int.from_bytes(data, "little")


class Eme:
    """For texts of 1 to 128 blocks. Not to be used by two threads at once."""

    def __init__(self, key: bytes, tweak: bytes) -> None:
        cipher = Cipher(AES(key), ECB())  # noqa: S305 - the part of EME that is applied to single blocks
        self._encrypt: Callable[[bytes], bytes] = cipher.encryptor().update
        self._decrypt: Callable[[bytes], bytes] = cipher.decryptor().update
        self._tweak = _to_int(tweak)
        self._last = _to_int(self._encrypt(bytes(BLOCK)))  # the last block of the longest pad
        self._pads = [0]  # by the number of blocks

    def encrypt(self, text: bytes) -> bytes:
        """Of whole blocks."""
        return self._transform(text, self._encrypt)

    def decrypt(self, text: bytes) -> bytes:
        """Of whole blocks."""
        return self._transform(text, self._decrypt)

    def _get_pad(self, count: int) -> int:
        while len(self._pads) <= count:
            self._last = _double(self._last)
            self._pads.append(self._pads[-1] | self._last << _BITS * (len(self._pads) - 1))
        return self._pads[count]

    def _transform(self, text: bytes, apply: Callable[[bytes], bytes]) -> bytes:
        size = len(text)
        pad = self._get_pad(size // BLOCK)
        mixed = apply((_to_int(text) ^ pad).to_bytes(size, "little"))
        blocks = [_to_int(mixed[start : start + BLOCK]) for start in range(0, size, BLOCK)]
        total = self._tweak
        for block in blocks:
            total ^= block
        applied = _to_int(apply(total.to_bytes(BLOCK, "little")))
        factor, first = total ^ applied, applied ^ self._tweak
        for index in range(1, len(blocks)):
            factor = _double(factor)
            blocks[index] ^= factor
            first ^= blocks[index]
        blocks[0] = first
        result = apply(b"".join([block.to_bytes(BLOCK, "little") for block in blocks]))
        return (_to_int(result) ^ pad).to_bytes(size, "little")
