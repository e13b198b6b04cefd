"""The effect of locks on WebDAV requests, and the conditions of requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from urllib.parse import urlsplit
from uuid import UUID

from mangrove.configuration import users
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, EntryNotFound, Problem
from mangrove.identity.rights import Right
from mangrove.protocols.webdav.bodies import LockRequest
from mangrove.protocols.webdav.errors import DavProblem, LockedResource, PreconditionFailed
from mangrove.protocols.webdav.headers import ConditionList, decode_path, find_tokens, make_href, strip_root
from mangrove.protocols.webdav.locked_files import ROOT, CoveringFile, FileLocator
from mangrove.records import webdav_locks
from mangrove.records.users import User
from mangrove.records.webdav_locks import MAX_FILES_PER_LOCK, Lock, LockConflict
from mangrove.tree import callers
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries

LOCKS_PER_BREATH = 100  # evaluated before other requests get a turn


@dataclass(frozen=True, slots=True)
class PathLock:
    """A lock that concerns a path."""

    lock: Lock
    path: TreePath | None  # its path in the caller's tree; None if the caller does not see it there
    rest: TreePath = ROOT  # the requested path, relative to the lock
    is_above: bool = False  # it is on a folder above


@dataclass(frozen=True, slots=True)
class Conditions:
    """The header If of a request."""

    lists: Sequence[ConditionList]
    prefix: str  # the address of the caller's root, without a trailing slash

    @property
    def tokens(self) -> frozenset[str]:
        """The submitted tokens."""
        return find_tokens(self.lists)

    async def require(self, access: PathAccess) -> None:
        """Raise PreconditionFailed unless one of the lists is true."""
        if not self.lists:
            return
        states: dict[TreePath, _ResourceState] = {}
        for part in self.lists:
            if await self._holds(part, access, states):
                return
        raise PreconditionFailed

    async def _holds(self, part: ConditionList, access: PathAccess, states: dict[TreePath, _ResourceState]) -> bool:
        if part.resource:
            other = self._resolve(part.resource, access)
            if other is None:
                return False
            access = other
        if access.path not in states:
            states[access.path] = await _read_state(access)
        state = states[access.path]
        return all(
            ((condition.value == state.etag if condition.is_etag else condition.value in state.tokens)
             != condition.is_negated)
            for condition in part.conditions
        )  # fmt: skip

    def _resolve(self, resource: str, access: PathAccess) -> PathAccess | None:
        """Return the path of another resource, None if it is not on this server."""
        try:
            path = strip_root(urlsplit(resource).path, self.prefix.removesuffix("/dav"))
            return None if path is None else access.with_path(access.base / decode_path(path.encode()))
        except (Problem, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class _ResourceState:
    """Return the values that conditions compare: the validator of a file, and the caller's tokens on it."""

    etag: str
    tokens: frozenset[str]


async def _read_state(access: PathAccess) -> _ResourceState:
    own = [held.lock for held in await find_covering(access) if held.lock.user_id == access.caller.user.id]
    return _ResourceState(await _find_etag(access), frozenset(lock.token for lock in own))


async def _find_etag(access: PathAccess) -> str:
    if not access.may_read():
        return ""
    try:
        entry = await entries.stat(access)
    except EntryNotFound:
        return ""
    return "" if entry.is_dir else entries.format_etag(entry)


async def find_covering(access: PathAccess) -> list[PathLock]:
    """Return the locks that apply at a path: its own, and those of infinite depth on folders above it."""
    covering = await _read_covering(access)
    return await _select_binding(covering, Holders(access))


async def is_nothing_locked() -> bool:
    """Return True if no file at all has a lock."""
    return webdav_locks.ALL_LOCKS.is_known_empty() or await asyncio.to_thread(webdav_locks.ALL_LOCKS.is_empty)


async def _read_covering(access: PathAccess) -> list[PathLock]:
    if await is_nothing_locked():
        return []
    files = {each.file: each for each in await FileLocator(access.tree.table).find_covering(access.path)}
    locks_by_file = await asyncio.to_thread(webdav_locks.read, files)
    covering = [_make_path_lock(lock, files[file]) for file, held in locks_by_file.items() for lock in held]
    return [held for held in covering if held.lock.is_deep or not held.is_above]


