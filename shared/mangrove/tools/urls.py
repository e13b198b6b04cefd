"""The addresses a tool takes, checked before anything is opened."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import parse_qsl

import httpx

from mangrove.net.guard import Allowed, check
from mangrove.problems import Problem, Unreachable

LONGEST = 8192  # bytes
SCHEMES = {
    "SimpleHttp": frozenset({"http", "https"}),
    "aria2": frozenset({"http", "https", "ftp", "sftp", "magnet"}),
    "qBittorrent": frozenset({"http", "https", "magnet"}),
}
PORTS = {"http": 80, "https": 443, "ftp": 21, "sftp": 22}
MOST_SERVERS = 100
_SERVERS = ("tr", "ws", "xs", "as")  # of a magnet link: trackers, and where else its content is
_scheme = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_host = re.compile(r"[A-Za-z0-9._:-]+")
_topic = re.compile(r"urn:bt(ih|mh):[A-Za-z0-9]{32,80}", re.IGNORECASE)


class BadAddress(Problem):
    """An address that cannot be downloaded from; the message says why."""


def checked(url: str, tool: str) -> str:
    """`url` in the one spelling in which it will be opened, if `tool` may try it; BadAddress otherwise.

    Nothing is asked of the network.
    """
    url = url.strip(" \t\r\n")
    scheme = _fitting(url, tool)
    if len(url.encode(errors="replace")) > LONGEST:
        raise BadAddress(f"the address is longer than {LONGEST} bytes")
    if _odd(url):
        raise BadAddress("the address has a character that no address has")
    return _magnet(url) if scheme == "magnet" else _located(url)


def _odd(url: str) -> bool:
    """Whether there is a letter in it that programs read differently."""
    return not url.isprintable() or " " in url or "\\" in url


def _fitting(url: str, tool: str) -> str:
    """The scheme of `url`, which `tool` knows."""
    found = _scheme.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in SCHEMES[tool]:
        return scheme
    if tool == "SimpleHttp":
        raise BadAddress(
            "SimpleHttp tool does not support this URL scheme, please use aria2 or other tools for magnet/ed2k links"
        )
    if scheme == "ed2k":
        raise BadAddress(
            f"ed2k protocol is not supported by {tool}. "
            "Please configure and use Thunder/ThunderX/ThunderBrowser for ed2k links"
        )
    raise BadAddress(
        f"{tool} does not take addresses that begin with {scheme[:20]}:" if scheme else "this is no address"
    )


def _magnet(url: str) -> str:
    try:
        said = parse_qsl(url.partition("?")[2], max_num_fields=500)
    except ValueError:
        raise BadAddress("the magnet link says too much") from None
    if not any(key.lower().partition(".")[0] == "xt" and _topic.fullmatch(topic) for key, topic in said):
        raise BadAddress("the magnet link names no torrent")
    return "magnet:" + url.partition(":")[2]


def _located(url: str) -> str:
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise BadAddress("this is no address") from None
    if not _host.fullmatch(parts.raw_host.decode()):
        raise BadAddress("the address names no host")
    if parts.port is not None and not 0 < parts.port < 65536:
        raise BadAddress("the address names no port that there is")
    if parts.userinfo or "@" in parts.netloc.decode():
        raise BadAddress("an address with a user or a password in it is not taken")
    return str(parts.copy_with(fragment=None))


async def reachable(url: str, allowed: Allowed) -> None:
    """For a checked address that another program will open: Refused unless its host may be reached.

    Of a magnet link, the servers it names must be ones that may be reached, as far as they are there.
    """
    if not url.startswith("magnet:"):
        parts = httpx.URL(url)
        await check(parts.raw_host.decode(), parts.port or PORTS[parts.scheme], allowed)
        return
    named = parse_qsl(url.partition("?")[2])
    servers = [one for key, one in named if key.lower().partition(".")[0] in _SERVERS]
    servers += [f"udp://{peer}" for key, peer in named if key.lower() == "x.pe"]
    if len(servers) > MOST_SERVERS:
        raise BadAddress(f"the magnet link names more than {MOST_SERVERS} servers")
    await asyncio.gather(*(_server_reachable(server, allowed) for server in servers))


async def _server_reachable(url: str, allowed: Allowed) -> None:
    try:
        parts = httpx.URL(url)
        if not parts.host and "//" not in url:
            return  # the name of another content
    except (httpx.InvalidURL, ValueError):
        raise BadAddress("the magnet link names a server that is none") from None
    if not _host.fullmatch(parts.raw_host.decode()) or _odd(url):
        raise BadAddress("the magnet link names a server that is none")
    try:
        await check(parts.raw_host.decode(), parts.port or 80, allowed)
    except Unreachable:
        pass  # many a magnet link names a server that is gone
