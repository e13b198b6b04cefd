"""The answers of `fs/list` and `fs/get`: listings and single objects, of the tree and of share links."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from mangrove.configuration.values import Settings
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, Problem, TooLarge
from mangrove.drivers.base import Entry
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import browse, rows
from mangrove.tree.listing.folder import View
from mangrove.tree.listing.lookups import look_up
from mangrove.tree.listing.orders import PageRequest, SortOrder, sort_entries
from mangrove.tree.listing.pictures import mark_picture
from mangrove.tree.listing.rows import make_row
from mangrove.tree.sharing.shared_path import SharedPath
from mangrove.tree.sharing.uploads import list_sent

ROOT_LOOKUP_CONCURRENCY = 16  # shared files and folders that are looked up concurrently
ROOT_PATH = TreePath("/")


async def list_folder(
    access: PathAccess, request: PageRequest, refresh: bool, base: str, session: str
) -> dict[str, Any]:
    """Return the answer of `fs/list`. `base`: the address of the service, for thumbnails.

    A share link that does not show its content lists the files that were sent in the `session`.
    """
    share = access.share
    if share is None:
        return await browse.list_folder(access, request, refresh, base)
    if refresh:
        raise AccessDenied("Refresh without permission")
    ordered = _use_order(request, share)
    if not share.shows_content:
        answer = await _list_sent(access, share, request, session)
    elif share.roots:
        answer = await _list_roots(access, share, ordered, base)
    else:
        answer = await _list_shared(access, request, ordered, base)
    return answer | {
        "readme": share.link.readme,
        "header": share.link.header,
        "write": share.takes_uploads,
        "write_content_bypass": False,
        "provider": "unknown",
        "share": describe(share),
    }


async def _list_sent(access: PathAccess, share: SharedPath, request: PageRequest, session: str) -> dict[str, Any]:
    receipts = await list_sent(share, session)
    sent = [
        Entry(receipt.name, receipt.size, float(receipt.time), False, hashes={"sha256": receipt.sha256})
        for receipt in receipts
    ]
    start, stop = request.indices(len(sent))
    return {"content": [make_row(access.settings.type_codes, entry) for entry in sent[start:stop]], "total": len(sent)}


def describe(share: SharedPath) -> dict[str, Any]:
    """Return the properties of a share link that visitors may see."""
    link = share.link
    names = ("id", "mode", "max_file_size", "max_total_size", "max_files", "extensions")
    expires = rows.format_time(link.expires / 1000) if link.expires is not None else None
    return {name: getattr(link, name) for name in names} | {"creator": share.creator, "expires": expires}


def _use_order(request: PageRequest, share: SharedPath) -> PageRequest:
    """Return the request with the order of the share link, unless the request names an order."""
    link = share.link
    if request.order_by or not (link.order_by or link.extract_folder):
        return request
    return replace(
        request,
        order_by=link.order_by or "name",
        order_direction=link.order_direction,
        extract_folder=link.extract_folder,
    )


async def _list_shared(access: PathAccess, request: PageRequest, ordered: PageRequest, base: str) -> dict[str, Any]:
    """List a folder. A folder that is too large for the order of the share link has the order of its storage."""
    try:
        return await browse.list_folder(access, ordered, False, base)
    except TooLarge:
        if ordered is request:
            raise
        return await browse.list_folder(access, request, False, base)


async def _list_roots(access: PathAccess, share: SharedPath, request: PageRequest, base: str) -> dict[str, Any]:
    """List the shared files and folders, without those that do not exist."""
    ordered = await sort_entries(await find_roots(share), request.find_order(None) or SortOrder())
    settings = access.settings

    def encode(page: Any) -> bytes:
        return rows.encode_rows(
            make_row(settings.type_codes, entry, "", _make_thumb_url(settings, share, entry, base)) for entry in page
        )

    content = await View(ordered, encode).get_content(request.indices(len(ordered)))
    return {"content": content, "total": len(ordered)}


def _make_thumb_url(settings: Settings, share: SharedPath, entry: Entry, base: str) -> str:
    if not entry.thumb or entry.is_dir or not settings.share_preview:
        return ""
    return share.make_inner_url(base, "/sd", ROOT_PATH / entry.name, "type=thumb")


async def find_roots(share: SharedPath) -> list[Entry]:
    """Return the entries of the shared files and folders with their names in the share, without those that do not
    exist."""
    works = [partial(_find_root, name, root) for name, root in share.roots.items()]
    return [entry for entry in await gather_bounded(works, ROOT_LOOKUP_CONCURRENCY) if entry is not None]


async def _find_root(name: str, access: PathAccess) -> Entry | None:
    """Return the entry of a shared file or folder with its name in the share, None if it does not exist."""
    try:
        entry = await _look_up(access)
    except Problem:  # an entry that cannot be read does not hide the others
        return None
    return entry._replace(name=name)


async def _look_up(access: PathAccess) -> Entry:
    virtual = browse.find_virtual_entry(access)
    if virtual is not None:
        return virtual[0]
    return mark_picture(access, await look_up(await access.locate(""), to_show=True))


async def get_object(access: PathAccess, base: str) -> dict[str, Any]:
    """Return the answer of `fs/get`."""
    share = access.share
    if share is None:
        return await browse.get_object(access, base)
    if share.roots:
        entry = Entry(share.link.id, 0, 0.0, True)
    else:
        access.require_read()
        entry = await _look_up(access)
    inner = share.find_inner(access.path)
    if not share.shows_content and inner != "/":
        raise AccessDenied
    if not share.roots:
        entry = entry._replace(name=inner.name or share.name)
    thumb = rows.make_thumb_url(access, access.path, entry, "", base)
    return make_row(access.settings.type_codes, entry, "", thumb) | {
        "readme": share.link.readme,
        "header": share.link.header,
        "provider": "unknown",
        "related": None,
        "raw_url": "" if entry.is_dir else share.make_url(base, "/sd", access.path),
        "share": describe(share),
    }
