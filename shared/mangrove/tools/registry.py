"""The names of the download tools, and the tools as the settings describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mangrove.config import config
from mangrove.problems import Problem
from mangrove.tools.base import Tool

if TYPE_CHECKING:
    from mangrove.net.guard import Allowed

SIMPLE_HTTP = "SimpleHttp"  # is no Tool: this service fetches by itself, see `mangrove.tools.http`
NAMES = (SIMPLE_HTTP, "aria2", "qBittorrent")  # as clients see them, the first one is preselected


def known(name: str) -> str:
    """`name` if there is such a tool; Problem otherwise."""
    if name not in NAMES:
        raise Problem(f"failed get offline download tool: tool {name[:100]} not found")
    return name


def allowed(settings: Mapping[str, str]) -> Allowed:
    """Where downloads may go besides the public internet."""
    from mangrove.net.guard import Allowed

    return Allowed.parse(settings["offline_download_allowed_hosts"])


def tool(name: str, settings: Mapping[str, str]) -> Tool:
    """The program behind a name, not asked yet; Problem when there is none or it cannot be used here."""
    if known(name) == SIMPLE_HTTP:
        raise Problem(f"{SIMPLE_HTTP} is no program of its own")
    if not config().on_one_machine:
        raise Problem(f"{name} saves into a folder, and there is none here; use {SIMPLE_HTTP}")
    return _made(name, settings)


def _made(name: str, settings: Mapping[str, str]) -> Tool:
    if name == "aria2":
        from mangrove.tools.aria2 import Aria2

        return Aria2(settings["aria2_uri"], settings["aria2_secret"], allowed(settings))
    from mangrove.tools.qbittorrent import QBittorrent

    return QBittorrent(settings["qbittorrent_url"], int(settings["qbittorrent_seedtime"] or 0), allowed(settings))


async def opened(name: str, settings: Mapping[str, str]) -> Tool:
    """The program behind a name, which answers; Problem `failed init offline download tool <name>: <why>`."""
    try:
        found = tool(name, settings)
        await found.version()
    except Problem as error:
        if name not in NAMES:
            raise
        raise error.with_prefix(f"failed init offline download tool {name}") from None
    return found


def offered(settings: Mapping[str, str]) -> list[str]:
    """The tools that can be chosen: SimpleHttp, and those that answered when they were set up. Asks nobody."""
    ready = settings["offline_download_ready"].split(",") if config().on_one_machine else []
    return [name for name in NAMES if name == SIMPLE_HTTP or name in ready]
