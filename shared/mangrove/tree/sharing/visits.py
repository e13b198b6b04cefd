"""Access of visitors to share links.

Each request reads and evaluates the record. A visitor has the current rights of the owner, reduced to those that the
share gives. Nothing above the shared files is visible to visitors.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from mangrove.configuration import users
from mangrove.core.http import find_client
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    BrokenArchive,
    EntryNotFound,
    NotMounted,
    NotReadable,
    Problem,
    StorageProblem,
    TooMany,
)
from mangrove.core.runtime import CacheKind
from mangrove.identity.lockout import LOCK_SECONDS, count_guess
from mangrove.identity.rights import GUEST, NORMAL, Caller, Right
from mangrove.records import share_links
from mangrove.records.groups import GroupPermissions
from mangrove.records.share_links import ShareLink
from mangrove.records.store import counters
from mangrove.records.users import User
from mangrove.tree import access as tree_access
from mangrove.tree.access import PathAccess, TreeState
from mangrove.tree.callers import make_caller, note_visitor
from mangrove.tree.mount_table import MountTable
from mangrove.tree.sharing.problems import ShareEnded, ShareNotFound
from mangrove.tree.sharing.shared_path import SharedPath, is_shared, name_roots, shows_content, split, takes_uploads

MAX_UNKNOWN_IDS_PER_SOURCE = 100  # within LOCK_SECONDS
ADMITTED_SECONDS = 60.0  # for which a process remembers a counted visitor
ADMITTED: CacheKind[tuple[int, str], float] = CacheKind("visitors of share links", 4096)
"""The end, on the monotonic clock, by the number of the share link and the visitor."""


class _Root(NamedTuple):
    """A shared file or folder."""

    path: TreePath
    password: str  # of the rule for this path
    visitor: Caller  # with the rights of a visitor for this path


@dataclass(frozen=True, slots=True)
class _OpenedShare:
    """A share link that its visitor may open."""

    link: ShareLink
    owner: User
    visitor: Caller
    """The owner without any right."""
    roots: Mapping[str, _Root]
    """The shared files and folders that the owner may read, by their names."""
    tree: TreeState

    def make_access(self, name: str, prefix: TreePath, below: TreePath) -> PathAccess:
        """Return the access to a path below a shared folder, or to the shared file or folder itself."""
        root = self.roots[name]
        share = SharedPath(self.link, root.path, prefix, self.owner.username)
        return PathAccess.make(root.visitor, root.path / below, root.password, self.tree, share)

    def make_root(self, path: TreePath, accesses: Mapping[str, PathAccess]) -> PathAccess:
        """Return the access to the root of a share of several files, which is not in the tree and has no storage."""
        share = SharedPath(self.link, path, TreePath("/"), self.owner.username, accesses)
        return PathAccess(self.visitor, path, "", replace(self.tree, table=MountTable(0, [])), (), share)


@asynccontextmanager
async def open_path(caller: Caller, path: str, password: str, verb: str = "list") -> AsyncIterator[PathAccess]:
    """Yield the access to a path of the tree, or of a share link: `/@s/<id>[/…]` with the password of the share.

    In the context of a share, messages of failures contain `verb` and no paths of the tree. A request without a user
    can open share links only.
    """
    tree_path = TreePath(path)
    if is_shared(tree_path):
        with hide_paths(verb):
            yield await open_shared(tree_path, password, caller.declared_right, caller.source)
        return
    yield await tree_access.at(caller, path, password)


async def open_shared(
    path: TreePath, password: str | None, right: Right, source: str, *, is_visit: bool = True
) -> PathAccess:
    """Return the access of a visitor to a path of a share link, as its owner on a route that declares `right`.

    `password`: None for a visitor whose password was checked before.
    `is_visit`: the request is counted, and refused if the share link accepts no more visits.

    Raise ShareNotFound, ShareEnded, NotReadable for a wrong password, TooMany after too many wrong passwords, or
    EntryNotFound for a name that is not shared.
    """
    id, inner = split(path)
    share = await _open(id, right, source)
    if password is not None:
        await _check_password(share.link, password, source)
    if is_visit:
        await _count_visit(share.link, source)
    if len(share.link.files) == 1:
        (name,) = share.roots
        return share.make_access(name, TreePath("/"), inner)
    if inner == "/":
        accesses = {name: share.make_access(name, TreePath(name), inner) for name in share.roots}
        return share.make_root(path, accesses)
    name, _, below = inner[1:].partition("/")
    if name not in share.roots:
        raise EntryNotFound
    return share.make_access(name, TreePath(name), TreePath(below))


async def find_upload(id: str, target: TreePath, source: str) -> PathAccess:
    """Return the access of a visitor to the target of an upload that began through a share link.

    The password of the link was checked at the beginning. Raise EntryNotFound if the target is not shared any more.
    """
    share = await _open(id, Right.WRITE, source)
    for name, root in share.roots.items():
        if target.within(root.path):
            return share.make_access(name, TreePath("/"), target.below(root.path))
    raise EntryNotFound


async def _open(id: str, right: Right, source: str) -> _OpenedShare:
    """Open a share link. Its password is not checked yet, and the visit is not counted."""
    note_visitor()
    link = await asyncio.to_thread(_load, id, find_client(source) if source else "")
    tree = await TreeState.read()
    owner = await users.find_by_id(link.owner)
    if owner is None or not is_open(link, owner, time.time()):
        raise ShareEnded
    sharer = make_caller(owner)
    visitor = _make_visitor(sharer, right, source)
    roots = dict(_find_roots(link, sharer, visitor, tree))
    if not roots:
        raise ShareEnded
    return _OpenedShare(link, owner, visitor, roots, tree)


def is_open(link: ShareLink, owner: User, now: float) -> bool:
    """True if a share link is not expired, and neither it nor its owner is disabled. `now`: seconds since the epoch."""
    is_over = link.expires is not None and link.expires <= now * 1000
    return not (link.disabled or is_over or owner.disabled or owner.role == GUEST)


def _load(id: str, client: str) -> ShareLink:
    """Return the share link with an id. Raise ShareNotFound, or TooMany after too many unknown ids from a client."""
    key = f"share-source#{client}"
    if client:
        counts, _ = counters.read([key], key, LOCK_SECONDS)
        if counts[key] >= MAX_UNKNOWN_IDS_PER_SOURCE:
            raise TooMany("too many unknown share links have been tried, try again later", retry_after=LOCK_SECONDS)
    digest = sha256(id.encode()).hexdigest()
    link = share_links.find(id)
    if link is not None:
        return link
    if client and counters.claim_once(f"unknown share#{digest}#{client}", LOCK_SECONDS):
        counters.add_failure(key, LOCK_SECONDS)
    raise ShareNotFound


def _make_visitor(sharer: Caller, right: Right, source: str) -> Caller:
    """Return the owner without any rights, even for an administrator. Lists of readers still apply to the owner."""
    groups = sharer.groups and GroupPermissions(sharer.groups.group_ids, 0, {})
    return Caller(replace(sharer.user, role=NORMAL, permission=0), right, source, groups=groups)


def _find_roots(link: ShareLink, sharer: Caller, visitor: Caller, tree: TreeState) -> Iterator[tuple[str, _Root]]:
    """Yield the shared files and folders that the owner may read and share.

    A visitor needs no password of a rule there if the owner needs none. Folders below with a password, and names that
    rules hide, stay closed to visitors.
    """
    for name, path in name_roots(map(TreePath, link.files)).items():
        if not (path.within(sharer.base) and sharer.has(Right.SHARE, path)):
            continue
        if not all(decision.may_read("") for decision in tree.evaluate(sharer, path)):
            continue
        decisions = tree.evaluate(visitor, path)
        password = next((decision.password for decision in decisions if decision.password), "")
        if all(decision.may_read(password) for decision in decisions):
            yield name, _Root(path, password, _add_rights(visitor, sharer, path, link))


def _add_rights(visitor: Caller, sharer: Caller, path: TreePath, link: ShareLink) -> Caller:
    """Return the visitor with the rights of the owner at a path, reduced to those that the share gives."""
    given_rights = Right.READ_ARCHIVES if shows_content(link.mode) else Right.READ
    rights = given_rights if sharer.has(given_rights, path) else Right.READ
    if takes_uploads(link.mode) and sharer.has(Right.WRITE, path):
        rights |= Right.WRITE
    return replace(visitor, user=replace(visitor.user, permission=int(rights)))


async def _check_password(link: ShareLink, password: str, source: str) -> None:
    if not link.password:
        return
    is_right = hmac.compare_digest(link.password.encode(), password.encode())
    if password and source:
        await count_guess(f"share {link.number}", source, password, is_right)
    if not is_right:
        raise NotReadable


async def is_used_up(link: ShareLink) -> bool:
    """True if a share link accepts no more visits."""
    if link.max_accessed == 0:
        return False
    visits = await asyncio.to_thread(share_links.count_visits, [link])
    return visits[link.number] >= link.max_accessed


async def _count_visit(link: ShareLink, source: str) -> None:
    """Count the visit. Raise ShareEnded if the share link accepts no more visits."""
    visitor = find_client(source)
    if not visitor:
        return
    end = ADMITTED.open().get((link.number, visitor))
    if end is not None and end > time.monotonic():
        return
    if not await asyncio.to_thread(share_links.add_visit, link, visitor):
        raise ShareEnded
    ADMITTED.open().put((link.number, visitor), time.monotonic() + ADMITTED_SECONDS)


@contextmanager
def hide_paths(verb: str) -> Iterator[None]:
    """Replace the messages of storage failures by those of their classes, which do not contain paths."""
    try:
        yield
    except NotMounted:
        raise EntryNotFound(f"failed {verb} sharing: {EntryNotFound.text}") from None
    except (StorageProblem, BrokenArchive) as problem:
        text = type(problem).text
        reason = "the storage does not return it" if text == Problem.text else text
        explained = type(problem)(f"failed {verb} sharing: {reason}")
        explained.retry_after = problem.retry_after
        is_plain = isinstance(problem, BrokenArchive)  # it says what is wrong with the archive, without paths
        explained.plain_message = problem.plain_message if is_plain else type(problem).plain_message
        raise explained from None
