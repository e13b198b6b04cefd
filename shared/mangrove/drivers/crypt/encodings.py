"""Encrypted names as text: the three encodings of rclone. Decoding raises ValueError."""

from __future__ import annotations

from base64 import b32hexdecode, b32hexencode, urlsafe_b64encode
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Encoding(NamedTuple):
    """Bytes to the text of a name and back."""

    encode: Callable[[bytes], str]
    decode: Callable[[str], bytes]


def _encode_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64(text: str) -> bytes:
    """Base64 with the URL alphabet, without padding."""
    if "+" in text or "/" in text:
        raise ValueError("not the URL alphabet")
    standard = text.replace("-", "+").replace("_", "/")
    return a2b_base64(standard + "=" * (-len(text) % 4), strict_mode=True)


def _encode_base32(data: bytes) -> str:
    return b32hexencode(data).rstrip(b"=").decode().lower()


def _decode_base32(text: str) -> bytes:
    return b32hexdecode(text.upper() + "=" * (-len(text) % 8))


# The first letters and the lengths of the runs of code points that base32768 uses, for 15 bits and for 7.
_LONG_RUNS = (
    (0x4A0, 32), (0x500, 32), (0x680, 64), (0x760, 64), (0x7C0, 32), (0x1000, 32), (0x10A0, 32), (0x1100, 96),
    (0x1180, 32), (0x11E0, 96), (0x1260, 32), (0x12E0, 32), (0x1320, 32), (0x13A0, 64), (0x1420, 576), (0x16A0, 64),
    (0x1780, 32), (0x1820, 64), (0x18C0, 32), (0x1980, 32), (0x19E0, 32), (0x1A20, 32), (0x1BC0, 32), (0x1C00, 32),
    (0x1D00, 32), (0x21E0, 32), (0x22C0, 32), (0x2340, 160), (0x2400, 32), (0x2500, 608), (0x2780, 64), (0x2800, 384),
    (0x29A0, 32), (0x2A20, 64), (0x2A80, 64), (0x2AE0, 128), (0x2C00, 32), (0x2C80, 96), (0x2D00, 32), (0x2D40, 32),
    (0x2EA0, 64), (0x31C0, 32), (0x3400, 6560), (0x4DC0, 20992), (0xA000, 1152), (0xA4A0, 32), (0xA500, 256),
    (0xA640, 32), (0xA6A0, 64), (0xA700, 96), (0xA780, 32), (0xA840, 32),
)  # fmt: skip
_SHORT_RUNS = ((0x180, 32), (0x240, 96))
_LONG_BITS, _SHORT_BITS = 15, 7


def _list_letters(runs: Sequence[tuple[int, int]]) -> str:
    return "".join(chr(start + at) for start, count in runs for at in range(count))


class _Base32768:
    """15 bits per letter; the rest is padded with ones to 7 or 15 bits."""

    def __init__(self) -> None:
        self._long, self._short = _list_letters(_LONG_RUNS), _list_letters(_SHORT_RUNS)
        self._parts = {letter: (_LONG_BITS, value) for value, letter in enumerate(self._long)}
        self._parts |= {letter: (_SHORT_BITS, value) for value, letter in enumerate(self._short)}

    def encode(self, data: bytes) -> str:
        value, left = int.from_bytes(data), 8 * len(data)
        letters = []
        while left >= _LONG_BITS:
            left -= _LONG_BITS
            letters.append(self._long[value >> left & (1 << _LONG_BITS) - 1])
        if left:
            bits, alphabet = (_SHORT_BITS, self._short) if left <= _SHORT_BITS else (_LONG_BITS, self._long)
            filled = (value & (1 << left) - 1) + 1 << bits - left
            letters.append(alphabet[filled - 1])
        return "".join(letters)

    def decode(self, text: str) -> bytes:
        value = size = 0
        for number, letter in enumerate(text, 1):
            bits, part = self._parts.get(letter, (0, 0))
            if not bits or (bits == _SHORT_BITS and number < len(text)):
                raise ValueError("not a letter of base32768")
            value, size = value << bits | part, size + bits
        rest = size % 8
        if value & (1 << rest) - 1 != (1 << rest) - 1:
            raise ValueError("not padded with ones")
        return (value >> rest).to_bytes(size // 8)


def make_encoding(name: str) -> Encoding:
    """Return the encoding `base64` (also ""), `base32` or `base32768`."""
    if name == "base32":
        return Encoding(_encode_base32, _decode_base32)
    if name == "base32768":
        tables = _Base32768()
        return Encoding(tables.encode, tables.decode)
    return Encoding(_encode_base64, decode_base64)
