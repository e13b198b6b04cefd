"""Which texts are integers."""

from __future__ import annotations

import pytest

from mangrove.core.integers import parse_integer


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_an_integer(text: str, number: int) -> None:
    assert parse_integer(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1 ", "1_0", "1.0", "0x1", "٣", "²", "9" * 19, "1\n"])
def test_other_texts_are_none(text: str) -> None:
    assert parse_integer(text) is None


@pytest.mark.parametrize(("text", "number"), [("-12", -12), ("+12", 12), ("12", 12), ("-0", 0)])
def test_a_sign_is_read_where_it_is_allowed(text: str, number: int) -> None:
    assert parse_integer(text, signed=True) == number


@pytest.mark.parametrize("text", ["+-1", "--1", "-", "+", "1-", "- 1", "-٣"])
def test_a_sign_alone_or_twice_is_none(text: str) -> None:
    assert parse_integer(text, signed=True) is None


def test_the_bound_counts_the_sign() -> None:
    assert parse_integer("-12", signed=True, digits=3) == -12
    assert parse_integer("-123", signed=True, digits=3) is None
