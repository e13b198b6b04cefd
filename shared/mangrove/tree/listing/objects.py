"""Single objects of the tree and of share links: the answer of `fs/get`, and the addresses of files."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from mangrove.core.chunked import PendingRows
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import (
    AccessDenied,
    EntryNotFound,
    NotAFile,
    NotSupported,
    Problem,
    StorageProblem,
    StorageUnavailable,
)
from mangrove.drivers.base import Entry, Link
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import rows
from mangrove.tree.listing.columns import Selection
from mangrove.tree.listing.folder import View
from mangrove.tree.listing.lookups import look_up, look_up_with_related
from mangrove.tree.listing.rows import mark_picture
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import links
from mangrove.tree.sharing.shared_path import SharedPath

ROOT_LOOKUP_CONCURRENCY = 16  # shared files and folders that are looked up concurrently


async def get_object(access: PathAccess, base: str) -> dict[str, Any]:
    """Return the answer of `fs/get`. `base`: the address of the service, for thumbnails."""
    share = access.share
    return await (_get_object(access, base) if share is None else _get_shared_object(access, share, base))


async def _get_object(access: PathAccess, base: str) -> dict[str, Any]:
    access.require_read()
    readme, header = access.decision.texts
    tail = {"readme": readme, "header": header, "provider": "unknown", "related": None, "raw_url": ""}
    virtual = find_virtual_entry(access)
    if virtual is not None:
        entry, provider = virtual
        mounts_here = access.tree.table.by_path.get(access.path)
        details = await rows.get_mount_details(access, mounts_here[0]) if mounts_here else {}
        return rows.make_row({}, entry) | tail | {"provider": provider} | details
    storage_path = await access.locate("")
    try:
        entry, related = await look_up_with_related(access, storage_path)
    except StorageProblem as problem:
        if not storage_path.driver.config.direct_lookup or isinstance(problem, StorageUnavailable):
            raise
        raise problem.with_prefix("failed to get obj") from problem
    entry = mark_picture(access, entry)
    must_sign = not entry.is_dir and access.requires_signature()
    sign = rows.make_signer(access).sign(access.path) if must_sign else ""
    thumb = rows.make_thumb_url(access, access.path, entry, sign, base)
    row = rows.make_row(access.tree.settings.type_codes, entry._replace(name=access.path.name or "root"), sign, thumb)
    row |= tail | {"provider": entry.provider or storage_path.driver.name}
    if not entry.is_dir:
        row["raw_url"] = await _get_raw_url(access, storage_path, entry, base, sign)
    row["related"] = await _encode_related(access, related)
    return row


async def _get_shared_object(access: PathAccess, share: SharedPath, base: str) -> dict[str, Any]:
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
    return rows.make_row(access.tree.settings.type_codes, entry, "", thumb) | {
        "readme": share.link.readme,
        "header": share.link.header,
        "provider": "unknown",
        "related": None,
        "raw_url": "" if entry.is_dir else share.make_url(base, "/sd", access.path),
        "share": describe_share(share),
    }


def describe_share(share: SharedPath) -> dict[str, Any]:
    """Return the properties of a share link that visitors may see."""
    link = share.link
    names = ("id", "mode", "max_file_size", "max_total_size", "max_files", "extensions")
    expires = rows.format_time(link.expires / 1000) if link.expires is not None else None
    return {name: getattr(link, name) for name in names} | {"creator": share.creator, "expires": expires}


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
    virtual = find_virtual_entry(access)
    if virtual is not None:
        return virtual[0]
    return mark_picture(access, await look_up(await access.locate(""), to_show=True))


def find_virtual_entry(access: PathAccess) -> tuple[Entry, str] | None:
    """Return the entry and provider of the root, of a mount's own folder, or of a folder that only leads to mounts."""
    mounts_here = access.tree.table.by_path.get(access.path)
    if mounts_here:
        mount = mounts_here[0]
        return rows.make_mount_entry(access.path.name or "root", mount), mount.storage.driver
    if access.path == "/" and not access.tree.table.find_mounts(access.path):
        return Entry("root", 0, 0.0, True), "unknown"
    if access.path in access.tree.table.ancestors:
        name = access.path.name
        return rows.make_mount_entry(name, access.tree.table.find_virtual_folders(access.path.parent)[name]), "unknown"
    return None


async def _encode_related(access: PathAccess, entries: Selection | None) -> orjson.Fragment | PendingRows | None:
    """Encode the related entries that the caller may see."""
    if entries is None:
        return None
    parent, name = access.parent, access.path.name
    visibility = parent.make_visibility_filter()
    related = await entries.select(lambda entry: entry.name != name and visibility.passes(entry))
    view = View(related, rows.make_encoder(parent, rows.make_folder_signer(parent), None))
    return await view.get_content((0, len(related))) if len(related) else None


async def _get_raw_url(access: PathAccess, storage_path: StoragePath, entry: Entry, base: str, sign: str) -> str:
    """Return the address of the bytes of a file. `sign`: of the service's links to it, "" if they carry none."""
    driver, mount = storage_path.driver, storage_path.mount

    def make_proxy_url(route: str) -> str:
        signature = sign or rows.make_signer(access).sign(access.path)
        return links.make_proxy_url(mount, access.path, base, signature, bool(sign), route)

    if driver.config.only_proxy or mount.storage.web_proxy or not driver.capabilities.link:
        return make_proxy_url("/p")
    if entry.url:
        return entry.url
    try:
        url = (await driver.link(storage_path.path)).url
    except NotSupported:  # the service's own address: `/d` streams the file
        return make_proxy_url("/d")
    return base + url if url.startswith("/") else url


async def get_link(access: PathAccess, base: str) -> Link:
    """Return the answer of `fs/link`: the driver's own link, or the service's if the driver has none for this file."""
    storage_path = await access.locate()
    driver = storage_path.driver
    query = f"d&sign={rows.make_signer(access).sign(access.path)}"
    if driver.config.only_proxy or not driver.capabilities.link:
        return Link(links.make_file_url(base, "/p", access.path, query))
    entry = await stat_file(storage_path)
    try:
        link = await driver.link(storage_path.path)
    except NotSupported:
        return Link(links.make_file_url(base, "/d", access.path, query))
    return Link(entry.url or link.url, link.headers, link.lifetime)


async def stat_file(storage_path: StoragePath) -> Entry:
    """Return the entry of a file, with failures in the words of the routes for links."""
    try:
        entry = await look_up(storage_path)
    except EntryNotFound as problem:
        explained = problem.with_prefix("failed to get obj") if storage_path.driver.config.direct_lookup else problem
        raise explained.with_prefix("failed link: failed to get file") from None
    if entry.is_dir:
        raise NotAFile("failed link: not a file")
    return entry
