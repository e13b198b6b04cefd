"""The names of the download tools, and the tools as the settings configure them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.tools.base import DownloadTool

if TYPE_CHECKING:
    from mangrove.net.addresses import AddressPolicy

SIMPLE_HTTP = "SimpleHttp"  # not a DownloadTool: this service downloads itself, see `mangrove.tools.http`
NAMES = (SIMPLE_HTTP, "aria2", "qBittorrent")  # as clients see them, the first one is preselected


class DownloadToolSettings(Protocol):
    """The settings of the download tools, as in `mangrove.configuration.values.Settings`."""

    aria2_uri: str
    aria2_secret: str
    aria2_http: bool
    qbittorrent_url: str
    qbittorrent_seedtime: int
    offline_download_allowed_hosts: str
    offline_download_ready: frozenset[str]


def check_tool_name(name: str) -> str:
    """Return `name` if there is such a tool. Raise Problem otherwise."""
    if name not in NAMES:
        raise Problem(f"failed get offline download tool: tool {name[:100]} not found")
    return name


def make_address_policy(settings: DownloadToolSettings) -> AddressPolicy:
    """Return the addresses that downloads may reach in addition to the public internet."""
    from mangrove.net.addresses import AddressPolicy

    return AddressPolicy.parse(settings.offline_download_allowed_hosts)


def make_tool(name: str, settings: DownloadToolSettings) -> DownloadTool:
    """Return the tool of this name without calling it. Raise Problem if there is none or it cannot be used here."""
    if check_tool_name(name) == SIMPLE_HTTP:
        raise Problem(f"{SIMPLE_HTTP} is not an external program")
    if not platform().has_disk:
        raise Problem(f"{name} saves into a folder, and there is none here; use {SIMPLE_HTTP}")
    policy = make_address_policy(settings)
    if name == "aria2":
        from mangrove.tools.aria2 import Aria2

        return Aria2(settings.aria2_uri, settings.aria2_secret, policy)
    from mangrove.tools.qbittorrent import QBittorrent

    return QBittorrent(settings.qbittorrent_url, settings.qbittorrent_seedtime, policy)


def require_offered(name: str, settings: DownloadToolSettings) -> None:
    """Raise Problem unless the administrator has set this tool up."""
    if name not in list_available_tools(settings):
        raise Problem(f"{name} is not set up here; an administrator can do that in the settings")


def choose_tool(name: str, url: str, settings: DownloadToolSettings) -> str:
    """Return the tool that fetches a normalised URL given to `name`: SimpleHttp for the web addresses that aria2
    gets, unless the administrator assigns them to aria2; torrents stay with it.
    """
    from mangrove.tools.urls import is_web_url, names_torrent

    if name == "aria2" and not settings.aria2_http and is_web_url(url) and not names_torrent(url):
        return SIMPLE_HTTP
    return name


async def connect_tool(name: str, settings: DownloadToolSettings) -> DownloadTool:
    """Return the tool of this name after it answered.

    Raise Problem `failed init offline download tool <name>: <why>`.
    """
    try:
        tool = make_tool(name, settings)
        require_offered(name, settings)
        await tool.get_version()
    except Problem as error:
        if name not in NAMES:
            raise
        raise error.with_prefix(f"failed init offline download tool {name}") from None
    return tool


def list_available_tools(settings: DownloadToolSettings) -> list[str]:
    """Return the available tools: SimpleHttp, and those that answered when they were set up. None is called."""
    ready = settings.offline_download_ready if platform().has_disk else frozenset[str]()
    return [name for name in NAMES if name == SIMPLE_HTTP or name in ready]
