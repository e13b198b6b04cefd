"""Access to routes, the client's address, and pages of rows."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import Request

from mangrove.core.problems import BadRequest
from mangrove.identity.rights import GUEST, Caller, Right
from mangrove.records.users import User
from mangrove.web.gates import Gate, Paging, name_caller, parse_paging


def page(number: str = "", per_page: str = "") -> Paging:
    return asyncio.run(parse_paging(number, per_page))


@pytest.mark.parametrize(
    ("number", "per_page", "rows"),
    [("", "", [0, 1, 2, 3, 4]), ("1", "2", [0, 1]), ("3", "2", [4]), ("4", "2", []), ("0", "2", [0, 1]),
     ("-3", "2", [0, 1]), ("2", "0", [0, 1, 2, 3, 4]), ("2", "-1", [0, 1, 2, 3, 4]), ("+2", "2", [2, 3]),
     ("9" * 18, "9" * 18, [])],
)  # fmt: skip
def test_a_page_is_a_slice_of_the_rows(number: str, per_page: str, rows: list[int]) -> None:
    requested = page(number, per_page)
    assert requested.slice(list(range(5))) == rows
    assert requested.slice(iter(range(5))) == rows


@pytest.mark.parametrize("text", ["x", "1.0", "+-1", "--1", " 1", "1_0", "-", "9" * 19])
def test_a_page_that_is_no_number_is_refused_in_known_words(text: str) -> None:
    for wrong in ({"number": text}, {"per_page": text}):
        with pytest.raises(BadRequest) as caught:
            page(**wrong)
        assert caught.value.message == f'"{text[:40]}" is no integer'


def test_a_page_reads_no_row_behind_it() -> None:
    rows = iter(range(100))
    assert page("2", "3").slice(rows) == [3, 4, 5]
    assert next(rows) == 6


def test_a_gate_is_named_by_its_level_and_right() -> None:
    assert str(Gate("visitor")) == "visitor"
    assert str(Gate("visitor", Right.OFFLINE_DOWNLOAD)) == "visitor:offline_download"


def test_a_gate_for_anyone_reads_no_token() -> None:
    request = Request({"type": "http", "headers": [(b"authorization", b"no token")]})
    assert asyncio.run(Gate("anyone")(request)) is None


@pytest.mark.parametrize(
    ("role", "address", "name"),
    [(0, "192.0.2.1", "user 7"), (2, "192.0.2.1", "user 7"), (GUEST, "192.0.2.1", "192.0.2.1"),
     (GUEST, "2001:db8::1", "2001:db8::/64"), (None, "192.0.2.1", "192.0.2.1")],
)  # fmt: skip
def test_a_share_is_a_users_and_of_others_that_of_the_place_they_ask_from(
    role: int | None, address: str, name: str
) -> None:
    user = User(7, "ann", "", "/", role or 0, 0, False, "", False, "", 0)
    assert name_caller(None if role is None else Caller(user, Right.READ), address) == name
