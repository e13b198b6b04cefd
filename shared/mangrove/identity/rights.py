"""Rights as permission bits, and the caller of a route that declares one of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import IntFlag

from mangrove.core.paths import TreePath
from mangrove.core.problems import Unauthorized
from mangrove.identity.scopes import TokenScope
from mangrove.records.groups import GroupPermissions
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


CHANGES = (
    Right.OFFLINE_DOWNLOAD | Right.WRITE | Right.RENAME | Right.MOVE | Right.COPY | Right.DELETE | Right.WEBDAV_MANAGE
    | Right.FTP_MANAGE | Right.DECOMPRESS | Right.SHARE | Right.CUSTOM_SHARE_ID
)  # fmt: skip
"""The rights that a token for reading does not have."""
_CHANGES_BITS = int(CHANGES)


SHARE_VISITOR = User(id=0, username="", password_hash="", role=GUEST, disabled=True, allow_ldap=False)
"""The user of a request without a token while the guest is disabled: only share links are open."""


class GuestDisabled(Unauthorized):
    """A request without a token, for more than a share link, while the guest is disabled."""

    text = "Guest user is disabled, login please"


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request, with the scope of its token and the permissions of the user's groups.

    `tree.callers.make_caller` makes one from the configuration.
    """

    user: User
    declared_right: Right = Right.READ  # declared by the route; `tree.access` requires exactly this right
    source: str = field(default="", compare=False)  # the client's address; "" for work without a client
    scope: TokenScope | None = None  # None for a session, which has all rights of its user
    groups: GroupPermissions | None = None  # None for a user without groups

    def has(self, right: Right, path: TreePath | None = None) -> bool:
        """True if the user, or the user's groups at the path, have this right, and the scope allows it.

        An administrator has every right. Without a path, permissions for folders do not count.
        """
        bits = int(right)  # as flags, each operation costs as much as this function
        if bits & _CHANGES_BITS and not self.may_change:
            return False
        permission = self.user.permission
        if self.groups is not None:
            permission |= self.groups.find(path)
        return self.user.role == ADMIN or permission & bits == bits

    def is_named(self, user_ids: Collection[int] | None, group_ids: Collection[int] | None) -> bool:
        """True if the user is among the users, or a member of one of the groups."""
        if user_ids and self.user.id in user_ids:
            return True
        return bool(group_ids) and self.groups is not None and not self.groups.group_ids.isdisjoint(group_ids or ())

    @property
    def names_key(self) -> Hashable:
        """A value that is equal for callers that lists of users and groups do not distinguish."""
        return self.user.id, None if self.groups is None else self.groups.group_ids

    @property
    def base(self) -> TreePath:
        """The root of the caller: the base path of the user, or the folder of the token below it."""
        base = TreePath(self.user.base_path)
        return base if self.scope is None else base / self.scope.folder

    @property
    def permission(self) -> int:
        """The permission of the user and the groups for the whole tree, as bits, within the scope.

        For an administrator it is the stored number.
        """
        permission = self.user.permission
        if self.groups is not None and self.user.role != ADMIN:
            permission |= self.groups.permission
        return permission if self.may_change else permission & ~CHANGES

    @property
    def rights_key(self) -> Hashable:
        """A value that is equal for callers with the same rights."""
        return self.user.id, self.user.role, self.user.permission, self.scope, self.groups

    @property
    def may_read(self) -> bool:
        """True unless the scope is for writing alone."""
        return self.scope is None or self.scope.may_read

    @property
    def may_change(self) -> bool:
        """True unless the scope is for reading alone."""
        return self.scope is None or self.scope.may_change

    @property
    def token_id(self) -> int:
        """The id of the token, 0 for a session."""
        return 0 if self.scope is None else self.scope.token_id

    @property
    def is_admin(self) -> bool:
        """True for an administrator, and for a token of an administrator that is for administration."""
        return self.user.role == ADMIN and (self.scope is None or self.scope.is_administrative)

    @property
    def is_guest(self) -> bool:
        return self.user.role == GUEST
