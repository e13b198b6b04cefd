"""Passwords: the static hash that clients send, and its slow hash, which is stored."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from mangrove.core import runtime
from mangrove.core.concurrency import compute_pools
from mangrove.core.http import find_client
from mangrove.core.limits import SIGN_IN_CONCURRENCY, limits
from mangrove.core.problems import BadRequest

Result = TypeVar("Result")

HASH_SUFFIX = "https://github.com/alist-org/alist"  # part of the wire format, fixed by existing clients
MAX_PASSWORD_LENGTH = 1024  # characters


class Hasher:
    """Argon2id, with at most SIGN_IN_CONCURRENCY calls at a time in this process."""

    def __init__(self) -> None:
        self.argon2 = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
        self._free = threading.BoundedSemaphore(SIGN_IN_CONCURRENCY)
        self._dummy = ""

    def hash(self, text: str) -> str:
        """Return the salted hash of a text."""
        with self._free:
            return self.argon2.hash(text)

    def verify(self, hashed: str, text: str) -> bool:
        """True if `hashed` is a hash of the text."""
        with self._free:
            try:
                return self.argon2.verify(hashed, text)
            except (VerificationError, InvalidHashError):
                return False

    def is_weak(self, hashed: str) -> bool:
        """True if a hash has weaker parameters than new ones."""
        try:
            stored = extract_parameters(hashed)
        except InvalidHashError:
            return False
        today = self.argon2
        return (
            stored.type is not today.type
            or stored.memory_cost < today.memory_cost
            or stored.time_cost < today.time_cost
            or stored.hash_len < today.hash_len
        )

    def get_dummy(self) -> str:
        """Return a hash for unknown accounts, so that their sign-ins take as long as others."""
        self._dummy = self._dummy or self.hash("no account")
        return self._dummy


def _hasher() -> Hasher:
    return runtime.get(Hasher)


def make_static_hash(password: str) -> str:
    """Return the hash that clients send to login/hash: hexadecimal SHA-256 of the password, a hyphen and the suffix."""
    if len(password) > MAX_PASSWORD_LENGTH:
        raise BadRequest(f"a password may have at most {MAX_PASSWORD_LENGTH} characters")
    return hashlib.sha256(f"{password}-{HASH_SUFFIX}".encode()).hexdigest()


def hash_password(password: str) -> str:
    """Return the stored hash of a password: argon2id of its static hash."""
    return _hasher().hash(make_static_hash(password))


def strengthen(stored_hash: str, static_hash: str) -> str | None:
    """Return a stronger hash to store if the stored one is weak, else None."""
    hasher = _hasher()
    return hasher.hash(static_hash) if hasher.is_weak(stored_hash) else None


def verify(stored_hash: str | None, static_hash: str) -> bool:
    """True if the stored hash fits. None (an unknown user) and "" take the same time and never match."""
    hasher = _hasher()
    return hasher.verify(stored_hash or hasher.get_dummy(), static_hash) and bool(stored_hash)


async def run_in_turn(source: str, call: Callable[[], Result]) -> Result:
    """Return the result of a call that hashes passwords. A few run at a time, and addresses take turns.

    If too many calls wait, the last call of the address with the most waiting calls raises TooMany.
    """
    async with limits().sign_ins.hold(find_client(source)):
        return await compute_pools().passwords.run(call)
