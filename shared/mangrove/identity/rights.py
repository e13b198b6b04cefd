"""Rights as permission bits, and the caller of a route that declares one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag

from mangrove.records.users import User

ADMIN_PERMISSION = 0x71FF
NORMAL, GUEST, ADMIN = 0, 1, 2


class Right(IntFlag):
    """One bit of a user's `permission`, see docs/guides/users-and-permissions.md. Every user has READ."""

    READ = 0
    SEE_HIDDEN = 1 << 0
    SKIP_PASSWORD = 1 << 1
    OFFLINE_DOWNLOAD = 1 << 2
    WRITE = 1 << 3
    RENAME = 1 << 4
    MOVE = 1 << 5
    COPY = 1 << 6
    DELETE = 1 << 7
    WEBDAV_READ = 1 << 8
    WEBDAV_MANAGE = 1 << 9
    FTP_READ = 1 << 10
    FTP_MANAGE = 1 << 11
    READ_ARCHIVES = 1 << 12
    DECOMPRESS = 1 << 13
    SHARE = 1 << 14
    CUSTOM_SHARE_ID = 1 << 15


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request."""

    user: User
    declared_right: Right = Right.READ  # by the route; `tree.access` requires that right and no other
    source: str = field(default="", compare=False)  # the client's address; "" for work without a client

    def has(self, right: Right) -> bool:
        """True if the permission of the user has this right. An administrator has every right."""
        return self.is_admin or self.user.permission & right == right

    @property
    def is_admin(self) -> bool:
        return self.user.role == ADMIN

    @property
    def is_guest(self) -> bool:
        return self.user.role == GUEST
