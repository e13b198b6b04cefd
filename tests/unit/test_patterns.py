"""Patterns that users give."""

from __future__ import annotations

import time

import pytest

from mangrove.core.patterns import InvalidPattern, compile_pattern


def test_a_pattern_matches_as_re2_does() -> None:
    assert compile_pattern(r"^(?i)a+b$").search("AAB")
    assert not compile_pattern("^b").search("ab")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing ): ("),
        ("*", "no argument for repetition operator: *"),
        ("(?<=a)b", r"invalid perl operator: (?<="),
    ],
)
def test_what_is_no_pattern_is_refused_in_the_words_of_re2(pattern: str, message: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)


def test_a_pattern_that_makes_others_backtrack_takes_no_time() -> None:
    pattern = compile_pattern("(a+)+$")
    began = time.monotonic()
    assert not pattern.fullmatch("a" * 50_000 + "b")
    assert time.monotonic() - began < 20.0


@pytest.mark.parametrize("pattern", ["(", "a{1001}", "((a{100}){100}){100}", "(?P<"])
def test_a_refused_pattern_prints_nothing(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(pattern)
    assert capfd.readouterr() == ("", "")
