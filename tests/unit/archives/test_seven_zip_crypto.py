"""The key of an encrypted 7z, and what its header says of it."""

from __future__ import annotations

import hashlib

import pytest

from mangrove.archives.seven_zip_crypto import derive_key, parse_aes_properties
from mangrove.core.problems import BrokenArchive


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
