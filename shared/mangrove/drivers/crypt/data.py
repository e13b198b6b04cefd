"""Files as the remote has them: a header with a random nonce, then blocks of 64 KiB, each sealed by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from nacl.bindings import crypto_secretbox_easy, crypto_secretbox_open_easy
from nacl.utils import random

from mangrove.core import runtime
from mangrove.core.chunked import split_chunks
from mangrove.core.concurrency import ComputePools

MAGIC = b"RCLONE\0\0"
NONCE = 24  # bytes
HEADER = len(MAGIC) + NONCE
PLAIN = 64 << 10  # bytes of a block
SEALED = PLAIN + 16
GROUP = 15  # blocks that are sealed or opened at once: together less than what drivers pass on at once
_NONCES = 1 << 8 * NONCE
_AT_ONCE = PLAIN + 16  # bytes that are not worth a thread


def encrypt_size(size: int | None) -> int | None:
    """Bytes of a file in the remote."""
    return None if size is None else HEADER + size + 16 * -(-size // PLAIN)


def decrypt_size(size: int | None) -> int | None:
    """Bytes of the file that is in so many; ValueError when that can be none."""
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
        if len(content) <= _AT_ONCE:
            return self._seal(first, content)
        return await runtime.get(ComputePools).secretbox.run(self._seal, first, content)

    async def open(self, first: int, content: bytes) -> bytes:
        """Decrypt blocks from number `first` on; nacl's CryptoError when one is not what was sealed."""
        if len(content) <= _AT_ONCE:
            return self._open(first, content)
        return await runtime.get(ComputePools).secretbox.run(self._open, first, content)


async def encrypt_body(key: bytes, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A file for the remote, under a nonce of its own: no two bodies ever share one."""
    nonce = random(NONCE)
    yield MAGIC + nonce
    blocks, first = Blocks(key, nonce), 0
    async for chunk in split_chunks(body, GROUP * PLAIN):
        yield await blocks.seal(first, chunk)
        first += GROUP
