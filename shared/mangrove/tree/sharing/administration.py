"""Management of share links by their owners and by administrators."""

from __future__ import annotations

import asyncio
import re
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import choice
from typing import Any

from mangrove.configuration import users
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, BadRequest, Problem, RecordNotFound, ResourceNotFound
from mangrove.identity.rights import Caller, Right
from mangrove.records import share_links
from mangrove.records.share_links import ShareFields, ShareLink
from mangrove.records.users import User
from mangrove.tree import audit
from mangrove.tree.access import TreeState
from mangrove.tree.audit import AuditAction
from mangrove.tree.callers import make_caller
from mangrove.tree.sharing.shared_path import MODES, takes_uploads

ID_LETTERS = string.ascii_letters + string.digits
ID_LENGTH = 12  # letters of a random id: 71 bits
MAX_ID_LENGTH = 64  # characters
MAX_SHARE_LINKS_PER_USER = 1000
MAX_SHARED_PATHS = 500  # of one share link
MAX_SHARED_PATHS_BYTES = 64 << 10  # of all paths together, so that a record stays below 400 KB
MAX_EXTENSIONS = 100
_ID = re.compile(r"[A-Za-z0-9_\-\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]+")
_EXTENSION = re.compile(r"[^./\\\s\x00-\x1f]{1,16}")
_CHOICES: Mapping[str, Sequence[str]] = {
    "order_by": ("", "name", "size", "modified"),
    "order_direction": ("", "asc", "desc"),
    "extract_folder": ("", "front", "back"),
    "mode": MODES,
}


def to_record(fields: ShareFields) -> dict[str, Any]:
    """Return the fields as they are stored. Raise BadRequest for a value that is not allowed."""
    for name, choices in _CHOICES.items():
        if getattr(fields, name) not in choices:
            raise BadRequest(f"{name} must be one of {', '.join(filter(None, choices))}")
    if takes_uploads(fields.mode) and len(set(fields.files)) > 1:
        raise BadRequest("a share link that takes uploads has one folder")
    values = {name: getattr(fields, name) for name in ShareFields.__slots__}
    return values | {"files": _clean_paths(fields.files), "extensions": _clean_extensions(fields.extensions)}


def _clean_paths(paths: Sequence[str]) -> list[str]:
    cleaned = list(dict.fromkeys(str(TreePath(path)) for path in paths if path))
    if not cleaned:
        raise BadRequest("must add at least 1 object")
    if len(cleaned) > MAX_SHARED_PATHS:
        raise BadRequest(f"a share link may have at most {MAX_SHARED_PATHS} objects")
    if sum(len(path.encode()) for path in cleaned) > MAX_SHARED_PATHS_BYTES:
        raise BadRequest(f"the paths of a share link may have at most {MAX_SHARED_PATHS_BYTES} bytes")
    return cleaned


def _clean_extensions(extensions: Sequence[str]) -> list[str]:
    cleaned = list(dict.fromkeys(text.strip().removeprefix(".").lower() for text in extensions if text.strip()))
    if len(cleaned) > MAX_EXTENSIONS:
        raise BadRequest(f"a share link may name at most {MAX_EXTENSIONS} extensions")
    if any(_EXTENSION.fullmatch(text) is None for text in cleaned):
        raise BadRequest("an extension has 1 to 16 characters, without dots, slashes and blanks")
    return cleaned


@dataclass(frozen=True, slots=True)
class ShareEntry:
    """A share link in an answer."""

    link: ShareLink
    creator: User | None  # None if the user was deleted
    visits: int


def list_page(caller: Caller, cut: Callable[[list[str]], list[str]]) -> tuple[list[ShareEntry], int]:
    """Return one page of the caller's share links by id, for an administrator of all; and the total number."""
    if caller.scope is not None and not caller.is_admin:
        own = share_links.get_many(share_links.find_ids(caller.user.id))
        visible = {link.id: link for link in own if _is_own(caller, link)}
        return _describe([visible[id] for id in cut(list(visible))]), len(visible)
    if not caller.is_admin:
        ids = share_links.find_ids(caller.user.id)
        return _describe(share_links.get_many(cut(ids))), len(ids)
    links = {link.id: link for link in share_links.all()}
    return _describe([links[id] for id in cut(list(links))]), len(links)


def get(caller: Caller, id: str) -> ShareEntry:
    """Return a share link of the caller, for an administrator any share link. Raise ResourceNotFound."""
    return _describe([_get_own(caller, id)])[0]


def _describe(links: Sequence[ShareLink]) -> list[ShareEntry]:
    visits = share_links.count_visits(links)
    return [ShareEntry(link, users.get(link.owner), visits[link.number]) for link in links]


def _get_own(caller: Caller, id: str) -> ShareLink:
    link = share_links.find(id) if id and len(id) <= MAX_ID_LENGTH else None
    if link is None or not (caller.is_admin or _is_own(caller, link)):
        raise ResourceNotFound("sharing not found")
    return link


def _is_own(caller: Caller, link: ShareLink) -> bool:
    """True for a share link of the caller. For a token, all objects of the link have to be within its root."""
    if link.owner != caller.user.id:
        return False
    return caller.scope is None or all(TreePath(path).within(caller.base) for path in link.files)


