"""The URLs that tools take."""

from __future__ import annotations

import asyncio
import re

import pytest

from mangrove.core.problems import Problem
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress
from mangrove.tools import registry, urls
from tests.unit.net.conftest import Names
from tests.unit.net.conftest import names as names  # a fixture

MAGNET = "magnet:?xt=urn:btih:" + "c12fe1c06bba254a9dc9f519b335aa7c1367a88a"
ALL = "SimpleHttp aria2 qBittorrent"
SIMPLE = "SimpleHttp tool does not support this URL scheme, please use aria2 or other tools for magnet/ed2k links"


@pytest.mark.parametrize(
    ("url", "tools"),
    [
        ("http://example.org/a", ALL), ("https://example.org", ALL),
        ("HTTPS://Example.org:8443/a?b=c", ALL), ("ftp://example.org/a", "aria2"),
        ("sftp://example.org/a", "aria2"), (MAGNET, "aria2 qBittorrent"), (f"{MAGNET}&dn=a%20b", "aria2 qBittorrent"),
        ("ed2k://|file|a|1|b|/", ""), ("thunder://QUE=", ""), ("file:///etc/passwd", ""), ("gopher://example.org/", ""),
        ("data:text/plain,x", ""), ("javascript:alert(1)", ""), ("jar:http://example.org!/x", ""), ("/etc/passwd", ""),
        ("example.org/a", ""), ("", ""), ("://", ""), ("http//x", ""),
    ],
)  # fmt: skip
def test_each_tool_takes_its_own_schemes(url: str, tools: str) -> None:
    for tool in registry.NAMES:
        if tool in tools.split():
            assert urls.normalize_url(url, tool)
        else:
            with pytest.raises(urls.InvalidUrl):
                urls.normalize_url(url, tool)


def test_unknown_scheme_is_refused_with_known_message() -> None:
    for url in ("ftp://h/", MAGNET, "ed2k://|file|", "file:///x"):
        with pytest.raises(Problem, match=f"^{re.escape(SIMPLE)}$"):
            urls.normalize_url(url, "SimpleHttp")
    for tool in ("aria2", "qBittorrent"):
        text = (
            f"ed2k protocol is not supported by {tool}. "
            "Please configure and use Thunder/ThunderX/ThunderBrowser for ed2k links"
        )
        with pytest.raises(Problem, match=f"^{re.escape(text)}$"):
            urls.normalize_url("ED2K://|file|a b|1|c|/", tool)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:password@h/", "http://user@h/", "http://:@h/", "ftp://u:p@h/", "http://h\r\nHost: x/", "http://h/\nx",
        "http://h/a\x00b", "http://h/\x7f", "http://h/a b", "http://h\\@evil/", "http:///x", "http://", "http:x",
        "http://h:99999/", "http://h:0/", "http://h:x/", "http://[/", "http://[::1/", "http://h/\u202ex", "http://h/\ud800",
        "http://h/" + "a" * 9000, "http://h/" + "é" * 5000, "magnet:", "magnet:?xt=urn:sha1:abc", "magnet:?dn=x",
        "magnet:?xt=urn:btih:short", "magnet:?xt=urn:btih:../../etc",
    ],
)  # fmt: skip
def test_an_address_with_something_odd_about_it_is_refused(url: str) -> None:
    with pytest.raises(urls.InvalidUrl) as refused:
        urls.normalize_url(url, "aria2")
    assert "password" not in refused.value.message or "not taken" in refused.value.message
    assert len(refused.value.message) < 200


def test_an_address_is_given_on_in_one_spelling() -> None:
    assert urls.normalize_url(" HTTP://Example.ORG:80/ä?q=ö#part \n", "aria2") == "http://example.org/%C3%A4?q=%C3%B6"


@pytest.mark.parametrize(
    "server",
    [
        "tr=http://127.0.0.1/announce", "tr.1=udp%3A%2F%2F10.0.0.1%3A80%2F", "ws=http://169.254.169.254/", "xs=http://[::1]/",
        "AS=http%3A%2F%2Flocalhost", "x.pe=192.168.0.1:6881", "tr=http://8.8.8.8/&tr=http://2130706433/",
    ],
)  # fmt: skip
def test_the_servers_that_a_magnet_link_names_must_be_permitted(server: str) -> None:
    magnet = urls.normalize_url(f"Magnet:?xt=urn:btih:{'a' * 40}&{server}", "aria2")
    with pytest.raises(ForbiddenAddress):
        asyncio.run(urls.check_url_hosts(magnet, AddressPolicy()))


def test_a_magnet_link_may_name_public_servers_and_ones_that_are_gone(names: Names) -> None:
    names.answers["public.example"] = [["8.8.8.8"]]
    magnet = f"magnet:?xt=urn:btih:{'a' * 40}"
    servers = "&tr=udp://public.example:80&tr=http://gone.invalid/&xs=urn:sha1:abc&x.pe=8.8.8.8:1"
    asyncio.run(urls.check_url_hosts(urls.normalize_url(magnet + servers, "aria2"), AddressPolicy()))
    for more in (101 * "&tr=http://8.8.8.8/", "&tr=http://[/"):
        with pytest.raises(urls.InvalidUrl):
            asyncio.run(urls.check_url_hosts(urls.normalize_url(magnet + more, "aria2"), AddressPolicy()))
    with pytest.raises(urls.InvalidUrl):
        urls.normalize_url(magnet + 600 * "&a=b", "aria2")
