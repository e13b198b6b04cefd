"""Locks as they bind WebDAV clients: what a request may change in spite of them, and under which conditions it asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from secrets import token_hex
from urllib.parse import urlsplit
from uuid import UUID

from mangrove.core.paths import TreePath
from mangrove.core.problems import Denied, NotFound, Problem
from mangrove.identity.rights import Right
from mangrove.protocols.webdav.bodies import LockRequest
from mangrove.protocols.webdav.conditions import ConditionList, find_tokens
from mangrove.protocols.webdav.errors import DavProblem, LockedResource, PreconditionFailed
from mangrove.protocols.webdav.headers import decode_path, strip_root
from mangrove.protocols.webdav.multistatus import make_href
from mangrove.records.files import locks
from mangrove.records.files.locks import Lock, Locked
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a request says in its header If. `prefix`: the address of the caller's root, without a slash at its end."""

    lists: Sequence[ConditionList]
    prefix: str

    @property
    def tokens(self) -> frozenset[str]:
        """The tokens that were sent."""
        return find_tokens(self.lists)

    async def require(self, access: PathAccess) -> None:
        """PreconditionFailed unless one of the lists holds."""
        if not self.lists:
            return
        for part in self.lists:
            if await self._holds(part, access):
                return
        raise PreconditionFailed

    async def _holds(self, part: ConditionList, access: PathAccess) -> bool:
        if part.resource:
            other = self._resolve(part.resource, access)
            if other is None:
                return False
            access = other
        etag = await _find_etag(access) if any(one.is_etag for one in part.conditions) else ""
        found = await asyncio.to_thread(locks.find_covering, access.path)
        tokens = {lock.token for lock in found if lock.user_id == access.caller.user.id}
        return all(
            ((one.value == etag if one.is_etag else one.value in tokens) != one.is_negated) for one in part.conditions
        )

    def _resolve(self, resource: str, access: PathAccess) -> PathAccess | None:
        """The path of another resource; None for one that is not here."""
        try:
            path = strip_root(urlsplit(resource).path, self.prefix.removesuffix("/dav"))
            return None if path is None else access.with_path(access.base / decode_path(path.encode()))
        except (Problem, ValueError):
            return None


async def _find_etag(access: PathAccess) -> str:
    if not access.may_read():
        return ""
    try:
        entry = await entries.stat(access)
    except NotFound:
        return ""
    return "" if entry.is_dir else entries.format_etag(entry)


async def require_unlocked(conditions: Conditions, *wanted: PathAccess, is_deep: bool = False) -> list[Lock]:
    """The locks on paths that are to be changed, `is_deep`: and below them; LockedResource unless the token of each was
    sent by whose it is."""
    found: dict[str, Lock] = {}
    for access in wanted:
        held = await asyncio.to_thread(locks.find_covering, access.path)
        if is_deep:
            held += await asyncio.to_thread(locks.find_below, access.path)
        tokens = conditions.tokens
        own = {lock.token for lock in held if lock.token in tokens and lock.user_id == access.caller.user.id}
        for path in {lock.path for lock in held}:
            here = [lock for lock in held if lock.path == path]
            if not any(lock.token in own for lock in here):  # of shared ones, one of them is enough
                raise LockedResource(_make_href(conditions.prefix, access, path))
        found |= {lock.token: lock for lock in held}
    return list(found.values())


def _make_href(prefix: str, access: PathAccess, path: str) -> str:
    """The address of a locked path; "" for one above what the caller may see."""
    place = TreePath(path)
    return make_href(prefix, str(place.below(access.base)), False) if place.within(access.base) else ""


async def forget(path: TreePath, held: Collection[Lock]) -> None:
    """Drop the locks on what is gone: on the path itself and what was below it."""
    gone = [lock for lock in held if TreePath(lock.path).within(path)]
    if gone:
        await asyncio.to_thread(locks.remove, gone)


def require_writer(access: PathAccess) -> None:
    """Denied unless the caller may change what is at a path."""
    (access if access.path == access.base else access.parent).require(Right.WRITE)
    if not access.may_write():
        raise Denied


async def take(access: PathAccess, wish: LockRequest, is_deep: bool, seconds: int, prefix: str) -> Lock:
    """A new lock on a path; LockedResource where another one excludes it."""
    require_writer(access)
    token = UUID(token_hex(16), version=4).urn
    user_id, expires = access.caller.user.id, time.time() + seconds
    lock = Lock(token, str(access.path), wish.is_exclusive, is_deep, wish.owner, user_id, expires)
    try:
        await asyncio.to_thread(locks.take, lock)
    except Locked as locked:
        raise LockedResource(_make_href(prefix, access, locked.path), "no-conflicting-lock") from None
    return lock


async def refresh(access: PathAccess, conditions: Conditions, seconds: int) -> Lock:
    """Let the lock whose token was sent last longer; PreconditionFailed where there is none."""
    tokens = conditions.tokens
    for lock in await asyncio.to_thread(locks.find_covering, access.path):
        expires = time.time() + seconds
        is_own = lock.token in tokens and lock.user_id == access.caller.user.id
        if is_own and await asyncio.to_thread(locks.refresh, lock, expires):
            return Lock(
                lock.token, lock.path, lock.is_exclusive, lock.is_deep, lock.owner, lock.user_id, expires
            )  # fmt: skip
    raise PreconditionFailed("there is no such lock")


async def release(access: PathAccess, token: str) -> None:
    """Give up a lock that covers the path; 409 where none has that token, Denied where it is somebody else's."""
    for lock in await asyncio.to_thread(locks.find_covering, access.path):
        if lock.token == token:
            if lock.user_id != access.caller.user.id:
                raise Denied("this lock is somebody else's")
            await asyncio.to_thread(locks.release, lock)
            return
    raise DavProblem(409, "there is no such lock here", "lock-token-matches-request-uri")
