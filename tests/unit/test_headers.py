"""Values of headers that are made of names."""

from __future__ import annotations

import pytest

from mangrove.headers import format_content_disposition


@pytest.mark.parametrize(
    ("name", "encoded"),
    [("a.txt", "a.txt"), ("a b+ä.txt", "a%20b%2B%C3%A4.txt"), ('"; x=\r\n/', "%22%3B%20x%3D%0D%0A%2F")],
)
def test_a_name_is_encoded_in_both_forms(name: str, encoded: str) -> None:
    expected = f"attachment; filename=\"{encoded}\"; filename*=utf-8''{encoded}"
    assert format_content_disposition(name) == expected


def test_without_a_name_the_file_is_saved_under_the_one_of_its_address() -> None:
    assert format_content_disposition("") == "attachment"
