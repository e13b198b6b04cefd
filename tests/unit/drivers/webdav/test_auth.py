"""Signing in: the examples of RFC 7616, and the challenges that servers send."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest

from mangrove.drivers.webdav import auth
from mangrove.drivers.webdav.auth import DigestChallenge, WebDavCredentials, parse_challenges

RFC = (
    'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={}, '
    'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)
CNONCE = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
ANSWERS = {
    "MD5": "8ca523f5e9506fed4657c9700eebdbec",
    "SHA-256": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
}


def learned(*headers: str) -> WebDavCredentials:
    known = WebDavCredentials("Mufasa", "Circle of Life")
    assert known.learn(headers, b"", False)
    return known


@pytest.mark.parametrize("algorithm", ANSWERS)
def test_the_example_of_the_standard(algorithm: str) -> None:
    with patch.object(auth.secrets, "token_hex", lambda _: CNONCE):
        signed = learned(RFC.format(algorithm)).sign("GET", "/dir/index.html").decode()
    assert f'response="{ANSWERS[algorithm]}"' in signed
    assert f"algorithm={algorithm}, qop=auth, nc=00000001" in signed


def test_the_example_of_the_oldest_standard_without_qop() -> None:
    signed = learned('Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"').sign("GET", "/x")
    assert b"qop" not in signed and b"cnonce" not in signed and b"opaque" not in signed


def test_requests_are_counted_by_nonce() -> None:
    known = learned(RFC.format("MD5"))
    counts = [re.search(rb"nc=(\w+)", known.sign("GET", "/")) for _ in range(3)]
    assert [count and count[1] for count in counts] == [b"00000001", b"00000002", b"00000003"]
    assert known.learn([RFC.format("MD5").replace("7ypf", "new")], b"Digest", False)
    assert b"nc=00000001" in known.sign("GET", "/")


@pytest.mark.parametrize(
    "headers",
    [
        [RFC.format("MD5"), RFC.format("SHA-256")],
        [RFC.format("SHA-256"), RFC.format("MD5")],
        [f'Basic realm="a, b=c", {RFC.format("SHA-256")}, Digest algorithm=SHA-512-256, nonce="x"'],
        ["Negotiate", "Bearer realm=x", 'Digest algorithm=token, nonce="y"', RFC.format("SHA-256"), 'Basic realm="x"'],
    ],
)
def test_the_strongest_of_what_is_offered_is_used(headers: list[str]) -> None:
    assert b"algorithm=SHA-256," in learned(*headers).sign("GET", "/")


def test_basic_is_shown_only_where_it_is_asked_for() -> None:
    known = WebDavCredentials("me", "pä:ss")
    assert (known.sign("GET", "/"), known.is_method_known) == (b"", False)
    assert known.learn(['Basic realm="x"'], b"", False)
    assert known.sign("GET", "/") == b"Basic bWU6cMOkOnNz"
    assert known.learn(['Basic realm="x"'], b"", False), "of another request, sent before"
    assert not known.learn(['Basic realm="x"'], known.sign("GET", "/"), False)


def test_a_wrong_password_is_tried_once_and_a_stale_nonce_again() -> None:
    known = learned(RFC.format("MD5"))
    assert not known.learn([RFC.format("MD5")], b"Digest", True)
    assert known.learn([f"{RFC.format('MD5')}, stale=TRUE"], b"Digest", True)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Digest",
        'Digest nonce=""',
        "Digest realm",
        'Digest nonce="a',
        'Digest nonce="a", qop="auth-int"',
        "Bearer x",
    ],
)
def test_a_challenge_that_cannot_be_met_is_no_reason_to_try_again(header: str) -> None:
    assert not WebDavCredentials("me", "x").learn([header], b"", False)


def test_without_a_name_nothing_is_signed() -> None:
    known = WebDavCredentials("", "")
    assert known.is_method_known and not known.learn(['Basic realm="x"'], b"", False)
    assert known.sign("GET", "/") == b""


def test_quotes_in_names_are_escaped() -> None:
    challenge = DigestChallenge.parse({"realm": 'a "b" \\c', "nonce": "n"})
    assert challenge is not None
    assert r'username="x\", uri=\"y", realm="a \"b\" \\c"' in challenge.sign('x", uri="y', "p", "GET", "/")


def test_challenges_are_told_apart() -> None:
    challenges = list(
        parse_challenges([r'Basic realm="a \" b", charset="UTF-8", Digest nonce = abc , stale=true', "NTLM"])
    )
    assert challenges == [
        ("basic", {"realm": 'a " b', "charset": "UTF-8"}),
        ("digest", {"nonce": "abc", "stale": "true"}),
        ("ntlm", {}),
    ]
