"""Dates and types that headers carry, for one name and for many."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from mangrove.core.headers import LATEST, MOST_KNOWN, MimeGuesser, format_http_date, guess_mime


@pytest.mark.parametrize("seconds", [0, 1.9, 951_782_400, 1_709_164_800.5, 1_700_000_000, LATEST])
def test_a_date_is_as_the_standard_library_has_it(seconds: float) -> None:
    assert format_http_date(seconds) == formatdate(int(seconds), usegmt=True)


def test_the_types_of_many_names_are_those_of_each() -> None:
    guesser = MimeGuesser()
    names = ["a.txt", "b.txt", "a.TXT", "a.tar.gz", "a.gz", "b.json.gz", "apk", "x.apk", "none", ".txt", "a.", "ü.png"]
    for _ in range(2):
        assert [guesser.guess(name) for name in names] == [guess_mime(name) for name in names]
    for number in range(3 * MOST_KNOWN):
        assert guesser.guess(f"a.x{number}") == "application/octet-stream"
