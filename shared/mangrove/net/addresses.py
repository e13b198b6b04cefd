"""The addresses that outgoing connections may reach: the public internet, and those that the administrator allows.

A policy is checked on the resolved address, so that an odd spelling of an address or a name with several answers cannot
bypass it. `mangrove.net.client` does so for every connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mangrove.core.problems import AccessDenied, Unreachable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RESOLVE_TIMEOUT = 10.0  # seconds


class ForbiddenAddress(AccessDenied):
    """The policy does not permit a connection to this host."""

    @classmethod
    def for_host(cls, host: str) -> ForbiddenAddress:
        return cls(f"access to {host[:100]} is not allowed")


def _parse_networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part) for part in text.split())


# Not public, by the registries of special-purpose addresses; 168.63.129.16 is the metadata service of a cloud.
_SPECIAL_V4 = _parse_networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
_GLOBAL_UNICAST_V6 = ipaddress.IPv6Network("2000::/3")  # the only assigned part of IPv6
_SPECIAL_V6 = _parse_networks("2001::/23 2001:db8::/32 2002::/16 3fff::/20")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # IPv4 addresses as seen from a network without IPv4
_METADATA = _parse_networks(
    "169.254.0.0/16 fe80::/10 fd00:ec2::/32 100.100.100.200/32 168.63.129.16/32 192.0.0.0/24 fd20:ce::/32"
)
_PRIVATE = _parse_networks("127.0.0.0/8 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 ::1/128 fc00::/7")


def _unmap(address: Address) -> Address:
    """Return the IPv4 address in an IPv6 address, None if it has none."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def is_public(address: Address) -> bool:
    """True if an address belongs to the public internet."""
    address = _unmap(address)
    if isinstance(address, ipaddress.IPv4Address):
        return not _is_in(address, _SPECIAL_V4)
    return address in _GLOBAL_UNICAST_V6 and not _is_in(address, _SPECIAL_V6)


def check_policy_text(text: str) -> None:
    """Raise ValueError unless every part of a text for `AddressPolicy.parse` is an address, a network or a host
    name.
    """
    for part in filter(None, re.split(r"[\s,]+", text)):
        if ":" in part or "/" in part:
            ipaddress.ip_network(part.strip("[]"), strict=False)
        elif not re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", part):
            raise ValueError(f"not a host: {part[:40]}")


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """The permitted targets in addition to the public internet: host names in lower case, and networks.

    `blocked` wins over both.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    blocked: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AddressPolicy:
        """Return the policy for host names, addresses and networks, separated by commas, spaces or lines."""
        names: set[str] = set()
        networks: list[Network] = []
        for part in re.split(r"[\s,]+", text):
            try:
                networks.append(ipaddress.ip_network(part.strip("[]"), strict=False))
            except ValueError:
                names.add(part.lower().rstrip("."))
        return cls(frozenset(names - {""}), tuple(networks))

    @classmethod
    def for_host(cls, host: str) -> AddressPolicy:
        """Return the policy for one server that the administrator named: any address of its name except metadata
        services.
        """
        return replace(cls.parse(host), blocked=_METADATA)

    def permits(self, host: str, address: Address) -> bool:
        """True if a connection to `host` may be made at `address`.

        A name that is allowed may have any address except those of metadata services: the owner of the name decides.
        """
        address = _unmap(address)
        if _is_in(address, self.blocked):
            return False
        if _is_in(address, self.networks) or is_public(address):
            return True
        return host.lower().rstrip(".") in self.names and not _is_in(address, _METADATA)


# For programs that the administrator runs: also this machine and private networks, but never a metadata service.
LOCAL_POLICY = AddressPolicy(networks=_PRIVATE, blocked=_METADATA)


async def resolve_host(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, in the order to try them. Raise Unreachable if it has none.

    The system's resolver also reads decimal, octal and hexadecimal spellings of an address.
    """
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [ipaddress.ip_address(entry[4][0]) for entry in entries]
    except (OSError, UnicodeError, ValueError):
        raise Unreachable(f"the host {host[:100]} was not found") from None


async def check_host(host: str, port: int, policy: AddressPolicy, timeout: float = RESOLVE_TIMEOUT) -> None:
    """Raise ForbiddenAddress unless every address of the host is permitted: for connections that another program
    makes.
    """
    try:
        addresses = await asyncio.wait_for(resolve_host(host, port), timeout)
    except TimeoutError:
        raise Unreachable(f"the host {host[:100]} was not found in time") from None
    if not all(policy.permits(host, address) for address in addresses):
        raise ForbiddenAddress.for_host(host)
