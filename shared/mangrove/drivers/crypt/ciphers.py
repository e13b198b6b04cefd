"""The ciphers of rclone's crypt: keys, obscured passwords, wide blocks for names, and bodies in chunks."""

from __future__ import annotations

import hashlib
import os
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from nacl.bindings import crypto_secretbox_easy, crypto_secretbox_open_easy
from nacl.utils import random

from mangrove.core.chunked import split_chunks
from mangrove.core.concurrency import compute_pools
from mangrove.drivers.crypt.encodings import decode_base64

_DEFAULT_SALT = bytes.fromhex("a80df43a8fbd0308a7cab83e581f86b1")
_BYTES = 80
_MEMORY = 64 << 20  # bytes that OpenSSL may use; it needs a quarter


class Keys(NamedTuple):
    """The keys: 32 bytes for data, 32 for names, and the 16 of the tweak for names."""

    data: bytes
    names: bytes
    tweak: bytes


def derive_keys(password: str, salt: str) -> Keys:
    """Derive the keys in about 40 ms of CPU; without a password all zero, as in rclone."""
    material = bytes(_BYTES)
    if password:
        material = hashlib.scrypt(
            password.encode(), salt=salt.encode() or _DEFAULT_SALT, n=16384, r=8, p=1, maxmem=_MEMORY, dklen=_BYTES
        )
    return Keys(material[:32], material[32:64], material[64:])


PREFIX = "___Obfuscated___"
_KEY = bytes.fromhex("9c935b48730a554d6bfd7c63c886a92bd390198eb8128afbf4de162b8b95f638")
_IV_BYTES = 16


def _apply(iv: bytes, text: bytes) -> bytes:
    return Cipher(AES(_KEY), CTR(iv)).encryptor().update(text)


def obscure(plain: str) -> str:
    """Return a password in the form of the options; one that already has the prefix stays as it is."""
    if plain.startswith(PREFIX):
        return plain
    iv = os.urandom(_IV_BYTES)
    return PREFIX + urlsafe_b64encode(iv + _apply(iv, plain.encode())).rstrip(b"=").decode()


def reveal(obscured: str) -> str:
    """Return the password. Raise ValueError if the text after the prefix was not obscured."""
    if not obscured.startswith(PREFIX):
        return obscured
    sealed = decode_base64(obscured.removeprefix(PREFIX))
    if len(sealed) < _IV_BYTES:
        raise ValueError("too short")
    return _apply(sealed[:_IV_BYTES], sealed[_IV_BYTES:]).decode()


BLOCK = 16  # bytes
MAX_WIDE_BLOCK_BYTES = 128 * BLOCK
_BITS = 8 * BLOCK
_MASK = (1 << _BITS) - 1
_REDUCTION = 0x87


def _double(block: int) -> int:
    """Return the product with x in GF(2^128)."""
    return (block << 1) & _MASK ^ (_REDUCTION if block >> (_BITS - 1) else 0)


def _to_int(data: bytes) -> int:
    return int.from_bytes(data, "little")


class Eme:
    """EME for texts of 1 to 128 blocks. It is not thread-safe."""

    def __init__(self, key: bytes, tweak: bytes) -> None:
        cipher = Cipher(AES(key), ECB())  # noqa: S305 - the part of EME that is applied to single blocks
        self._encrypt: Callable[[bytes], bytes] = cipher.encryptor().update
        self._decrypt: Callable[[bytes], bytes] = cipher.decryptor().update
        self._tweak = _to_int(tweak)
        self._last = _to_int(self._encrypt(bytes(BLOCK)))  # the last block of the longest pad
        self._pads = [0]  # by the number of blocks

    def encrypt(self, text: bytes) -> bytes:
        """Encrypt whole blocks."""
        return self._transform(text, self._encrypt)

    def decrypt(self, text: bytes) -> bytes:
        """Decrypt whole blocks."""
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


MAGIC = b"RCLONE\0\0"
NONCE = 24  # bytes
HEADER = len(MAGIC) + NONCE
PLAIN = 64 << 10  # bytes of a block
SEALED = PLAIN + 16
GROUP = 15  # blocks that are encrypted or decrypted together: less than drivers pass on in one piece
_NONCES = 1 << 8 * NONCE
_MAX_BYTES_WITHOUT_THREAD = PLAIN + 16  # bytes below which a thread does not pay off


def encrypt_size(size: int | None) -> int | None:
    """Return the bytes of an encrypted file."""
    return None if size is None else HEADER + size + 16 * -(-size // PLAIN)


def decrypt_size(size: int | None) -> int | None:
    """Return the bytes of the file in an encrypted file of that size. Raise ValueError for an impossible size."""
    if size is None:
        return None
    blocks, rest = divmod(size - HEADER, SEALED)
    if size < HEADER or 0 < rest <= SEALED - PLAIN:
        raise ValueError("no size of an encrypted file")
    return blocks * PLAIN + max(rest - (SEALED - PLAIN), 0)


class Blocks:
    """The cipher of one file: blocks are numbered from 0."""

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._key = key
        self._first = int.from_bytes(nonce, "little")

    def _get_nonce(self, block: int) -> bytes:
        return ((self._first + block) % _NONCES).to_bytes(NONCE, "little")

    def _seal(self, first: int, content: bytes) -> bytes:
        return b"".join(
            crypto_secretbox_easy(content[start : start + PLAIN], self._get_nonce(first + number), self._key)
            for number, start in enumerate(range(0, len(content), PLAIN))
        )

    def _open(self, first: int, content: bytes) -> bytes:
        return b"".join(
            crypto_secretbox_open_easy(content[start : start + SEALED], self._get_nonce(first + number), self._key)
            for number, start in enumerate(range(0, len(content), SEALED))
        )

    async def seal(self, first: int, content: bytes) -> bytes:
        """Encrypt blocks from number `first` on."""
        if len(content) <= _MAX_BYTES_WITHOUT_THREAD:
            return self._seal(first, content)
        return await compute_pools().secretbox.run(self._seal, first, content)

    async def open(self, first: int, content: bytes) -> bytes:
        """Decrypt blocks from number `first` on. Raise nacl's CryptoError for a modified block."""
        if len(content) <= _MAX_BYTES_WITHOUT_THREAD:
            return self._open(first, content)
        return await compute_pools().secretbox.run(self._open, first, content)


async def encrypt_body(key: bytes, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A file for the remote, under a nonce of its own: no two bodies ever share a nonce."""
    nonce = random(NONCE)
    yield MAGIC + nonce
    blocks, first = Blocks(key, nonce), 0
    async for chunk in split_chunks(body, GROUP * PLAIN):
        yield await blocks.seal(first, chunk)
        first += GROUP
