"""SSH public keys of users."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime

from mangrove.core.problems import BadRequest
from mangrove.records.credentials import SshKey, ssh_keys
from mangrove.records.store.base import NameTaken

MAX_KEY_LENGTH = 16_384  # characters
MAX_TITLE_LENGTH = 255
MAX_KEYS_PER_USER = 100


def add(user_id: int, title: str, text: str) -> SshKey:
    """Add a key in the format of authorized_keys."""
    text = text.strip()
    if len(title) > MAX_TITLE_LENGTH:
        raise BadRequest("title is too long")
    own = ssh_keys.find_by_user(user_id)
    if any(key.title == title for key in own):
        raise NameTaken(ssh_keys.taken)
    if len(own) >= MAX_KEYS_PER_USER:
        raise BadRequest(f"a user may have at most {MAX_KEYS_PER_USER} keys")
    blob = _read_blob(text)
    fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    now = datetime.now(UTC)
    return ssh_keys.create(
        user_id=user_id, title=title, name=f"{user_id}#{title}", text=text, fingerprint=fingerprint, added=now,
        last_used=now,
    )  # fmt: skip


def _read_blob(text: str) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm  # imported when a key is added
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        if len(text) > MAX_KEY_LENGTH or "\n" in text:
            raise ValueError
        load_ssh_public_key(text.encode())
        return base64.b64decode(text.split()[1])
    except (ValueError, IndexError, UnsupportedAlgorithm):
        raise BadRequest("provided key invalid") from None
