"""Patterns that users wrote."""

from __future__ import annotations

import pytest

from mangrove.patterns import InvalidPattern, compile_pattern


def test_a_pattern_is_compiled() -> None:
    assert compile_pattern(r"^\p{Greek}+$").search("αβγ")
    assert not compile_pattern("^a$").search("ab")


@pytest.mark.parametrize(
    ("pattern", "reason"), [("(", "missing ): ("), ("[ü", "missing ]: [ü"), (r"(?=a)", "invalid perl operator: (?=")]
)
def test_what_is_no_pattern_is_refused_with_the_reason_as_text(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidPattern) as refusal:
        compile_pattern(pattern)
    assert str(refusal.value) == reason
