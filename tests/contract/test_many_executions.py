"""Tasks that find no room wait in their machines, and none fails for it."""

from __future__ import annotations

import pytest

from tests.support.simulation import Account


@pytest.mark.parametrize(
    ("count", "concurrency", "slots"),
    [
        (200, 10, 1000),
        pytest.param(2000, 100, 1000, marks=pytest.mark.long),
        pytest.param(500, 1000, 5, marks=pytest.mark.long),
    ],
)
def test_all_tasks_succeed_however_few_functions_the_account_runs_at_once(
    count: int, concurrency: int, slots: int
) -> None:
    account = Account(concurrency, slots)
    account.run(count)
    assert account.ended == {"": count}
    assert account.refused.total() > count
    assert account.most <= concurrency
    assert account.attempts * 3 < 25_000  # events of one execution


def test_the_machines_try_for_about_an_hour() -> None:
    account = Account(0, 1)
    account.run(5)
    assert account.ended == {"never settled": 5}  # the sweep starts them again
    assert account.seconds > 2 * 2700  # of Plan, then of Settle
