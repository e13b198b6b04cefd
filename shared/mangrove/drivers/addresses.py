"""Where the server of a storage is."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from mangrove.core.problems import StorageProblem

_ADDRESS = re.compile(r"(\[[\w:.%]+\]|[^\s:/\\@\[\]]+)(?::([0-9]{1,5}))?")


class Address(NamedTuple):
    """A name or an IP address, and a port."""

    host: str
    port: int


def parse_address(text: str, port: int) -> Address:
    """Of `host`, `host:port`, `IPv6`, `[IPv6]` or `[IPv6]:port`; `port` where it names none. StorageProblem."""
    text = text.strip()
    try:
        ipaddress.IPv6Address(text)
        return Address(text, port)
    except ValueError:
        pass
    found = _ADDRESS.fullmatch(text)
    number = int(found[2] or port) if found else 0
    if found is None or not 0 < number < 65536:
        raise StorageProblem(
            f"address has to be a host name or an IP address, and a port after a colon if it is not {port}"
        )
    return Address(found[1].strip("[]"), number)
