"""The address of the service as the client knows it."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import Request

from mangrove.web import address
from mangrove.web.address import find_base_url
from mangrove.web.dialects import Dialect
from tests.unit.web.configs import configure


def find(dialect: Dialect = Dialect.DOCUMENT, **headers: str) -> str:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "scheme": "http", "server": ("127.0.0.1", 5244), "path": "/", "query_string": b""}
    return asyncio.run(find_base_url(Request(scope | {"headers": named}), dialect))


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
def test_the_headers_say_it(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], expected: str) -> None:
    configure(monkeypatch, address)
    assert find(**headers) == expected
    assert find(Dialect.OPENLIST, **headers) == f"{expected}/openlist"


@pytest.mark.parametrize("host", ["a/b", 'a"b', "a b", "x" * 300, "user@b"])
def test_a_host_that_is_none_is_not_repeated(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    configure(monkeypatch, address)
    assert host not in find(host="a", x_forwarded_host=host)


def test_a_scheme_that_is_not_of_the_web_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, address)
    assert find(host="a", x_forwarded_proto="javascript") == "http://a"


def test_a_configured_address_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, address, site_url="https://files.example/base")
    assert find(host="a") == "https://files.example/base"
    assert find(Dialect.OPENLIST, host="a") == "https://files.example/base/openlist"
