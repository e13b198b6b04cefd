from __future__ import annotations

import asyncio
import os

import pytest
from nacl.exceptions import CryptoError

from mangrove.drivers.crypt.ciphers import (
    HEADER,
    MAGIC,
    PLAIN,
    SEALED,
    Blocks,
    decrypt_size,
    encrypt_body,
    encrypt_size,
)
from tests.contract.drivers.actions import body

KEY = bytes(range(32))


@pytest.mark.parametrize(("plain", "stored"), [(0, 32), (1, 49), (65536, 65584), (65537, 65601)])
def test_sizes_are_those_of_the_reference(plain: int, stored: int) -> None:
    assert encrypt_size(plain) == stored
    assert decrypt_size(stored) == plain


@pytest.mark.parametrize("stored", [0, 1, 31, 33, 48, 65585, 65600])
def test_sizes_that_no_encrypted_file_has(stored: int) -> None:
    with pytest.raises(ValueError, match="no size"):
        decrypt_size(stored)


def test_an_unknown_size_stays_unknown() -> None:
    assert encrypt_size(None) is None
    assert decrypt_size(None) is None


def encrypt(content: bytes) -> bytes:
    async def collect() -> bytes:
        return b"".join([chunk async for chunk in encrypt_body(KEY, body(content))])

    return asyncio.run(collect())


def test_every_file_has_a_nonce_of_its_own_and_every_block_the_next() -> None:
    content = os.urandom(2 * PLAIN + 5)
    first, second = encrypt(content), encrypt(content)
    assert first[:8] == second[:8] == MAGIC
    assert first[8:HEADER] != second[8:HEADER]
    blocks = Blocks(KEY, first[8:HEADER])

    async def check() -> None:
        for number in range(3):
            sealed = first[HEADER + number * SEALED : HEADER + (number + 1) * SEALED]
            assert await blocks.open(number, sealed) == content[number * PLAIN : (number + 1) * PLAIN]
        with pytest.raises(CryptoError):
            await blocks.open(1, first[HEADER : HEADER + SEALED])

    asyncio.run(check())


def test_a_nonce_at_its_end_goes_on_from_zero() -> None:
    last, zero = Blocks(KEY, b"\xff" * 24), Blocks(KEY, bytes(24))

    async def check() -> None:
        assert await last.seal(1, b"x") == await zero.seal(0, b"x")

    asyncio.run(check())
