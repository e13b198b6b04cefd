"""Passwords: the static hash that clients send, and the slow hash of it that is stored."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from mangrove.core import runtime
from mangrove.core.concurrency import ComputePools
from mangrove.core.http import find_client
from mangrove.core.limits import SIGN_IN_CONCURRENCY, limits
from mangrove.core.problems import BadRequest

Result = TypeVar("Result")

HASH_SUFFIX = "https://github.com/alist-org/alist"  # part of the wire format, fixed by existing clients
MAX_LENGTH = 1024  # characters


class Hasher:
    """Argon2id, at most SIGN_IN_CONCURRENCY at once in this process."""

    def __init__(self) -> None:
        self.argon2 = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
        self._free = threading.BoundedSemaphore(SIGN_IN_CONCURRENCY)
        self._dummy = ""

    def hash(self, text: str) -> str:
        """The salted hash of a text."""
        with self._free:
            return self.argon2.hash(text)

    def verify(self, hashed: str, text: str) -> bool:
        """Whether `hashed` is a hash of the text; False for what is no hash."""
        with self._free:
            try:
                return self.argon2.verify(hashed, text)
            except (VerificationError, InvalidHashError):
                return False

    def is_weak(self, hashed: str) -> bool:
        """Whether a hash took less than those made today do; False for what is no hash."""
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
        """The hash of no account's password: to compare with it takes as long as with another."""
        self._dummy = self._dummy or self.hash("no account")
        return self._dummy


def make_static_hash(password: str) -> str:
    """What clients send to login/hash: hex SHA-256 of the password, a hyphen and the suffix."""
    if len(password) > MAX_LENGTH:
        raise BadRequest(f"a password may have at most {MAX_LENGTH} characters")
    return hashlib.sha256(f"{password}-{HASH_SUFFIX}".encode()).hexdigest()


def hash_password(password: str) -> str:
    """What is stored of a password: the argon2id hash of its static hash."""
    return runtime.get(Hasher).hash(make_static_hash(password))


def strengthen(stored_hash: str, static_hash: str) -> str | None:
    """What to store instead of a weak hash of the static hash; None when it may stay."""
    hasher = runtime.get(Hasher)
    return hasher.hash(static_hash) if hasher.is_weak(stored_hash) else None


def verify(stored_hash: str | None, static_hash: str) -> bool:
    """Whether they belong together; None (unknown user) and "" cost the same time and never match."""
    hasher = runtime.get(Hasher)
    return hasher.verify(stored_hash or hasher.get_dummy(), static_hash) and bool(stored_hash)


async def run_in_turn(source: str, call: Callable[[], Result]) -> Result:
    """Return the result of a call that hashes passwords: a few run at once, and addresses take turns.

    Where too many wait, the address with the most of them gives way to one with fewer: TooMany for its last call.
    """
    async with limits().sign_ins.hold(find_client(source)):
        return await runtime.get(ComputePools).passwords.run(call)
