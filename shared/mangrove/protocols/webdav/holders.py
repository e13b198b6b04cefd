"""The users of locks. A lock binds while its user may write there."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.configuration import users
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, Problem
from mangrove.identity.rights import Caller, Right
from mangrove.protocols.webdav.locked_files import ROOT
from mangrove.records.users import User
from mangrove.records.webdav_locks import Lock
from mangrove.tree.access import PathAccess

WEBDAV = Right.WEBDAV_READ | Right.WEBDAV_MANAGE


def require_writer(access: PathAccess) -> None:
    """Raise AccessDenied unless the caller may change what is at a path."""
    (access if access.path == access.base else access.parent).require(Right.WRITE)
    if not access.may_write():
        raise AccessDenied


def may_change(access: PathAccess) -> bool:
    """Return whether the caller may change what is at a path."""
    try:
        require_writer(access)
    except AccessDenied:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Holders:
    """The users of locks as they are now, each read once."""

    access: PathAccess  # of somebody else: with the rules and mounts that hold now
    _users: dict[int, User | None] = field(default_factory=dict)

    async def find_access(self, lock: Lock, rest: TreePath = ROOT) -> PathAccess | None:
        """Return the access of a lock's user to the locked path, or to `rest` below it; None without the account, the
        right to write by WebDAV, or the path in what the account may reach."""
        if lock.user_id not in self._users:
            self._users[lock.user_id] = await users.find_by_id(lock.user_id)
        user = self._users[lock.user_id]
        if user is None or user.disabled or not Caller(user).has(WEBDAV):
            return None
        try:
            path = TreePath(lock.path) / rest
            if not path.within(TreePath(user.base_path)):
                return None
            here = self.access
            return PathAccess.make(Caller(user, Right.WRITE), path, "", here.settings, here.rules, here.table)
        except Problem:
            return None  # the path leads nowhere any more

    async def binds(self, lock: Lock, rest: TreePath = ROOT) -> bool:
        """Return whether the lock's user may write at the locked path, or at `rest` below it."""
        access = await self.find_access(lock, rest)
        return access is not None and may_change(access)
