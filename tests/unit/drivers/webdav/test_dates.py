"""Times in all forms that servers write."""

from __future__ import annotations

import pytest

from mangrove.drivers.webdav.dates import parse_date


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784111777.0),
        ("Sun Nov  6 08:49:37 1994", 784111777.0),
        ("Sun, 6 Nov 1994 09:49:37 +0100", 784111777.0),
        ("1994-11-06T08:49:37Z", 784111777.0),
        ("1994-11-06T08:49:37.5+00:00", 784111777.5),
        (" Thu, 01 Jan 1970 00:00:00 GMT ", 0.0),
        ("Thu, 01 Jan 1601 00:00:00 GMT", 0.0),
        ("Thu, 99 Foo 1994 00:00:00 GMT", 0.0),
        ("Thu, 99 Nov 1994 00:00:00 GMT", 0.0),
        ("", 0.0),
        ("yesterday", 0.0),
        ("0000-00-00", 0.0),
    ],
)
def test_a_time(text: str, seconds: float) -> None:
    assert parse_date(text) == seconds
