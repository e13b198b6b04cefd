"""The options of an SMB storage, and the share and user that they describe."""

from __future__ import annotations

import re
from typing import NamedTuple

from mangrove.core.problems import StorageProblem
from mangrove.drivers.connections import parse_address
from mangrove.drivers.options import TrashOptions, option

PORT = 445


class SMBOptions(TrashOptions):
    root_folder_path: str = option(".", required=True)
    address: str = option(required=True)
    username: str = option(required=True)
    password: str = option(secret=True)
    share_name: str = option(required=True)


class ShareAddress(NamedTuple):
    """A share of a server, and the user who signs in."""

    host: str
    port: int
    username: str
    """The user name; also as `DOMAIN\\user` or `user@domain`."""
    password: str
    share: str

    @property
    def unc(self) -> str:
        """The name of the share in requests to the server."""
        host = f"{self.host.partition('%')[0].replace(':', '-')}.ipv6-literal.net" if ":" in self.host else self.host
        return f"\\\\{host}\\{self.share}"


def parse_share_address(options: SMBOptions) -> ShareAddress:
    """Return the share of a storage. Raise StorageProblem with the name of an invalid option."""
    host, port = parse_address(options.address, PORT)
    share = options.share_name.strip("/\\")
    if not share or re.search(r'[/\\:*?"<>|]', share) or len(share) > 80:
        raise StorageProblem("share_name has to be the name of a share, without a path")
    if not options.username.strip():
        raise StorageProblem("username is required")
    return ShareAddress(host, port, options.username, options.password, share)
