"""Dates and types that headers carry, for one name and for many."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

import pytest

from mangrove.core.http import (
    MAX_CLIENT_LENGTH,
    MAX_HTTP_DATE,
    MAX_KNOWN_EXTENSIONS,
    MimeGuesser,
    find_client,
    format_http_date,
    forward_headers,
    get_forwarded_headers,
    guess_mime,
    parse_integer,
    select_headers,
)


@pytest.mark.parametrize("seconds", [0, 1.9, 951_782_400, 1_709_164_800.5, 1_700_000_000, MAX_HTTP_DATE])
def test_a_date_is_as_the_standard_library_has_it(seconds: float) -> None:
    assert format_http_date(seconds) == formatdate(int(seconds), usegmt=True)


def test_the_types_of_many_names_are_those_of_each() -> None:
    guesser = MimeGuesser()
    names = ["a.txt", "b.txt", "a.TXT", "a.tar.gz", "a.gz", "b.json.gz", "apk", "x.apk", "none", ".txt", "a.", "ü.png"]
    for _ in range(2):
        assert [guesser.guess(name) for name in names] == [guess_mime(name) for name in names]
    for number in range(3 * MAX_KNOWN_EXTENSIONS):
        assert guesser.guess(f"a.x{number}") == "application/octet-stream"


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


@pytest.mark.parametrize(
    ("address", "source"),
    [("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:0:1::5", "2001:db8:0:1::/64"),
     ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("unix", "unix"),
     ("192.0.2.1:5678", "192.0.2.1"), ("[2001:db8:0:1::9]:443", "2001:db8:0:1::/64"),
     ("[2001:db8:0:1::9]", "2001:db8:0:1::/64"), ("::1", "::/64"), ("x" * 1000, "x" * MAX_CLIENT_LENGTH)],
)  # fmt: skip
def test_an_address_has_one_source_and_a_network_of_ipv6_is_one(address: str, source: str) -> None:
    assert find_client(address) == source


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "cookie", "host", "range", "if-none-match", "x-forwarded-for", "x-real-ip", "otp-code",
        "content-length", "proxy-authorization", "transfer-encoding", "accept-encoding", "ignored",
    ],
)  # fmt: skip
def test_what_is_the_clients_own_or_is_ignored_is_kept_back(name: str) -> None:
    headers = [(name, "x"), ("user-agent", "a player"), ("accept-language", "de")]
    assert select_headers(headers, {"ignored"}) == {"user-agent": "a player", "accept-language": "de"}


def test_a_value_that_cannot_be_sent_is_kept_back() -> None:
    assert select_headers([("x-a", "\N{SNOWMAN}"), ("x-b", "b")], ()) == {"x-b": "b"}


def test_one_request_knows_nothing_of_another() -> None:
    async def request(text: str) -> dict[str, str]:
        forward_headers([("x-a", text)], ())
        await asyncio.sleep(0)
        return get_forwarded_headers()

    async def both() -> None:
        results = await asyncio.gather(*(asyncio.create_task(request(text)) for text in "ab"))
        assert results == [{"x-a": "a"}, {"x-a": "b"}]

    asyncio.run(both())
    assert get_forwarded_headers() == {}
