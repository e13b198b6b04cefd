"""The hash clients send and the hash that is stored."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
from argon2 import PasswordHasher, Type, extract_parameters

from mangrove.core import runtime
from mangrove.core.limits import SIGN_IN_CONCURRENCY
from mangrove.core.problems import BadRequest
from mangrove.identity import passwords
from mangrove.identity.passwords import Hasher


@pytest.mark.parametrize(
    ("password", "static"),
    [
        ("admin", "6fcb57cd10b2c11d765dcf16148d99130afd895082af83725ee8bb181b1d2b0f"),
        ("guest", "58dbc53287db56c2f3d2c1ff16620af6d6cc4a09ae5109620f2162313f345ec2"),
    ],
)
def test_the_static_hash_is_that_of_existing_clients(password: str, static: str) -> None:
    assert passwords.make_static_hash(password) == static


def test_a_stored_hash_is_salted_slow_and_fits_its_password_alone() -> None:
    static = passwords.make_static_hash("pass")
    first, second = passwords.hash_password("pass"), passwords.hash_password("pass")
    assert first != second
    assert first.startswith("$argon2id$")
    assert static not in first
    assert passwords.verify(first, static)
    assert not passwords.verify(first, passwords.make_static_hash("Pass"))
    assert not passwords.verify(first, "pass")
    assert not passwords.verify(first, "")


@pytest.mark.parametrize("stored", [None, "", "nonsense", "$argon2id$v=19$m=1"])
def test_an_unknown_user_and_a_broken_record_match_nothing(stored: str | None) -> None:
    assert not passwords.verify(stored, passwords.make_static_hash("no account"))
    assert not passwords.verify(stored, "no account")


def test_hashes_take_what_owasp_asks_for() -> None:
    parameters = extract_parameters(passwords.hash_password("pass"))
    assert (parameters.type, parameters.memory_cost, parameters.time_cost, parameters.parallelism) == (
        Type.ID,
        19_456,
        2,
        1,
    )


@pytest.mark.parametrize(
    ("stored", "weak"),
    [
        (PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1), False),
        (PasswordHasher(time_cost=3, memory_cost=65_536, parallelism=4), False),
        (PasswordHasher(time_cost=1, memory_cost=19_456, parallelism=1), True),
        (PasswordHasher(time_cost=2, memory_cost=19_455, parallelism=1), True),
        (PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1, hash_len=16), True),
        (PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1, type=Type.I), True),
    ],
)
def test_a_hash_that_took_less_than_those_of_today_is_weak(stored: PasswordHasher, weak: bool) -> None:
    static = passwords.make_static_hash("pass")
    stronger = passwords.strengthen(stored.hash(static), static)
    assert (stronger is not None) == weak
    assert stronger is None or passwords.verify(stronger, static)
    assert passwords.strengthen("nonsense", static) is None


def test_a_password_is_bounded() -> None:
    assert passwords.make_static_hash("x" * passwords.MAX_PASSWORD_LENGTH)
    with pytest.raises(BadRequest):
        passwords.make_static_hash("x" * (passwords.MAX_PASSWORD_LENGTH + 1))


class CountingArgon2(PasswordHasher):
    """Records the compared hashes, and the number of concurrent comparisons."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=64, parallelism=1)
        self.compared: list[str] = []
        self.most = self._now = 0
        self._lock = threading.Lock()

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.compared.append(str(hash))
        time.sleep(0.005)
        try:
            return super().verify(hash, password)
        finally:
            with self._lock:
                self._now -= 1


@pytest.fixture
def argon2() -> CountingArgon2:
    hasher, argon2 = Hasher(), CountingArgon2()
    hasher.argon2 = argon2
    runtime.put(Hasher, hasher)
    return argon2


def test_for_an_unknown_user_a_hash_is_compared_too(argon2: CountingArgon2) -> None:
    for _ in range(2):
        assert not passwords.verify(None, passwords.make_static_hash("x"))
    assert len(argon2.compared) == 2
    assert len(set(argon2.compared)) == 1
    assert argon2.compared[0].startswith("$argon2id$")


def test_only_so_many_are_hashed_at_once(argon2: CountingArgon2) -> None:
    stored = passwords.hash_password("pass")
    static = passwords.make_static_hash("pass")
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda _: passwords.verify(stored, static), range(32)))
    assert 1 < argon2.most <= SIGN_IN_CONCURRENCY
