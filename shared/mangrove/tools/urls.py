"""The URLs a tool takes, validated before anything is opened."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

import httpx

from mangrove.core.problems import Problem, Unreachable
from mangrove.net.addresses import AddressPolicy, check_host

MAX_LENGTH = 8192  # bytes
SCHEMES = {
    "SimpleHttp": frozenset({"http", "https"}),
    "aria2": frozenset({"http", "https", "ftp", "sftp", "magnet"}),
    "qBittorrent": frozenset({"http", "https", "magnet"}),
}
PORTS = {"http": 80, "https": 443, "ftp": 21, "sftp": 22}
MAX_SERVERS = 100  # that a torrent names
LOOKUPS = 4  # names of them that are resolved at once
LOOKUP_TIMEOUT = 3.0  # seconds
_SERVER_KEYS = ("tr", "ws", "xs", "as")  # of a magnet link: trackers and other sources
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_TOPIC = re.compile(r"urn:bt(ih|mh):[A-Za-z0-9]{32,80}", re.IGNORECASE)


class InvalidUrl(Problem):
    """A URL that cannot be downloaded; the message says why."""


class NoUrl(InvalidUrl):
    """A text that is no URL at all."""

    code = 400
    text = "this is no address"


def normalize_url(url: str, tool: str) -> str:
    """`url` in the spelling in which it is opened, if `tool` takes it; InvalidUrl otherwise. Makes no connection."""
    url = url.strip(" \t\r\n")
    scheme = _parse_scheme(url, tool)
    if len(url.encode(errors="replace")) > MAX_LENGTH:
        raise InvalidUrl(f"the address is longer than {MAX_LENGTH} bytes")
    if _has_ambiguous_characters(url):
        raise InvalidUrl("the address has a character that no address has")
    return _normalize_magnet(url) if scheme == "magnet" else _normalize_location(url)


def _has_ambiguous_characters(url: str) -> bool:
    """Return True if a character in it is read differently by different programs."""
    return not url.isprintable() or " " in url or "\\" in url


def _parse_scheme(url: str, tool: str) -> str:
    """The scheme of `url`; InvalidUrl unless `tool` takes it."""
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else ""
    if scheme in SCHEMES[tool]:
        return scheme
    if tool == "SimpleHttp":
        raise InvalidUrl(
            "SimpleHttp tool does not support this URL scheme, please use aria2 or other tools for magnet/ed2k links"
        )
    if scheme == "ed2k":
        raise InvalidUrl(
            f"ed2k protocol is not supported by {tool}. "
            "Please configure and use Thunder/ThunderX/ThunderBrowser for ed2k links"
        )
    raise InvalidUrl(
        f"{tool} does not take addresses that begin with {scheme[:20]}:" if scheme else "this is no address"
    )


def _normalize_magnet(url: str) -> str:
    try:
        parameters = parse_qsl(url.partition("?")[2], max_num_fields=500)
    except ValueError:
        raise InvalidUrl("the magnet link says too much") from None
    if not any(key.lower().partition(".")[0] == "xt" and _TOPIC.fullmatch(topic) for key, topic in parameters):
        raise InvalidUrl("the magnet link names no torrent")
    return "magnet:" + url.partition(":")[2]


def _normalize_location(url: str) -> str:
    try:
        parts = httpx.URL(url)
        _ = parts.host  # decoded where it is asked for: the name may be none
    except (httpx.InvalidURL, ValueError):
        raise NoUrl from None
    if not _HOST.fullmatch(parts.raw_host.decode()):
        raise NoUrl("the address names no host")
    if parts.port is not None and not 0 < parts.port < 65536:
        raise NoUrl("the address names no port that there is")
    if parts.userinfo or "@" in parts.netloc.decode():
        raise InvalidUrl("an address with a user or a password in it is not taken")
    return str(parts.copy_with(fragment=None))


def is_web_url(url: str) -> bool:
    """Return True if a normalised URL is one of http or https."""
    return url.startswith(("http://", "https://"))


def names_torrent(url: str) -> bool:
    """Return True if a normalised URL of http or https ends as those of torrent files do."""
    return is_web_url(url) and httpx.URL(url).path.lower().endswith(".torrent")


async def check_url_hosts(url: str, policy: AddressPolicy) -> None:
    """ForbiddenAddress unless the hosts of a normalised URL may be reached: for URLs that another program opens.

    The hosts of a magnet link are the servers it names; one that cannot be resolved does no harm.
    """
    if not url.startswith("magnet:"):
        parts = httpx.URL(url)
        await check_host(parts.raw_host.decode(), parts.port or PORTS[parts.scheme], policy)
        return
    parameters = parse_qsl(url.partition("?")[2])
    servers = [value for key, value in parameters if key.lower().partition(".")[0] in _SERVER_KEYS]
    servers += [f"udp://{peer}" for key, peer in parameters if key.lower() == "x.pe"]
    await check_servers(servers, policy)


async def check_servers(servers: Sequence[str], policy: AddressPolicy) -> None:
    """ForbiddenAddress unless the trackers and other servers of a torrent may be reached.

    One whose name leads nowhere does no harm.
    """
    if len(servers) > MAX_SERVERS:
        raise InvalidUrl(f"the torrent names more than {MAX_SERVERS} servers")
    limit = asyncio.Semaphore(LOOKUPS)  # fewer than there are threads for it, so that none has to wait for others

    async def check(url: str) -> None:
        async with limit:
            await _check_server(url, policy)

    await asyncio.gather(*(check(server) for server in servers))


async def _check_server(url: str, policy: AddressPolicy) -> None:
    try:
        parts = httpx.URL(url)
        if not parts.raw_host and "//" not in url:
            return  # the name of other content, not a server
    except (httpx.InvalidURL, ValueError):
        raise InvalidUrl("the torrent names a server that is none") from None
    if not _HOST.fullmatch(parts.raw_host.decode()) or _has_ambiguous_characters(url):
        raise InvalidUrl("the torrent names a server that is none")
    try:
        await check_host(parts.raw_host.decode(), parts.port or 80, policy, LOOKUP_TIMEOUT)
    except Unreachable:
        pass  # many torrents name servers that no longer exist
