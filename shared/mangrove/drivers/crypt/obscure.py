"""How passwords are kept in the options: as `rclone obscure` writes them, behind a prefix.

That hides them from a glance at the screen; the key is published.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from mangrove.drivers.crypt.encodings import decode_base64

PREFIX = "___Obfuscated___"
_KEY = bytes.fromhex("9c935b48730a554d6bfd7c63c886a92bd390198eb8128afbf4de162b8b95f638")
_IV_BYTES = 16


def _apply(iv: bytes, text: bytes) -> bytes:
    return Cipher(AES(_KEY), CTR(iv)).encryptor().update(text)


def obscure(plain: str) -> str:
    """A password as the options keep it; one that has the prefix stays."""
    if plain.startswith(PREFIX):
        return plain
    iv = os.urandom(_IV_BYTES)
    return PREFIX + urlsafe_b64encode(iv + _apply(iv, plain.encode())).rstrip(b"=").decode()


def reveal(kept: str) -> str:
    """The password; ValueError for what follows the prefix and was not obscured."""
    if not kept.startswith(PREFIX):
        return kept
    sealed = decode_base64(kept.removeprefix(PREFIX))
    if len(sealed) < _IV_BYTES:
        raise ValueError("too short")
    return _apply(sealed[:_IV_BYTES], sealed[_IV_BYTES:]).decode()
