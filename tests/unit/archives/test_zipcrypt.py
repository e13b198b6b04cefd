"""The two encryptions of zip archives, byte by byte."""

from __future__ import annotations

import asyncio
import os

import pytest

from mangrove.archives.readers import RangeReader, ReadAhead, Reader
from mangrove.archives.zipcrypt import ZipCrypto, open_winzip_aes, open_zipcrypto
from mangrove.core.problems import BrokenArchive, WrongArchivePassword
from tests.unit.archives.packing import Held, StandardZipCrypto


def source(content: bytes) -> RangeReader:
    return RangeReader(ReadAhead(Held(content)), 0, len(content))


async def read_all(reader: Reader) -> bytes:
    content = bytearray()
    while block := await reader.read(1000):
        content += block
    return bytes(content)


@pytest.mark.parametrize("password", [b"sesame", b"", b"\xff" * 80])
def test_zipcrypto_is_the_standard_one_in_blocks_of_any_size(password: bytes) -> None:
    plain = os.urandom(5000) + bytes(5000)
    packed = StandardZipCrypto(password).encrypt(plain)
    cipher, decrypted, offset = ZipCrypto(password), b"", 0
    for length in (0, 1, 2, 1024, 1025, 20_000):
        decrypted += cipher.decrypt(packed[offset : offset + length])
        offset += length
    assert decrypted == plain


def test_the_last_byte_of_the_head_shows_a_wrong_password() -> None:
    packed = StandardZipCrypto(b"sesame").encrypt(b"elevenbytes\x2anews")

    async def read(password: bytes, check: int) -> bytes:
        return await read_all(await open_zipcrypto(source(packed), password, check))

    assert asyncio.run(read(b"sesame", 42)) == b"news"
    with pytest.raises(WrongArchivePassword):
        asyncio.run(read(b"sesame", 43))
    with pytest.raises(BrokenArchive, match="ends too early"):
        asyncio.run(open_zipcrypto(source(packed[:11]), b"sesame", 42))  # type: ignore[arg-type]


def test_what_is_too_short_for_aes_is_broken() -> None:
    for length in (0, 10, 27):
        with pytest.raises(BrokenArchive, match="ends too early"):
            asyncio.run(open_winzip_aes(source(bytes(length)), b"x", 3, length))  # type: ignore[arg-type]
    with pytest.raises(WrongArchivePassword):
        asyncio.run(open_winzip_aes(source(bytes(100)), b"x", 3, 100))  # type: ignore[arg-type]
