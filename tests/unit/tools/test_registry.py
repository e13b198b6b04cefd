"""The download tools by name, as the settings describe them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mangrove.configuration.values import Settings
from mangrove.core.problems import Problem
from mangrove.tools import registry
from mangrove.tools.aria2 import Aria2
from mangrove.tools.qbittorrent import QBittorrent
from tests import servers
from tests.support import origin


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This process is `mangrove serve`."""
    monkeypatch.setenv("MANGROVE_DATA", str(tmp_path))


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is a function in the cloud."""
    monkeypatch.delenv("MANGROVE_DATA", raising=False)


def settings(**values: str) -> Settings:
    return Settings(values)


def refusal(name: str, **values: str) -> str:
    values = {"offline_download_ready": "aria2,qBittorrent"} | values
    with pytest.raises(Problem) as refused:
        asyncio.run(registry.connect_tool(name, settings(**values)))
    return refused.value.message


def test_the_tools_stand_in_the_order_that_clients_see(machine: None) -> None:
    assert registry.list_available_tools(settings()) == ["SimpleHttp"]
    assert registry.list_available_tools(settings(offline_download_ready="qBittorrent,aria2")) == list(registry.NAMES)
    assert registry.list_available_tools(settings(offline_download_ready="x, ,aria2")) == ["SimpleHttp", "aria2"]


def test_an_unknown_tool_is_told_by_name(machine: None) -> None:
    for name in ("Thunder", "ARIA2", "", "simplehttp"):
        assert refusal(name) == f"failed get offline download tool: tool {name} not found"
    assert len(refusal("x" * 5000)) < 200


def test_a_tool_that_is_not_there_is_told_with_the_reason(machine: None) -> None:
    uri = f"http://127.0.0.1:{servers.free_port()}/jsonrpc"
    message = refusal("aria2", aria2_uri=uri, aria2_secret="hush hush")
    assert message == "failed init offline download tool aria2: failed get aria2 version: no connection"
    message = refusal("qBittorrent", qbittorrent_url=uri.replace("//", "//me:hush@"))
    assert message == "failed init offline download tool qBittorrent: qBittorrent does not answer: no connection"
    message = refusal("qBittorrent", qbittorrent_url="nonsense")
    assert message == "failed init offline download tool qBittorrent: unauthorized qbittorrent url"


@pytest.mark.parametrize("name", ["aria2", "qBittorrent"])
def test_a_tool_that_no_administrator_has_set_up_is_not_called(machine: None, name: str) -> None:
    reason = f"{name} is not set up here; an administrator can do that in the settings"
    with origin.origin() as web:
        uri = web.address.replace("//", "//me:hush@") if name == "qBittorrent" else f"{web.address}/jsonrpc"
        message = refusal(name, aria2_uri=uri, qbittorrent_url=uri, offline_download_ready="")
        assert message == f"failed init offline download tool {name}: {reason}"
        assert web.requests == []


@pytest.mark.parametrize(
    ("name", "url", "chosen"),
    [
        ("aria2", "http://e.org/f", "SimpleHttp"), ("aria2", "https://e.org/f?x=.torrent", "SimpleHttp"),
        ("aria2", "https://e.org/a.Torrent?x=1", "aria2"), ("aria2", "magnet:?xt=urn:btih:x", "aria2"),
        ("aria2", "ftp://e.org/f", "aria2"), ("qBittorrent", "http://e.org/f", "qBittorrent"),
        ("SimpleHttp", "http://e.org/a.torrent", "SimpleHttp"),
    ],
)  # fmt: skip
def test_web_urls_use_own_fetcher_unless_aria2_is_set(name: str, url: str, chosen: str) -> None:
    assert registry.choose_tool(name, url, settings()) == chosen
    assert registry.choose_tool(name, url, settings(aria2_http="true")) == name


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "2852039166"])
def test_no_setting_turns_the_service_to_a_metadata_service(machine: None, host: str) -> None:
    message = refusal("aria2", aria2_uri=f"http://{host}/latest")
    assert message.endswith(f"access to {host.strip('[]')} is not allowed")
    assert refusal("qBittorrent", qbittorrent_url=f"http://a:b@{host}/").endswith("is not allowed")


def test_the_settings_make_the_tool(machine: None) -> None:
    assert isinstance(registry.make_tool("aria2", settings()), Aria2)
    assert isinstance(registry.make_tool("qBittorrent", settings(qbittorrent_seedtime="")), QBittorrent)
    policy = registry.make_address_policy(settings(offline_download_allowed_hosts="10.0.0.0/8, Host.example\nfd00::/8"))
    assert (policy.names, len(policy.networks)) == (frozenset({"host.example"}), 2)


def test_in_the_cloud_only_our_own_fetcher_is_there(cloud: None) -> None:
    assert registry.list_available_tools(settings(offline_download_ready="aria2,qBittorrent")) == ["SimpleHttp"]
    for name in ("aria2", "qBittorrent"):
        assert refusal(name).endswith(f"{name} saves into a folder, and there is none here; use SimpleHttp")
