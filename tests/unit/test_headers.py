"""Header values that more than one room writes."""

from __future__ import annotations

import pytest

from mangrove.headers import format_content_disposition


def test_a_name_stands_in_both_forms() -> None:
    assert format_content_disposition("a b.txt") == "attachment; filename=\"a%20b.txt\"; filename*=utf-8''a%20b.txt"


@pytest.mark.parametrize("name", ['"; filename="x', "a\r\nset-cookie: b", "naïve/…\\", "a;b=c,d"])
def test_no_byte_of_a_name_ends_the_header(name: str) -> None:
    value = format_content_disposition(name).removeprefix("attachment; ")
    assert value.isascii()
    assert value.count(";") == 1 and value.count('"') == 2
    assert not any(letter in value for letter in "\r\n,\\")


def test_an_empty_name_names_nothing() -> None:
    assert format_content_disposition("") == "attachment"
