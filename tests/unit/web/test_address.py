"""The address of the service from the client's point of view."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import Request

from mangrove.web.address import find_base_url, find_client_address, is_confidential
from mangrove.web.flavours import ApiFlavour
from tests.unit.web.configs import configure

PROXY = "10.0.0.1"
BEHIND_PROXY = {"trusted_proxies": ("192.0.2.7", "10.0.0.0/24", "fd00::/8")}


def make_request(peer: str = PROXY, server: object = ("127.0.0.1", 5244), **headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "scheme": "http", "server": server, "path": "/", "query_string": b""}
    return Request(scope | {"client": (peer, 1), "headers": named})


def find(flavour: ApiFlavour = ApiFlavour.NATIVE, peer: str = PROXY, **headers: str) -> str:
    return asyncio.run(find_base_url(make_request(peer, **headers), flavour))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "a.example:1"}, "http://a.example:1"),
        ({"host": "a", "x_forwarded_proto": "https"}, "https://a"),
        ({"host": "a", "x_forwarded_host": "b.example"}, "http://b.example"),
        ({"host": "[::1]:5244"}, "http://[::1]:5244"),
        ({}, "http://127.0.0.1:5244"),
    ],
)
def test_the_headers_of_a_trusted_proxy_say_it(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], expected: str
) -> None:
    configure(**BEHIND_PROXY)
    assert find(**headers) == expected
    assert find(ApiFlavour.OPENLIST, **headers) == f"{expected}/openlist"
    assert find(peer="10.0.1.1", **headers) == "http://127.0.0.1:5244"


@pytest.mark.parametrize(
    "headers", [{"host": "evil"}, {"host": "a", "x_forwarded_host": "evil"}, {"forwarded": "host=evil"}]
)
def test_nobody_else_says_where_the_service_is(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    configure()
    assert find(**headers, x_forwarded_proto="https") == "http://127.0.0.1:5244"


@pytest.mark.parametrize(
    ("server", "origin"),
    [(("::1", 5244), "http://[::1]:5244"), (("192.0.2.1", 80), "http://192.0.2.1"), (None, "http://localhost")],
)
def test_our_end_of_the_connection_says_it_otherwise(
    monkeypatch: pytest.MonkeyPatch, server: object, origin: str
) -> None:
    configure()
    assert asyncio.run(find_base_url(make_request(server=server, host="evil"), ApiFlavour.NATIVE)) == origin


def test_in_the_cloud_the_domain_of_the_gateway_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    configure()
    request = make_request(host="evil", x_forwarded_host="evil")
    request.scope["aws.event"] = {"requestContext": {"domainName": "x.execute-api.eu-central-1.amazonaws.com"}}
    url = asyncio.run(find_base_url(request, ApiFlavour.NATIVE))
    assert url == "https://x.execute-api.eu-central-1.amazonaws.com"


@pytest.mark.parametrize("host", ["a/b", 'a"b', "a b", "x" * 300, "user@b"])
def test_a_host_that_is_none_is_not_repeated(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    configure(**BEHIND_PROXY)
    assert host not in find(host="a", x_forwarded_host=host)


def test_a_scheme_that_is_not_of_the_web_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(**BEHIND_PROXY)
    assert find(host="a", x_forwarded_proto="javascript") == "http://127.0.0.1:5244"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "", "10.0.0.1"), ("10.9.0.1", "9.9.9.9", "10.9.0.1"), ("10.0.0.1", "8.8.8.8, 9.9.9.9", "9.9.9.9"),
        ("10.0.0.1", "1.1.1.1, 8.8.8.8, fd00::2,192.0.2.7", "8.8.8.8"), ("10.0.0.1", "9.9.9.9:443", "9.9.9.9"),
        ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"), ("10.0.0.1", "8.8.8.8, none", "10.0.0.1"),
        ("::ffff:10.0.0.1", "9.9.9.9", "9.9.9.9"), ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
    ],
)  # fmt: skip
def test_a_forwarded_address_counts_behind_trusted_proxies_only(
    monkeypatch: pytest.MonkeyPatch, peer: str, forwarded: str, client: str
) -> None:
    configure(**BEHIND_PROXY)
    headers = {"x_forwarded_for": forwarded} if forwarded else {}
    assert asyncio.run(find_client_address(make_request(peer, **headers))) == client
    configure()
    assert asyncio.run(find_client_address(make_request(peer, **headers))) == peer


def test_a_configured_address_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(site_url="https://files.example/base")
    assert find(host="a") == "https://files.example/base"
    assert find(ApiFlavour.OPENLIST, host="a") == "https://files.example/base/openlist"


@pytest.mark.parametrize(
    ("secret", "sent", "is_trusted"),
    [("", {}, True), ("", {"x_proxy_secret": "any"}, True), ("s", {"x_proxy_secret": "s"}, True),
     ("s", {}, False), ("s", {"x_proxy_secret": ""}, False), ("s", {"x_proxy_secret": "S\xe9"}, False)],
)  # fmt: skip
def test_proxy_without_its_secret_is_not_trusted(secret: str, sent: dict[str, str], is_trusted: bool) -> None:
    configure(**BEHIND_PROXY, proxy_secret=secret)
    request = make_request(x_forwarded_for="203.0.113.9", host="a.example", x_forwarded_proto="https", **sent)
    assert asyncio.run(find_client_address(request)) == ("203.0.113.9" if is_trusted else PROXY)
    expected = "https://a.example" if is_trusted else "http://127.0.0.1:5244"
    assert asyncio.run(find_base_url(request, ApiFlavour.NATIVE)) == expected
    assert asyncio.run(is_confidential(request)) is is_trusted
