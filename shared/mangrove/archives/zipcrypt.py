"""The two encryptions of zip archives: ZipCrypto of old, and WinZip's AES with an authentication code."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import zlib
from array import array
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from mangrove.archives.flows import CUT_SHORT, PIECE, SMALL, Flow, Tape
from mangrove.problems import BrokenArchive, WrongArchivePassword

_TABLE = [zlib.crc32(bytes([value]), 0xFFFFFFFF) ^ 0xFFFFFFFF for value in range(256)]
_TAG = 10  # bytes of the authentication code
_ROUNDS = 1000


class Layer(Protocol):
    async def over(self, flow: Flow, packed: int) -> Flow:
        """What the flow's next `packed` bytes hold; WrongArchivePassword."""
        ...


class ZipCryptoLayer:
    """`check`: the one byte by which a wrong password shows at once, all but one in 256 times."""

    def __init__(self, password: bytes, check: int) -> None:
        self._password = password
        self._check = check

    async def over(self, flow: Flow, packed: int) -> Flow:
        stream = _ZipCrypto(flow, self._password)
        head = await Tape(_Piece(flow, 12)).exactly(12)
        if stream.decrypted(head)[11] != self._check:
            raise WrongArchivePassword
        return stream


class _Piece:
    """The first bytes of a flow and no more."""

    def __init__(self, flow: Flow, left: int) -> None:
        self._flow = flow
        self._left = left

    async def read(self, most: int) -> bytes:
        block = await self._flow.read(min(most, self._left)) if self._left else b""
        self._left -= len(block)
        return block


class _ZipCrypto:
    def __init__(self, flow: Flow, password: bytes) -> None:
        self._flow = flow
        self._keys = (0x12345678, 0x23456789, 0x34567890)
        table = _TABLE
        first, second, third = self._keys
        for byte in password:
            first = table[(first ^ byte) & 255] ^ first >> 8
            second = ((second + (first & 255)) * 134775813 + 1) & 0xFFFFFFFF
            third = table[(third ^ second >> 24) & 255] ^ third >> 8
        self._keys = first, second, third

    async def read(self, most: int) -> bytes:
        block = await self._flow.read(min(most, PIECE))
        return self.decrypted(block) if len(block) <= 1024 else await asyncio.to_thread(self.decrypted, block)

    def decrypted(self, block: bytes) -> bytes:
        first, second, third = self._keys
        table = _TABLE
        found = bytearray(block)
        for at, byte in enumerate(block):
            key = third | 2
            byte ^= (key * (key ^ 1) >> 8) & 255
            first = table[(first ^ byte) & 255] ^ first >> 8
            second = ((second + (first & 255)) * 134775813 + 1) & 0xFFFFFFFF
            third = table[(third ^ second >> 24) & 255] ^ third >> 8
            found[at] = byte
        self._keys = first, second, third
        return bytes(found)


class AesLayer:
    """`strength`: 1, 2, 3 for keys of 128, 192, 256 bits."""

    def __init__(self, password: bytes, strength: int) -> None:
        self._password = password
        self._strength = strength

    async def over(self, flow: Flow, packed: int) -> Flow:
        salted, length = 4 + 4 * self._strength, 8 + 8 * self._strength
        if packed < salted + 2 + _TAG:
            raise BrokenArchive(CUT_SHORT)
        head = await Tape(_Piece(flow, salted + 2)).exactly(salted + 2)
        keys = await asyncio.to_thread(
            hashlib.pbkdf2_hmac, "sha1", self._password, head[:salted], _ROUNDS, 2 * length + 2
        )
        if not hmac.compare_digest(keys[2 * length :], head[salted:]):
            raise WrongArchivePassword
        return _Aes(flow, keys[:length], keys[length : 2 * length], packed - salted - 2 - _TAG)


class _Aes:
    """AES in counter mode, the counter little-endian from 1; the last bytes come only if the code is right."""

    def __init__(self, flow: Flow, key: bytes, code_key: bytes, left: int) -> None:
        self._flow = flow
        self._cipher: CipherContext = Cipher(AES(key), ECB()).encryptor()
        self._code = hmac.new(code_key, digestmod="sha1")
        self._left = left
        self._block = 1
        self._rest = b""
        self._ended = False

    async def read(self, most: int) -> bytes:
        if self._ended:
            return b""
        packed = await self._flow.read(min(most, PIECE, self._left)) if self._left else b""
        if not packed and self._left:
            raise BrokenArchive(CUT_SHORT)
        self._left -= len(packed)
        block = self._decrypted(packed) if len(packed) <= SMALL else await asyncio.to_thread(self._decrypted, packed)
        if not self._left:
            self._ended = True
            tag = await Tape(_Piece(self._flow, _TAG)).exactly(_TAG)
            if not hmac.compare_digest(tag, self._code.digest()[:_TAG]):
                raise BrokenArchive("a file in the archive is not what was encrypted")
        return block

    def _decrypted(self, packed: bytes) -> bytes:
        self._code.update(packed)
        if len(self._rest) < len(packed):
            count = (len(packed) - len(self._rest) + 15) // 16
            counters = array("Q", bytes(16 * count))
            counters[0::2] = array("Q", range(self._block, self._block + count))
            self._block += count
            self._rest += self._cipher.update(counters.tobytes())
        mask, self._rest = self._rest[: len(packed)], self._rest[len(packed) :]
        mixed = int.from_bytes(packed, "little") ^ int.from_bytes(mask, "little")
        return mixed.to_bytes(len(packed), "little")
