"""Where requests come from, as far as one can be told from another by the address."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address, ip_network

NETWORK_BITS = 64  # of an IPv6 address; whoever has one address there has all of them
MAX_LENGTH = 256  # characters of a text that is no address
_WITH_PORT = re.compile(r"\[(.+)\](?::\d+)?|([^:]+):\d+")  # as some proxies write an address


def find_source(address: str) -> str:
    """Who stands behind an address: an IPv4 address is one, of IPv6 everybody has a network. Other texts stay."""
    match = _WITH_PORT.fullmatch(address)
    text = (match[1] or match[2]) if match else address
    try:
        parsed = ip_address(text.partition("%")[0])
    except ValueError:
        return address[:MAX_LENGTH]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else str(ip_network((parsed, NETWORK_BITS), strict=False))
