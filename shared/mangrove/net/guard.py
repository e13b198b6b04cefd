"""Which addresses downloads may reach: the public internet, and what the administrator lists.

Every connection is checked when it is made, on the address it is made to. So a redirect, a name that answers
differently the second time and an odd spelling of an address are all covered by the one place.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import cache

import httpcore
import httpx

from mangrove.problems import Denied, Unreachable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CONNECT = 10.0  # seconds until a connection stands
READ = 60.0  # seconds between two pieces of an answer


class ForbiddenAddress(Denied):
    """The address is not one that downloads may reach."""


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part) for part in text.split())


# Not public, by the registries of special-purpose addresses; 168.63.129.16 is the metadata service of a cloud.
_SPECIAL_4 = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
_UNICAST_6 = ipaddress.IPv6Network("2000::/3")  # of IPv6, only this part is given to anybody
_SPECIAL_6 = _networks("2001::/23 2001:db8::/32 2002::/16 3fff::/20")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # an IPv4 address, as a network without IPv4 reaches it
_METADATA = _networks(
    "169.254.0.0/16 fe80::/10 fd00:ec2::/32 100.100.100.200/32 168.63.129.16/32 192.0.0.0/24 fd20:ce::/32"
)
_OWN = _networks("127.0.0.0/8 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 ::1/128 fc00::/7")


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def public(address: Address) -> bool:
    """Whether an address belongs to the public internet."""
    address = _plain(address)
    if isinstance(address, ipaddress.IPv4Address):
        return not _in(address, _SPECIAL_4)
    return address in _UNICAST_6 and not _in(address, _SPECIAL_6)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be reached besides the public internet: host names in lower case, networks; `never` counts first."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    never: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """From host names, addresses and networks, separated by commas, spaces or lines."""
        names: set[str] = set()
        networks: list[Network] = []
        for part in re.split(r"[\s,]+", text):
            try:
                networks.append(ipaddress.ip_network(part.strip("[]"), strict=False))
            except ValueError:
                names.add(part.lower().rstrip("."))
        return cls(frozenset(names - {""}), tuple(networks))

    def permits(self, host: str, address: Address) -> bool:
        """Whether a connection to `host` may be made at `address`."""
        address = _plain(address)
        if _in(address, self.never):
            return False
        return host.lower().rstrip(".") in self.names or _in(address, self.networks) or public(address)


# Where the administrator's own tools listen: also this machine and its neighbours, but never a metadata service.
TOOLS = Allowed(networks=_OWN, never=_METADATA)


async def resolved(host: str, port: int) -> list[Address]:
    """The addresses of a host, in the order to try them; Unreachable when it has none.

    The system's own resolver reads decimal, octal and hexadecimal spellings of an address too.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [ipaddress.ip_address(entry[4][0]) for entry in found]
    except (OSError, UnicodeError, ValueError):
        raise Unreachable(f"the host {host[:100]} was not found") from None


async def check(host: str, port: int, allowed: Allowed) -> None:
    """For a connection that another program will make: Refused unless every address of the host is permitted."""
    try:
        addresses = await asyncio.wait_for(resolved(host, port), CONNECT)
    except TimeoutError:
        raise Unreachable(f"the host {host[:100]} was not found in time") from None
    if not all(allowed.permits(host, address) for address in addresses):
        raise _refusal(host)


def _refusal(host: str) -> ForbiddenAddress:
    return ForbiddenAddress(f"access to {host[:100]} is not allowed")


class _Network(httpcore.AsyncNetworkBackend):
    """Resolves names itself and connects to what it has checked and to nothing else."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._wire = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        end = time.monotonic() + (timeout or CONNECT)
        try:
            addresses = await asyncio.wait_for(resolved(host, port), timeout or CONNECT)
        except TimeoutError:
            raise httpcore.ConnectTimeout("the name was not resolved in time") from None
        permitted = [str(address) for address in addresses if self._allowed.permits(host, address)]
        if not permitted:
            raise _refusal(host)
        for left in range(len(permitted), 0, -1):
            seconds = max((end - time.monotonic()) / left, 0.1)
            try:
                address = permitted[-left]
                return await self._wire.connect_tcp(address, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
        raise AssertionError("permitted has at least one address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise _refusal("a local socket")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@cache
def _tls() -> ssl.SSLContext:
    """Certificates are checked, against the names in the addresses; made once, since it costs some milliseconds."""
    return httpx.create_ssl_context()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._answer.aiter_stream():
            yield block

    async def aclose(self) -> None:
        await self._answer.aclose()


class Guarded(httpx.AsyncBaseTransport):
    """An httpx transport whose every connection is checked. It knows no proxy and raises httpcore's failures."""

    def __init__(self, allowed: Allowed) -> None:
        self._pool = httpcore.AsyncConnectionPool(ssl_context=_tls(), network_backend=_Network(allowed))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


FAILURES = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


def reason(error: Exception) -> str:
    """A failure of the network in words for the user, without anything of ours."""
    if isinstance(error, httpcore.ConnectTimeout | httpx.ConnectTimeout):
        return "no connection within the time allowed"
    if isinstance(error, httpcore.TimeoutException | httpx.TimeoutException):
        return "no answer within the time allowed"
    if isinstance(error.__cause__ or error.__context__, ssl.SSLError) or "certificate" in str(error).lower():
        return "its certificate is not trusted" if "certificate" in str(error).lower() else "no secure connection"
    if isinstance(error, httpcore.ConnectError | httpx.ConnectError):
        return "no connection"
    if isinstance(error, httpcore.UnsupportedProtocol | httpx.InvalidURL | httpx.UnsupportedProtocol):
        return "not an address that can be asked"
    return "the connection broke off"


def client(allowed: Allowed) -> httpx.AsyncClient:
    """A client whose every connection is checked, that follows no redirect and takes nothing from the environment."""
    timeout = httpx.Timeout(READ, connect=CONNECT)
    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "Mangrove"}
    return httpx.AsyncClient(transport=Guarded(allowed), timeout=timeout, trust_env=False, headers=headers)
