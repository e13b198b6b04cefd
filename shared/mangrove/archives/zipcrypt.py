"""The two encryptions of zip archives: traditional ZipCrypto, and WinZip's AES with an authentication code."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import zlib
from array import array
from functools import cache

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from mangrove.archives.readers import CHUNK_SIZE, INLINE_SIZE, TRUNCATED, HeadReader, Reader, RecordReader
from mangrove.core.concurrency import compute_pools
from mangrove.core.problems import BrokenArchive, WrongArchivePassword

_HEADER_SIZE = 12  # bytes before the data of ZipCrypto
_TAG_SIZE = 10  # bytes of the authentication code of AES
_ROUNDS = 1000
_FACTOR = 134775813
_SLICE = 16_384  # bytes that are decrypted together, in a few milliseconds
# Values of one step of ZipCrypto, computed once: a step costs a dozen operations of Python per byte.
_CRC = [zlib.crc32(bytes([value]), 0xFFFFFFFF) ^ 0xFFFFFFFF for value in range(256)]
_PRODUCT = [value * _FACTOR + 1 for value in range(256)]


@cache
def _make_keystream() -> bytes:
    """Return the byte of the keystream, by the low half of key 2."""
    return bytes(((key | 2) * ((key | 2) ^ 1) >> 8) & 255 for key in range(1 << 16))


async def open_zipcrypto(reader: Reader, password: bytes, check: int) -> Reader:
    """Decrypt the bytes of a reader. Raise WrongArchivePassword.

    `check`: the one byte that reveals a wrong password immediately, in 255 of 256 cases.
    """
    cipher = ZipCrypto(password)
    head = await RecordReader(HeadReader(reader, _HEADER_SIZE)).read_exactly(_HEADER_SIZE)
    if cipher.decrypt(head)[-1] != check:
        raise WrongArchivePassword
    return _ZipCryptoReader(reader, cipher)


class ZipCrypto:
    """The cipher with its three keys, which every decrypted byte changes (APPNOTE 6.1)."""

    def __init__(self, password: bytes) -> None:
        key0, key1, key2 = 0x12345678, 0x23456789, 0x34567890
        for byte in password:
            key0 = _CRC[key0 & 255 ^ byte] ^ key0 >> 8
            key1 = (key1 * _FACTOR + _PRODUCT[key0 & 255]) & 0xFFFFFFFF
            key2 = _CRC[key2 & 255 ^ key1 >> 24] ^ key2 >> 8
        self._keys = key0, key1, key2

    def decrypt(self, data: bytes) -> bytes:
        """Return the next bytes, decrypted."""
        key0, key1, key2 = self._keys
        crc, product, keystream, factor = _CRC, _PRODUCT, _make_keystream(), _FACTOR
        plain: list[int] = []
        append = plain.append
        for byte in data:
            byte ^= keystream[key2 & 0xFFFF]
            append(byte)
            key0 = crc[key0 & 255 ^ byte] ^ key0 >> 8
            key1 = (key1 * factor + product[key0 & 255]) & 0xFFFFFFFF
            key2 = crc[key2 & 255 ^ key1 >> 24] ^ key2 >> 8
        self._keys = key0, key1, key2
        return bytes(plain)


class _ZipCryptoReader:
    def __init__(self, reader: Reader, cipher: ZipCrypto) -> None:
        self._reader = reader
        self._cipher = cipher

    async def read(self, max_length: int) -> bytes:
        block = await self._reader.read(min(max_length, _SLICE))
        if len(block) <= 1024:
            return self._cipher.decrypt(block)
        return await compute_pools().zip_decryption.run(self._cipher.decrypt, block)


async def open_winzip_aes(reader: Reader, password: bytes, strength: int, packed: int) -> Reader:
    """Decrypt the next `packed` bytes of a reader. Raise WrongArchivePassword.

    `strength`: 1, 2, 3 for keys of 128, 192, 256 bits.
    """
    salt_size, key_size = 4 + 4 * strength, 8 + 8 * strength
    if packed < salt_size + 2 + _TAG_SIZE:
        raise BrokenArchive(TRUNCATED)
    head = await RecordReader(HeadReader(reader, salt_size + 2)).read_exactly(salt_size + 2)
    keys = await asyncio.to_thread(hashlib.pbkdf2_hmac, "sha1", password, head[:salt_size], _ROUNDS, 2 * key_size + 2)
    if not hmac.compare_digest(keys[2 * key_size :], head[salt_size:]):
        raise WrongArchivePassword
    return _AesReader(reader, keys[:key_size], keys[key_size : 2 * key_size], packed - salt_size - 2 - _TAG_SIZE)


class _AesReader:
    """AES in counter mode, little-endian from 1.

    The last bytes are returned only if the authentication code is right.
    """

    def __init__(self, reader: Reader, key: bytes, code_key: bytes, remaining: int) -> None:
        self._reader = reader
        self._cipher: CipherContext = Cipher(AES(key), ECB()).encryptor()
        self._code = hmac.new(code_key, digestmod="sha1")
        self._remaining = remaining
        self._counter = 1
        self._keystream = b""
        self._ended = False

    async def read(self, max_length: int) -> bytes:
        if self._ended:
            return b""
        packed = await self._reader.read(min(max_length, CHUNK_SIZE, self._remaining)) if self._remaining else b""
        if not packed and self._remaining:
            raise BrokenArchive(TRUNCATED)
        self._remaining -= len(packed)
        block = self._decrypt(packed) if len(packed) <= INLINE_SIZE else await asyncio.to_thread(self._decrypt, packed)
        if not self._remaining:
            self._ended = True
            tag = await RecordReader(HeadReader(self._reader, _TAG_SIZE)).read_exactly(_TAG_SIZE)
            if not hmac.compare_digest(tag, self._code.digest()[:_TAG_SIZE]):
                raise BrokenArchive("a file in the archive is not what was encrypted")
        return block

    def _decrypt(self, packed: bytes) -> bytes:
        self._code.update(packed)
        if len(self._keystream) < len(packed):
            count = (len(packed) - len(self._keystream) + 15) // 16
            counters = array("Q", bytes(16 * count))
            counters[0::2] = array("Q", range(self._counter, self._counter + count))
            self._counter += count
            self._keystream += self._cipher.update(counters.tobytes())
        mask, self._keystream = self._keystream[: len(packed)], self._keystream[len(packed) :]
        mixed = int.from_bytes(packed, "little") ^ int.from_bytes(mask, "little")
        return mixed.to_bytes(len(packed), "little")
