"""Torrent files: which servers they name, and what is refused before a tool sees it."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.problems import Problem
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress
from mangrove.tools import torrents, urls
from mangrove.tools.torrents import BrokenTorrent, list_servers
from tests.support import origin
from tests.support.torrents import torrent

LOOPBACK_POLICY = AddressPolicy.parse("127.0.0.2")


def test_every_server_that_a_torrent_names_is_listed() -> None:
    content = (
        b"d8:announce5:udp:a13:announce-listll5:udp:bel5:udp:a0:ee4:info d1:ae9:httpseedsl6:http:ce5:nodesll1:hi5eee"
        b"8:url-listl6:http:dee"
    ).replace(b"4:info d1:ae", b"4:infod1:a1:be")
    assert list_servers(content) == ["http:c", "http:d", "udp://h", "udp:a", "udp:b"]
    described, _ = torrent("f", b"x", tracker="http://t/announce", seed="http://s/f")
    assert list_servers(described) == ["http://s/f", "http://t/announce"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"d", b"i5e", b"le", b"d1:a", b"d1:ai5", b"d1:a5:xe", b"d1:a-1:xe", b"dlei5ee", b"d1:ae", b"x", b"d1:aiee",
       
        b"d8:announce1:a8:announce1:be", b"d1:a" + b"l" * 10_000,
        b"d1:a99999999999999999999999999:e", b"d1:a1_0:" + b"x" * 9,
    ],
)  # fmt: skip
def test_what_is_no_torrent_is_told(content: bytes) -> None:
    with pytest.raises(BrokenTorrent, match=r"^the torrent file is broken$"):
        list_servers(content)


def test_a_torrent_of_very_many_values_is_broken() -> None:
    with pytest.raises(BrokenTorrent):
        list_servers(b"d1:al" + b"i0e" * torrents.MAX_VALUES + b"ee")


@pytest.mark.parametrize("key", ["tracker", "seed"])
@pytest.mark.parametrize("server", ["http://127.0.0.1:1/x", "udp://169.254.169.254:80", "http://[::1]/"])
def test_a_torrent_that_names_a_server_of_this_machine_is_refused(key: str, server: str) -> None:
    described, _ = torrent("f", b"x", **{key: server})
    with origin.origin("127.0.0.2") as web, pytest.raises(ForbiddenAddress):
        asyncio.run(torrents.fetch_torrent(web.at("/a", origin.file(described)), LOOPBACK_POLICY, "aria2"))


def test_a_torrent_that_names_no_more_than_it_may_is_fetched() -> None:
    described, _ = torrent("f", b"x", tracker="http://127.0.0.2/announce", seed="http://nowhere.invalid/f")
    with origin.origin("127.0.0.2") as web:
        assert (
            asyncio.run(torrents.fetch_torrent(web.at("/a", origin.file(described)), LOOPBACK_POLICY, "aria2"))
            == described
        )
        with pytest.raises(Problem, match=r"^aria2 takes torrents only: there is none at this address$"):
            asyncio.run(torrents.fetch_torrent(web.at("/b", origin.file(b"<html>")), LOOPBACK_POLICY, "aria2"))


def test_a_torrent_of_very_many_servers_is_refused() -> None:
    with pytest.raises(urls.InvalidUrl, match="more than 100 servers"):
        asyncio.run(urls.check_servers([f"udp://127.0.0.2:{port}" for port in range(101)], LOOPBACK_POLICY))
