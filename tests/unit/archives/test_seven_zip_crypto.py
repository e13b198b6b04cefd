"""The key of an encrypted 7z, and what its header says of it."""

from __future__ import annotations

import hashlib
import struct
import zlib
from random import Random

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from mangrove.archives.seven_zip import derive_key, parse_aes_properties
from mangrove.core.problems import BrokenArchive, WrongArchivePassword
from tests.unit.archives.packing import read


def test_a_password_and_its_rounds_together_are_bounded() -> None:
    with pytest.raises(BrokenArchive, match="too long to try"):
        derive_key("x" * 1000, b"salt", 22)
    assert len(derive_key("x" * 1000, b"salt", 10)) == 32


@pytest.mark.parametrize("power", [0, 1, 13])
def test_the_key_is_the_hash_of_all_rounds(power: int) -> None:
    whole = b"".join(b"salt" + "pä".encode("utf-16-le") + number.to_bytes(8, "little") for number in range(1 << power))
    assert derive_key("pä", b"salt", power) == hashlib.sha256(whole).digest()


def test_without_rounds_the_password_is_the_key() -> None:
    assert derive_key("pw", b"s", 0x3F) == b"sp\0w\0".ljust(32, b"\0")


def test_the_properties_are_rounds_salt_and_vector() -> None:
    assert parse_aes_properties(b"\x13") == (19, b"", bytes(16))
    assert parse_aes_properties(b"\xd3\x12" + b"ab" + b"vec") == (19, b"ab", b"vec".ljust(16, b"\0"))
    for broken in (b"", b"\xd3\x12abv"):
        with pytest.raises(BrokenArchive, match="header is damaged"):
            parse_aes_properties(broken)
    with pytest.raises(BrokenArchive, match="too long to try"):
        parse_aes_properties(b"\x17")


def make_header_encrypted_as(plain: bytes, password: str) -> bytes:
    """Return an archive whose encrypted header has no checksum and decrypts to `plain` with this password."""
    padded = plain.ljust(-(-len(plain) // 16) * 16, b"\0")
    encryptor = Cipher(AES(derive_key(password, b"", 1)), CBC(bytes(16))).encryptor()
    packed = encryptor.update(padded)
    aes = b"\x24\x06\xf1\x07\x01\x01\x01"  # with properties: 2 rounds of derivation, no salt, no vector
    pack_info = b"\x06" + b"\0" + b"\x01" + b"\x09" + bytes([len(packed)]) + b"\0"
    coders = b"\x07\x0b\x01\0" + b"\x01" + aes + b"\x0c" + bytes([len(plain)]) + b"\0"
    header = b"\x17" + pack_info + coders + b"\0"
    tail = struct.pack("<QQL", len(packed), len(header), zlib.crc32(header))
    return b"7z\xbc\xaf\x27\x1c\0\x04" + struct.pack("<L", zlib.crc32(tail)) + tail + packed + header


GARBAGE = [bytes([first]) + Random(first).randbytes(40) for first in range(256)] + [
    b"\x17" + b"\x06\0\x01\x09\x10\0" + b"\x07\x0b\x01\0" + coder + b"\x0c\x10\0" + b"\0"
    for coder in (b"\x01\x01\x00", b"\x01\x01\x7f", b"\x01\x23\x03\x01\x01\x01\x00", b"\x01\x21\x21\x01\x28")
] + [b"\x01\0 and more", b"\x17\0", b"\x01\x04\x06"]  # fmt: skip


@pytest.mark.parametrize("plain", GARBAGE, ids=lambda plain: plain[:12].hex())
def test_garbage_header_without_checksum_is_wrong_password(plain: bytes) -> None:
    """C8: once in 256 attempts, where the garbage begins like a packed header, it was said to be damaged.

    Each first byte is taken, and so is each kind of folder that a packed header may have.
    """
    with pytest.raises(WrongArchivePassword):
        read("x.7z", make_header_encrypted_as(plain, "wrong"), "wrong")


def test_header_without_checksum_is_read_with_its_password() -> None:
    assert read("x.7z", make_header_encrypted_as(b"\x01\0", "right"), "right").members == []