def _make_path_lock(lock: Lock, file: CoveringFile) -> PathLock:
    return PathLock(lock, file.path, file.rest, file.rest != "/")


async def _find_below(access: PathAccess) -> list[PathLock]:
    below: list[PathLock] = []
    if await is_nothing_locked():
        return below
    for folder in await FileLocator(access.tree.table).find_folders(access.path):
        deeper = await asyncio.to_thread(webdav_locks.find_below, folder.file)
        if folder.is_mount:
            deeper += (await asyncio.to_thread(webdav_locks.read, [folder.file])).get(folder.file, [])
        below += [PathLock(lock, folder.path / TreePath(lock.file[1]).below(folder.file.path)) for lock in deeper]
    return await _select_binding(below, Holders(access))


async def find_on_entries(access: PathAccess) -> dict[str, list[PathLock]]:
    """Return the locks that apply to the entries of a folder, by name."""
    candidates: list[PathLock] = []
    if await is_nothing_locked():
        return {}
    for folder in await FileLocator(access.tree.table).find_files(access.path):
        for lock in await asyncio.to_thread(webdav_locks.find_entries, folder):
            candidates.append(PathLock(lock, access.path / TreePath(lock.file[1]).name))
    by_name: dict[str, list[PathLock]] = {}
    for held in await _select_binding(candidates, Holders(access)):
        assert held.path is not None
        by_name.setdefault(held.path.name, []).append(held)
    return by_name


async def _select_binding(candidates: Sequence[PathLock], holders: Holders) -> list[PathLock]:
    """Return the valid locks. Remove those whose user can no longer write at their own path."""
    binding: list[PathLock] = []
    for number, held in enumerate(candidates, 1):
        if await holders.binds(held.lock, held.rest):
            binding.append(held)
        elif held.rest == "/" or not await holders.binds(held.lock):
            await asyncio.to_thread(webdav_locks.release, held.lock)
        if not number % LOCKS_PER_BREATH:
            await asyncio.sleep(0)
    return binding


async def require_unlocked(conditions: Conditions, *accesses: PathAccess, is_deep: bool = False) -> list[Lock]:
    """Return the locks on paths that are to be changed, with `is_deep` also those below.

    Raise LockedResource unless the user of each sent its token.
    """
    if await is_nothing_locked():
        return []
    own_locks: dict[str, Lock] = {}
    for access in accesses:
        candidates = await find_covering(access)
        if is_deep:
            candidates += await _find_below(access)
        tokens = conditions.tokens
        own = {
            held.lock.token
            for held in candidates
            if held.lock.token in tokens and held.lock.user_id == access.caller.user.id
        }
        for file in {held.lock.file for held in candidates}:
            here = [held for held in candidates if held.lock.file == file]
            if not any(held.lock.token in own for held in here):  # one of several shared locks is enough
                raise LockedResource(_make_href(conditions.prefix, access, here[0].path))
        own_locks |= {held.lock.token: held.lock for held in candidates if not held.is_above}
    return list(own_locks.values())


def _make_href(prefix: str, access: PathAccess, path: TreePath | None) -> str:
    """Return the address of a locked path; the caller's own path if the locked one is not visible to the caller."""
    shown = path if path is not None and _is_shown(access, path) else access.path
    return make_href(prefix, str(shown.below(access.base)), False) if shown.within(access.base) else ""


def _is_shown(access: PathAccess, path: TreePath) -> bool:
    """True if the caller would see the path in the listing of its folder."""
    if path == access.base or not path.within(access.base):
        return path == access.base
    here = access.with_path(path)
    return here.parent.may_read() and not here.is_hidden() and here.is_reader()


async def forget(held: Collection[Lock]) -> None:
    """Remove the locks on removed entries."""
    if held:
        await asyncio.to_thread(webdav_locks.remove, held)


