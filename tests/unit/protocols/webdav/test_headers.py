"""The content of WebDAV's headers, and headers that cannot be read."""

from __future__ import annotations

import pytest

from mangrove.core.problems import BadRequest
from mangrove.protocols.webdav import headers
from mangrove.protocols.webdav.errors import DavProblem
from mangrove.protocols.webdav.headers import Condition, ConditionList, find_tokens, parse_if


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        ("", []),
        ("(<urn:a>)", [ConditionList("", (Condition("urn:a"),))]),
        (
            ' ( <urn:a> Not["x"] )(NOT <urn:b>[W/"y"]) ',
            [
                ConditionList("", (Condition("urn:a"), Condition('"x"', True, True))),
                ConditionList("", (Condition("urn:b", False, True), Condition('W/"y"', True))),
            ],
        ),
        (
            "<http://h/dav/a>(<urn:a>)(<urn:b>)</dav/b>(<urn:c>)",
            [
                ConditionList("http://h/dav/a", (Condition("urn:a"),)),
                ConditionList("http://h/dav/a", (Condition("urn:b"),)),
                ConditionList("/dav/b", (Condition("urn:c"),)),
            ],
        ),
    ],
)
def test_lists_of_conditions_are_read(text: str, lists: list[ConditionList]) -> None:
    assert parse_if(text) == lists
    assert find_tokens(lists) <= {"urn:a", "urn:b", "urn:c"}


@pytest.mark.parametrize(
    "text",
    [
        "x", "(", ")", "()", "(<urn:a>", "(Not)", "(Not Not <urn:a>)", "<urn:a>", "(<urn:a>)<urn:b>(<urn:c>)",
        "((<a>))",
        "(<urn a>)", "([x])", "(<urn:a>)x", "(<a>)" * 300, " " * 20_000, "(Not<urn:a> Not)",
    ],
)  # fmt: skip
def test_what_is_no_list_of_conditions_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_if(text)


def parse(text: str) -> str:
    return headers.parse_destination(text, ["files.example:8080", "127.0.0.1:5244", "plain.example"], "/sub")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("http://files.example:8080/dav/a%20b", "/a b"), ("http://FILES.example:8080/sub/dav/a", "/a"),
        ("/dav/a", "/a"),
        ("https://plain.example/openlist/dav/", "/"), ("http://plain.example:80/dav", "/"), ("/dav/%C3%BC", "/ü"),
    ],
)  # fmt: skip
def test_a_destination_is_a_path_below_our_root(text: str, path: str) -> None:
    assert parse(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "http://files.example/dav/a", "http://u@files.example:8080/dav/a", "//elsewhere/dav/a", "/davx/a", "/d/a",
        "ftp://files.example:8080/dav/a", "http://files.example:8081/dav/a",
    ],
)  # fmt: skip
def test_a_destination_elsewhere_is_another_servers(text: str) -> None:
    with pytest.raises(DavProblem) as caught:
        parse(text)
    assert caught.value.status == 502


@pytest.mark.parametrize(
    "text", ["a", "", "/dav/a?b", "/dav/a#b", "/dav/%f", "/dav/%2f", "/dav/\x01", "http://h:x/dav"]
)
def test_a_destination_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse(text)


def test_depth_overwrite_timeout_and_tokens() -> None:
    assert headers.parse_depth(None, ("0",), "0") == "0"
    assert headers.parse_depth(" Infinity ", ("0", "infinity"), "0") == "infinity"
    assert [headers.parse_overwrite(text) for text in (None, "T", "f")] == [True, True, False]
    wishes = [None, "Infinite", "Second-0", "Second-x", "Second-60", "Infinite, Second-99999999", "Second-²"]
    assert [headers.parse_timeout(text) for text in wishes] == [3600, 3600, 3600, 3600, 60, 3600, 3600]
    assert headers.parse_lock_token(" <urn:x> ") == "urn:x"
    for refused in (lambda: headers.parse_lock_token("urn:x"), lambda: headers.parse_overwrite("yes")):
        with pytest.raises(BadRequest):
            refused()
