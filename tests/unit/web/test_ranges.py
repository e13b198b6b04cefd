"""Ranges and conditions, case by case."""

from __future__ import annotations

import pytest

from mangrove.core.http import format_http_date
from mangrove.web.ranges import ByteRange, RangeNotSatisfiable, check_preconditions, parse_ranges

ETAG, MODIFIED = '"abc"', 1_700_000_000.0


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []), ("bytes=0-3", [ByteRange(0, 4)]), ("bytes=5-", [ByteRange(5, 10)]), ("bytes=-3", [ByteRange(7, 10)]),
        ("bytes=-100", [ByteRange(0, 10)]), ("bytes=8-100", [ByteRange(8, 10)]),
        ("bytes=0-1,4-5", [ByteRange(0, 2), ByteRange(4, 6)]),
        ("bytes=0-9,0-9", []), ("bytes=2-3,50-60", [ByteRange(2, 4)]),
    ],
)  # fmt: skip
def test_ranges(header: str, expected: list[ByteRange]) -> None:
    assert parse_ranges({"range": header}, 10, ETAG, MODIFIED) == expected


@pytest.mark.parametrize(
    "header", ["bytes=10-", "bytes=-0", "bytes=4-2", "bytes=a-b", "items=0-1", "bytes=", "bytes=-", "bytes=٣-"]
)
def test_ranges_that_cannot_be(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        parse_ranges({"range": header}, 10, ETAG, MODIFIED)


def test_a_range_of_an_empty_file_is_the_file() -> None:
    assert parse_ranges({"range": "bytes=0-1"}, 0, ETAG, MODIFIED) == []


def test_if_range() -> None:
    same = {"range": "bytes=0-1", "if-range": ETAG}
    assert parse_ranges(same, 10, ETAG, MODIFIED) == [ByteRange(0, 2)]
    assert parse_ranges(same | {"if-range": '"other"'}, 10, ETAG, MODIFIED) == []
    assert parse_ranges(same | {"if-range": format_http_date(MODIFIED)}, 10, ETAG, MODIFIED) == [ByteRange(0, 2)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, None), ({"if-none-match": ETAG}, 304), ({"if-none-match": "*"}, 304),
        ({"if-none-match": f"W/{ETAG}"}, 304),
        ({"if-none-match": '"x"'}, None), ({"if-match": ETAG}, None), ({"if-match": '"x"'}, 412),
        ({"if-modified-since": format_http_date(MODIFIED)}, 304),
        ({"if-modified-since": format_http_date(MODIFIED - 9)}, None),
        ({"if-unmodified-since": format_http_date(MODIFIED - 9)}, 412), ({"if-modified-since": "nonsense"}, None),
        ({"if-none-match": '"x"', "if-modified-since": format_http_date(MODIFIED)}, None),
    ],
)  # fmt: skip
def test_preconditions(headers: dict[str, str], status: int | None) -> None:
    assert check_preconditions(headers, ETAG, MODIFIED, "GET") == status


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1e12, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (-1e12, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784111777.9, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ],
)
def test_any_time_of_a_file_has_an_http_date(seconds: float, text: str) -> None:
    assert format_http_date(seconds) == text
