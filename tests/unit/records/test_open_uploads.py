"""Uploads through share links that have begun and not ended, on the real engine."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.records import open_uploads
from mangrove.records.open_uploads import MAX_OPEN_UPLOADS_PER_SENDER as MAX_PER_SENDER
from mangrove.records.open_uploads import MAX_OPEN_UPLOADS_PER_SHARE as MAX_PER_SHARE

pytestmark = pytest.mark.usefixtures("records")
WEEK = 7 * 86_400.0


def begin(number: int, sender: str, id: str, seconds: float = WEEK) -> bool:
    return open_uploads.begin(number, sender, id, seconds, list)


def fill(number: int, count: int) -> None:
    """Begin uploads from many addresses."""
    for upload in range(count):
        assert begin(number, f"10.0.0.{upload // MAX_PER_SENDER}", f"{number} {upload}")


def test_open_uploads_of_a_sender_are_bounded_until_one_ends() -> None:
    for upload in range(MAX_PER_SENDER):
        assert begin(1, "10.0.0.1", str(upload))
    assert not begin(1, "10.0.0.1", "more")
    assert begin(1, "10.0.0.2", "other") and begin(2, "10.0.0.1", "elsewhere")
    open_uploads.end(1, "0")
    open_uploads.end(1, "unknown")
    assert begin(1, "10.0.0.1", "more") and not begin(1, "10.0.0.1", "one too many")


def test_open_uploads_of_a_share_and_of_all_shares_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = 2
    monkeypatch.setattr(open_uploads, "MAX_OPEN_SHARED_UPLOADS", shares * MAX_PER_SHARE)
    for number in range(1, shares + 1):
        fill(number, MAX_PER_SHARE)
        assert not begin(number, "10.0.1.1", "more")
    assert not begin(shares + 1, "10.0.1.1", "more")
    open_uploads.end(1, "1 0")
    assert begin(shares + 1, "10.0.1.1", "more") and not begin(1, "10.0.1.1", "one too many")


def test_parallel_beginnings_are_never_more_than_the_bound() -> None:
    for upload in range(MAX_PER_SENDER - 3):
        assert begin(1, "10.0.0.1", str(upload))
    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(lambda upload: begin(1, "10.0.0.1", f"parallel {upload}"), range(12)))
    assert sum(begun) == 3


def test_uploads_that_ended_unnoticed_are_forgotten_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for upload in range(MAX_PER_SENDER):
        assert begin(1, "10.0.0.1", str(upload))

    def find_open(ids: Collection[str]) -> list[str]:
        return [id for id in ids if id != "3"]

    assert not open_uploads.begin(1, "10.0.0.1", "more", WEEK, find_open), "its session may not be stored yet"
    monkeypatch.setattr(open_uploads, "NEW_SECONDS", -1.0)
    assert open_uploads.begin(1, "10.0.0.1", "more", WEEK, find_open)
    assert begin(1, "10.0.0.1", "old ones are over", seconds=-1.0)
    open_uploads.end(1, "old ones are over")
    fill(2, MAX_PER_SHARE)
