"""Passwords: the hash that clients send, and the slow hash that is stored of it."""

from __future__ import annotations

import hashlib
import threading
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from mangrove.problems import BadRequest

HASH_SUFFIX = "https://github.com/alist-org/alist"  # part of the wire format, fixed by existing clients
LONGEST = 1024  # characters
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_at_once = threading.BoundedSemaphore(4)  # each hash takes 19 MiB and a core for a while


def static(password: str) -> str:
    """What clients send to login/hash: hex SHA-256 of the password, a hyphen and the suffix."""
    if len(password) > LONGEST:
        raise BadRequest(f"a password may have at most {LONGEST} characters")
    return hashlib.sha256(f"{password}-{HASH_SUFFIX}".encode()).hexdigest()


def stored(static_hash: str) -> str:
    """The argon2id hash of a static hash."""
    with _at_once:
        return _hasher.hash(static_hash)


@cache
def _nobody() -> str:
    return stored("nobody")


def matches(stored_hash: str | None, static_hash: str) -> bool:
    """Whether they belong together; None (unknown user) and "" cost the same time and never match."""
    reference = stored_hash or _nobody()
    with _at_once:
        try:
            return _hasher.verify(reference, static_hash) and bool(stored_hash)
        except (VerificationError, InvalidHashError):
            return False
