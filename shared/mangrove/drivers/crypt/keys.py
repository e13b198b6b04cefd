"""The keys that rclone derives from a password and a second one, the salt."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

_DEFAULT_SALT = bytes.fromhex("a80df43a8fbd0308a7cab83e581f86b1")
_BYTES = 80
_MEMORY = 64 << 20  # bytes that OpenSSL may use; it needs a quarter


class Keys(NamedTuple):
    """32 bytes for data, 32 for names, and the 16 of the tweak for names."""

    data: bytes
    names: bytes
    tweak: bytes


def derive_keys(password: str, salt: str) -> Keys:
    """In some 40 ms of CPU; without a password all zero, as in rclone."""
    material = bytes(_BYTES)
    if password:
        material = hashlib.scrypt(
            password.encode(), salt=salt.encode() or _DEFAULT_SALT, n=16384, r=8, p=1, maxmem=_MEMORY, dklen=_BYTES
        )
    return Keys(material[:32], material[32:64], material[64:])