async def take(access: PathAccess, request: LockRequest, is_deep: bool, seconds: int, prefix: str) -> Lock:
    """Lock a path. Raise LockedResource if another lock excludes it.

    It is stored before the last check of the others: of two that exclude each other, at least one is noticed.
    """
    require_writer(access)
    files = [(file.storage, str(file.path)) for file in await FileLocator(access.tree.table).find_files(access.path)]
    if len(files) > MAX_FILES_PER_LOCK:
        raise DavProblem(403, "the path leads to too many folders to be locked")
    lock = Lock(
        UUID(token_hex(16), version=4).urn, str(access.path), request.is_exclusive, is_deep, request.owner,
        access.caller.user.id, time.time() + seconds, files,
    )  # fmt: skip
    await _require_compatible(access, lock, prefix)
    try:
        await asyncio.to_thread(webdav_locks.add, lock)
        await _require_compatible(access, lock, prefix)
    except LockConflict:
        raise LockedResource(_make_href(prefix, access, access.path), "no-conflicting-lock") from None
    except BaseException:
        await asyncio.shield(asyncio.to_thread(webdav_locks.release, lock))
        raise
    return lock


async def _require_compatible(access: PathAccess, lock: Lock, prefix: str) -> None:
    """Raise LockedResource if another lock applies at the path, or below it if the new lock applies there as well."""
    others = await find_covering(access)
    if lock.is_deep:
        below = await _find_below(access)
        others += [held for held in below if held.path is not None and may_change(access.with_path(held.path))]
    for held in others:
        if held.lock.token != lock.token and (lock.is_exclusive or held.lock.is_exclusive):
            raise LockedResource(_make_href(prefix, access, held.path), "no-conflicting-lock")


async def refresh(access: PathAccess, conditions: Conditions, seconds: int) -> Lock:
    """Refresh the lock whose token was sent.

    Raise PreconditionFailed if there is none, AccessDenied if its user can no longer write.
    """
    require_writer(access)
    for lock in _select_own(await find_covering(access), access):
        expires = time.time() + seconds
        if lock.token in conditions.tokens and await asyncio.to_thread(webdav_locks.refresh, lock, expires):
            return replace(lock, expires=expires)
    raise PreconditionFailed("there is no such lock")


def _select_own(path_locks: Iterable[PathLock], access: PathAccess) -> list[Lock]:
    return [held.lock for held in path_locks if held.lock.user_id == access.caller.user.id]


async def release(access: PathAccess, token: str) -> None:
    """Release a lock that covers the path.

    Raise 409 if none has that token, AccessDenied if it belongs to another user.
    """
    for held in await _read_covering(access):
        if held.lock.token == token:
            if held.lock.user_id != access.caller.user.id:
                raise AccessDenied("this lock belongs to another user")
            await asyncio.to_thread(webdav_locks.release, held.lock)
            return
    raise DavProblem(409, "there is no such lock here", "lock-token-matches-request-uri")


WEBDAV = Right.WEBDAV_READ | Right.WEBDAV_MANAGE


def require_writer(access: PathAccess) -> None:
    """Raise AccessDenied unless the caller may change the entry at a path."""
    (access if access.path == access.base else access.parent).require(Right.WRITE)
    if not access.may_write():
        raise AccessDenied


def may_change(access: PathAccess) -> bool:
    """True if the caller may change the entry at a path."""
    try:
        require_writer(access)
    except AccessDenied:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Holders:
    """The present users of locks. Each is read once."""

    access: PathAccess  # of another user, with the present rules and mounts
    _users: dict[int, User | None] = field(default_factory=dict)

    async def find_access(self, lock: Lock, rest: TreePath = ROOT) -> PathAccess | None:
        """Return the access of a lock's user to the locked path, or to `rest` below it.

        Return None if the account, its right to write over WebDAV, or the path in its tree is gone.
        """
        if lock.user_id not in self._users:
            self._users[lock.user_id] = await users.find_by_id(lock.user_id)
        user = self._users[lock.user_id]
        if user is None or user.disabled or not callers.make_caller(user).has(WEBDAV):
            return None
        try:
            path = TreePath(lock.path) / rest
            if not path.within(TreePath(user.base_path)):
                return None
            return PathAccess.make(callers.make_caller(user, Right.WRITE), path, "", self.access.tree)
        except Problem:
            return None  # the path leads nowhere now

    async def binds(self, lock: Lock, rest: TreePath = ROOT) -> bool:
        """True if the lock's user may write at the locked path, or at `rest` below it."""
        access = await self.find_access(lock, rest)
        return access is not None and may_change(access)
