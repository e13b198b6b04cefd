"""The wire form of entries."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from mangrove.drivers.base import Capacity, Entry
from mangrove.tree.listing import rows

CODES = {"mp4": 2, "md": 4}


def test_a_row_holds_what_clients_know() -> None:
    entry = Entry("Film.MP4", 5, 10.0, False, created=20.0, hashes={"md5": "00"})
    assert rows.make_row(CODES, entry, "signature", "address") == {
        "name": "Film.MP4", "size": 5, "is_dir": False, "modified": datetime.fromtimestamp(10, UTC),
        "created": datetime.fromtimestamp(20, UTC), "sign": "signature", "thumb": "address", "type": 2,
        "hashinfo": '{"md5":"00"}', "hash_info": {"md5": "00"},
    }  # fmt: skip


def test_what_is_not_known_has_its_own_value() -> None:
    row = rows.make_row(CODES, Entry("x", None, 0.0, False))
    assert (row["size"], row["modified"], row["created"]) == (0, rows.ZERO_TIME, rows.ZERO_TIME)
    assert (row["hashinfo"], row["hash_info"], row["type"]) == ("null", None, 0)
    assert rows.make_row(CODES, Entry("x", 1, 7.0, False))["created"] == datetime.fromtimestamp(7, UTC)


@pytest.mark.parametrize(
    ("name", "is_dir", "code"),
    [("a.mp4", True, 1), ("a.mp4", False, 2), ("a.b.MD", False, 4), ("md", False, 4), ("a", False, 0)],
)
def test_the_type_is_that_of_the_extension(name: str, is_dir: bool, code: int) -> None:
    assert rows.get_type_code(CODES, name, is_dir) == code


@pytest.mark.parametrize("seconds", [0.0, 1e300, -1e300, math.inf, math.nan, 4e11])
def test_a_time_that_no_calendar_holds_is_the_zero_time(seconds: float) -> None:
    assert rows.format_time(seconds) == rows.ZERO_TIME


def test_capacities_are_in_bytes() -> None:
    assert rows.make_capacity_row(Capacity(10, 4)) == {"total_space": 10, "used_space": 6, "free_space": 4}
