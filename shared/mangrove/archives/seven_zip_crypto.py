"""The encryption of 7z archives: AES-256 with a key derived from the password."""

from __future__ import annotations

import asyncio
import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from mangrove.archives.readers import CHUNK_SIZE, INLINE_SIZE, Reader, RecordReader
from mangrove.archives.seven_zip_header import DAMAGED
from mangrove.core.problems import BrokenArchive

MAX_ROUNDS_POWER = 22  # rounds of key derivation, as a power of two: 7-Zip itself writes 19
MAX_HASHED = 1 << 31  # bytes of key derivation, which grow with the password: some seconds
TOO_COSTLY = "the archive's password takes too long to try"
_NO_DERIVATION = 0x3F


def parse_aes_properties(properties: bytes) -> tuple[int, bytes, bytes]:
    """The rounds as a power of two, the salt, the initialisation vector."""
    first, second = properties[:1], properties[1:2]
    if not first:
        raise BrokenArchive(DAMAGED)
    sizes = second[0] if second and first[0] & 0xC0 else 0
    salt_size, vector_size = (first[0] >> 7) + (sizes >> 4), (first[0] >> 6 & 1) + (sizes & 15)
    power = first[0] & 0x3F
    if len(properties) < 2 + salt_size + vector_size and sizes + (first[0] & 0xC0):
        raise BrokenArchive(DAMAGED)
    if power > MAX_ROUNDS_POWER and power != _NO_DERIVATION:
        raise BrokenArchive(TOO_COSTLY)
    return (
        power,
        properties[2 : 2 + salt_size],
        properties[2 + salt_size : 2 + salt_size + vector_size].ljust(16, b"\0"),
    )


def derive_key(password: str, salt: bytes, power: int) -> bytes:
    """Return the key of 32 bytes: SHA-256 over 2^power times salt, password in UTF-16 and a counter."""
    unit = salt + password.encode("utf-16-le", errors="surrogatepass")
    if power == _NO_DERIVATION:
        return unit[:32].ljust(32, b"\0")
    if (len(unit) + 8) << power > MAX_HASHED:
        raise BrokenArchive(TOO_COSTLY)
    digest = hashlib.sha256()
    for start in range(0, 1 << power, 4096):
        rounds = range(start, min(start + 4096, 1 << power))
        digest.update(b"".join([unit + number.to_bytes(8, "little") for number in rounds]))
    return digest.digest()


class AesReader:
    """AES in block-chaining mode. It returns whole blocks, also if fewer bytes are requested; the padding stays."""

    def __init__(self, reader: Reader, key: bytes, vector: bytes) -> None:
        self._reader = RecordReader(reader)
        self._cipher: CipherContext = Cipher(AES(key), CBC(vector)).decryptor()

    async def read(self, max_length: int) -> bytes:
        packed = await self._reader.read(min(-(-max_length // 16) * 16, CHUNK_SIZE))
        if len(packed) % 16:
            packed += await self._reader.read_exactly(16 - len(packed) % 16)
        if len(packed) <= INLINE_SIZE:
            return self._cipher.update(packed)
        return await asyncio.to_thread(self._cipher.update, packed)
