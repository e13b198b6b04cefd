"""Failed sign-ins, counted on the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mangrove.core.problems import TooMany
from mangrove.identity import lockout
from mangrove.records.store import counters

pytestmark = pytest.mark.usefixtures("records")


def is_locked(username: str, source: str) -> bool:
    try:
        lockout.ACCOUNTS.check(username, source)
    except TooMany:
        return True
    return False


def fail(times: int, username: str = "ann", source: str = "1.2.3.4") -> None:
    for _ in range(times):
        lockout.ACCOUNTS.record_failure(username, source)


def test_a_pair_of_account_and_source_is_locked_after_its_failures() -> None:
    fail(lockout.MAX_FAILURES_PER_PAIR - 1)
    assert not is_locked("ann", "1.2.3.4")
    fail(1)
    assert is_locked("ann", "1.2.3.4")
    assert not is_locked("ann", "5.6.7.8")
    assert not is_locked("bob", "1.2.3.4")


def test_a_success_forgets_the_failures_of_the_pair() -> None:
    fail(lockout.MAX_FAILURES_PER_PAIR - 1)
    lockout.ACCOUNTS.record_success("ann", "1.2.3.4")
    fail(lockout.MAX_FAILURES_PER_PAIR - 1)
    assert not is_locked("ann", "1.2.3.4")


def test_a_locked_pair_does_not_succeed() -> None:
    fail(lockout.MAX_FAILURES_PER_PAIR)
    with pytest.raises(TooMany):
        lockout.ACCOUNTS.record_success("ann", "1.2.3.4")
    assert is_locked("ann", "1.2.3.4")


def test_a_source_that_tries_many_accounts_is_locked_for_all() -> None:
    for number in range(lockout.MAX_FAILURES_PER_SOURCE):
        fail(1, f"u{number}")
    assert is_locked("another", "1.2.3.4")
    assert not is_locked("another", "5.6.7.8")


def test_an_account_that_many_sources_try_is_locked_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockout, "MAX_FAILURES_PER_SUBJECT", 20)
    for number in range(20):
        fail(1, "ann", f"10.0.0.{number}")
    assert is_locked("ann", "1.2.3.4")
    assert not is_locked("bob", "1.2.3.4")


def test_of_attempts_at_once_no_more_pass_than_one_after_the_other() -> None:
    def attempt(_: int) -> bool:
        try:
            lockout.ACCOUNTS.record_failure("ann", "1.2.3.4")
        except TooMany:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == lockout.MAX_FAILURES_PER_PAIR


@pytest.mark.parametrize("ask", [lockout.ACCOUNTS.check, lockout.ACCOUNTS.record_success])
def test_to_ask_while_locked_begins_the_time_anew(ask: Callable[[str, str], None]) -> None:
    fail(lockout.MAX_FAILURES_PER_PAIR)
    record = counters.Counter.get("failure#pair#ann#1.2.3.4")
    with pytest.raises(TooMany):
        ask("ann", "1.2.3.4")
    assert counters.Counter.get("failure#pair#ann#1.2.3.4").until > record.until


def test_a_name_of_any_length_can_be_counted() -> None:
    fail(1, "x" * 100_000)
    assert not is_locked("x" * 100_000, "1.2.3.4")


def test_the_addresses_of_one_ipv6_network_share_their_tries() -> None:
    for number in range(lockout.MAX_FAILURES_PER_PAIR):
        fail(1, "ann", f"2001:db8::{number + 1}")
    assert is_locked("ann", "2001:db8::ffff")
    assert not is_locked("ann", "2001:db8:0:1::1")


def test_failures_of_strangers_do_not_lock_out_known_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockout, "MAX_FAILURES_PER_SUBJECT", 20)
    lockout.ACCOUNTS.record_success("ann", "1.2.3.4")
    for number in range(20):
        fail(1, "ann", f"10.0.0.{number}")
    assert not is_locked("ann", "1.2.3.4")
    assert is_locked("ann", "5.6.7.8")
    fail(lockout.MAX_FAILURES_PER_PAIR)
    assert is_locked("ann", "1.2.3.4"), "its own failures count as before"


def test_failures_on_others_do_not_lock_out_known_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lockout, "ACCOUNTS", replace(lockout.ACCOUNTS, max_failures_per_source=10))
    lockout.ACCOUNTS.record_success("ann", "1.2.3.4")
    for number in range(lockout.MAX_FAILURES_PER_SOURCE):
        fail(1, f"u{number}")
    assert not is_locked("ann", "1.2.3.4")
    assert is_locked("bob", "1.2.3.4")


def test_failures_of_a_known_source_use_up_nobody_elses_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockout, "MAX_FAILURES_PER_SUBJECT", 3)
    lockout.ACCOUNTS.record_success("ann", "1.2.3.4")
    fail(4)
    assert not is_locked("ann", "5.6.7.8")


def guess(password: str, is_right: bool = False) -> None:
    asyncio.run(lockout.count_guess("/closed", "1.2.3.4", password, is_right))


def test_a_repeated_wrong_folder_password_counts_once() -> None:
    for _ in range(2 * lockout.MAX_FAILURES_PER_PAIR):
        guess("wrong")
    for number in range(lockout.MAX_FAILURES_PER_PAIR - 1):
        guess(f"wrong {number}")
    with pytest.raises(TooMany):
        guess("open sesame", is_right=True)


def test_a_right_folder_password_ends_the_count() -> None:
    for attempt in range(2):
        for number in range(lockout.MAX_FAILURES_PER_PAIR - 1):
            guess(f"wrong {attempt} {number}")
        guess("open sesame", is_right=True)