def _get_changeable(caller: Caller, id: str) -> ShareLink:
    """Return a share link as `get` does. Raise AccessDenied for a token that only reads."""
    if not caller.may_change:
        raise AccessDenied
    return _get_own(caller, id)


async def create(caller: Caller, id: str, creator: str, fields: ShareFields, visits: int) -> ShareEntry:
    """Create a share link of the caller. An administrator may create one for another user, `creator`.

    Raise BadRequest for an end in the past; an update accepts it, to end a link or to change one that has ended.
    `id`: the chosen id, "" for a random id.
    """
    record = to_record(fields)
    if fields.expires is not None and fields.expires <= time.time() * 1000:
        raise BadRequest("expires is in the past: a share link that has ended opens nothing")
    owner = await asyncio.to_thread(_find_creator, caller, creator) or caller.user
    await _check_owner(caller, owner, record)
    if id:
        _check_id(caller, id)
    link = await asyncio.to_thread(_create, owner, id, record)
    await asyncio.to_thread(audit.record, caller, AuditAction.SHARE_CREATE, _describe_link(link))
    if visits:
        await asyncio.to_thread(share_links.set_visits, link, visits)
    return ShareEntry(link, owner, visits)


def _create(owner: User, id: str, record: dict[str, Any]) -> ShareLink:
    if len(share_links.find_ids(owner.id)) >= MAX_SHARE_LINKS_PER_USER:
        raise BadRequest(f"one user may have at most {MAX_SHARE_LINKS_PER_USER} share links")
    id = id or "".join(choice(ID_LETTERS) for _ in range(ID_LENGTH))
    return share_links.create(id, owner=owner.id, **record)


async def update(
    caller: Caller, id: str, new_id: str, creator: str, fields: ShareFields, visits: int | None
) -> ShareEntry:
    """Replace the fields of a share link, and its id unless `new_id` is empty. `visits`: None keeps the number."""
    link = await asyncio.to_thread(_get_changeable, caller, id)
    record = to_record(fields)
    owner = await asyncio.to_thread(_find_creator, caller, creator) or await users.find_by_id(link.owner)
    if owner is None:
        raise BadRequest("no such a user")
    await _check_owner(caller, owner, record)
    if new_id and new_id != id:
        _check_id(caller, new_id)
    link = await asyncio.to_thread(_change, id, new_id=new_id or None, owner=owner.id, **record)
    await asyncio.to_thread(audit.record, caller, AuditAction.SHARE_UPDATE, _describe_link(link))
    if visits is not None:
        await asyncio.to_thread(share_links.set_visits, link, visits)
    return (await asyncio.to_thread(_describe, [link]))[0]


def _change(id: str, **fields: Any) -> ShareLink:
    try:
        return share_links.change(id, **fields)
    except RecordNotFound:
        raise ResourceNotFound("sharing not found") from None


def set_disabled(caller: Caller, id: str, disabled: bool) -> None:
    """Disable or enable a share link."""
    if _get_changeable(caller, id).disabled != disabled:
        link = _change(id, disabled=disabled)
        action = AuditAction.SHARE_DISABLE if disabled else AuditAction.SHARE_ENABLE
        audit.record(caller, action, _describe_link(link))


def delete(caller: Caller, id: str) -> None:
    """Delete a share link."""
    link = _get_changeable(caller, id)
    try:
        share_links.delete(id)
    except RecordNotFound:
        raise ResourceNotFound("sharing not found") from None
    audit.record(caller, AuditAction.SHARE_DELETE, _describe_link(link))


def _describe_link(link: ShareLink) -> str:
    """Return what an administrator recognises a share link by: the first of its paths. The id opens the link."""
    return link.files[0] + (f" (+{len(link.files) - 1})" if len(link.files) > 1 else "")


def _find_creator(caller: Caller, creator: str) -> User | None:
    """Return the user in a request; None without a name, or if the caller may not create links of this user."""
    if not creator or creator == caller.user.username:
        return caller.user if creator else None
    user = users.find(creator) if caller.is_admin else None
    if user is None:
        raise BadRequest("no such a user")
    return user


async def _check_owner(caller: Caller, owner: User, record: dict[str, Any]) -> None:
    """Raise AccessDenied unless the user may share, or Problem for a path that the user may not share.

    The scope of the caller applies to a share link of the caller.
    """
    sharer = make_caller(owner, scope=caller.scope if owner.id == caller.user.id else None)
    if sharer.is_guest:
        raise AccessDenied
    tree = await TreeState.read()
    for path in map(TreePath, record["files"]):
        decisions = tree.evaluate(sharer, path)
        if not sharer.has(Right.SHARE, path) or (takes_uploads(record["mode"]) and not sharer.has(Right.WRITE, path)):
            raise AccessDenied
        is_reachable = path.within(sharer.base) and sharer.may_read
        if not is_reachable or not all(decision.may_read("") for decision in decisions):
            raise Problem(f"permission denied to share path [{path}]")


def _check_id(caller: Caller, id: str) -> None:
    """Raise AccessDenied or BadRequest unless the caller may choose this id."""
    if not caller.has(Right.CUSTOM_SHARE_ID):
        raise AccessDenied
    if len(id) > MAX_ID_LENGTH:
        raise BadRequest(f"share id must be at most {MAX_ID_LENGTH} characters")
    if _ID.fullmatch(id) is None:
        raise BadRequest("share id can only contain letters, numbers, underscores, hyphens, and CJK characters")
