"""The scope of a token: the part of its owner's rights that a program has.

A token has the current rights of its owner, restricted to its folder, mode, protocols and time, on the routes that
accept tokens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, Unauthorized
from mangrove.records.credentials import AppPassword


class TokenProtocol(StrEnum):
    """A protocol that a token may be used with."""

    API = "api"
    WEBDAV = "webdav"
    SFTP = "sftp"
    MCP = "mcp"


class TokenMode(StrEnum):
    """The access of a token to files."""

    READ = "read"
    WRITE = "write"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class TokenScope:
    """The scope of a token."""

    token_id: int
    folder: TreePath
    """The root of the token, below the base path of its owner."""
    mode: TokenMode
    protocols: frozenset[TokenProtocol]
    is_administrative: bool = False
    """The token may use the routes of administrators, if its owner may."""
    expires: int = 0
    """In seconds since the epoch; 0 for no end."""

    @property
    def may_read(self) -> bool:
        return self.mode is not TokenMode.WRITE

    @property
    def may_change(self) -> bool:
        return self.mode is not TokenMode.READ

    @property
    def is_expired(self) -> bool:
        return 0 < self.expires <= time.time()

    def require(self, protocol: TokenProtocol) -> None:
        """Raise Unauthorized if the token has expired, AccessDenied if it is not for the protocol."""
        if self.is_expired:
            raise Unauthorized("token is expired")
        if protocol not in self.protocols:
            raise AccessDenied(f"this token is not for {protocol.value}")


def make_scope(token: AppPassword) -> TokenScope:
    """Return the scope of a stored token."""
    return TokenScope(
        token.id,
        TreePath(token.folder),
        TokenMode(token.mode),
        frozenset(map(TokenProtocol, token.protocols.split(","))),
        bool(token.is_administrative),
        int(token.expires),
    )
