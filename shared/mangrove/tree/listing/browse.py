"""Operations that read: list a folder or its subfolders, and return an object or its direct link."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import orjson

from mangrove.core.chunked import PendingRows, run_chunked
from mangrove.core.platform import platform
from mangrove.core.problems import (
    AccessDenied,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    Problem,
    StorageProblem,
    StorageUnavailable,
    TooLarge,
)
from mangrove.drivers.base import Entry, Link
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import rows
from mangrove.tree.listing.columns import Columns, Selection
from mangrove.tree.listing.folder import MAX_WHOLE_ROWS, CachedFolder, View, encode_in_thread, join_rows
from mangrove.tree.listing.listing import MAX_SORTED_ENTRIES, collect_entries, listings
from mangrove.tree.listing.lookups import look_up, look_up_with_related
from mangrove.tree.listing.orders import PageRequest, SortOrder, cut_page
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.listing.pictures import find_limit_at, mark_picture
from mangrove.tree.listing.rows import MountFolders, encode_rows
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations import links

Result = TypeVar("Result")


async def list_folder(access: PathAccess, request: PageRequest, refresh: bool, base: str) -> dict[str, Any]:
    """Return the answer of `fs/list`. `base`: the address of the service, for thumbnails."""
    access.require_read()
    if refresh and not access.can_write():
        raise AccessDenied("Refresh without permission")
    virtual = access.find_virtual_folders()
    opened = await _use_storage(access, bool(virtual), partial(_open_folder, request, refresh, bool(virtual)))
    provider, is_writable = "unknown", False
    if opened is None:
        no_entries = View(Selection(Columns(), ()), lambda _: b"")
        content, total = await _get_merged_page(access, no_entries, virtual, request, request.find_order(None))
    else:
        folder, storage_path = opened
        driver = storage_path.driver
        capabilities = driver.capabilities
        provider, is_writable = driver.name, capabilities.makedirs or capabilities.put_url or capabilities.write
        if isinstance(folder, PagedFolder):
            content, total = await _get_stored_page(access, folder, virtual, request, base)
        else:
            content, total = await _get_sorted_page(access, folder, virtual, request, base)
            listings().update_weight(folder)
    readme, header = access.decision.texts
    return {
        "content": content,
        "total": total,
        "readme": readme,
        "header": header,
        "write": is_writable and access.can_write(),
        "write_content_bypass": access.decision.is_open_for_writing,
        "provider": provider,
    }


Page = tuple[orjson.Fragment | PendingRows, int]
"""Return the rows, and the total."""


async def _get_sorted_page(
    access: PathAccess, folder: CachedFolder, virtual: dict[str, Mount], request: PageRequest, base: str
) -> Page:
    """Return a page of a folder that is in memory as a whole."""
    order = request.find_order(folder.mount.storage)
    try:
        view = await _get_view(access, folder, base, order)
        return await _get_merged_page(access, view, exclude_names(virtual, folder), request, order)
    except StorageProblem as problem:  # of the sizes and times of the rows
        raise explain_folder_failure(access, problem) from problem


async def _get_merged_page(
    access: PathAccess, view: View, virtual: dict[str, Mount], request: PageRequest, order: SortOrder | None
) -> Page:
    """Return a page of the visible entries and the virtual folders.

    Virtual folders come last unless an order is requested.
    """
    mount_folders = await rows.place_folders(virtual, view.visible, order)
    total = len(view.visible) + len(mount_folders)
    pieces = list(cut_page(*request.indices(total), mount_folders.positions))
    mount_rows = iter(await mount_folders.make_rows(access, [piece for piece in pieces if isinstance(piece, int)]))
    content = await view.get_content(*(next(mount_rows) if isinstance(piece, int) else piece for piece in pieces))
    return content, total


async def _get_stored_page(
    access: PathAccess, folder: PagedFolder, virtual: dict[str, Mount], request: PageRequest, base: str
) -> Page:
    """Return a page of a folder in the order of its storage.

    Raise TooLarge for another order, except ascending names, which is nearly the same. Virtual folders come first, and
    hide the entries with their names.
    """
    if request.order_by and (request.order_by, request.order_direction == "desc") != ("name", False):
        raise TooLarge(f"a folder of more than {MAX_SORTED_ENTRIES} entries is listed by name only: leave out order_by")
    visibility = access.make_visibility_filter()
    names, (start, stop) = list(virtual), request.indices(sys.maxsize)

    def test(entry: Entry) -> bool:
        return entry.name not in virtual and visibility.passes(entry)

    passes = test if virtual else visibility.test
    key = visibility.key, frozenset(virtual)
    try:
        part = await folder.read(key, passes, max(start - len(names), 0), max(stop - len(names), 0))
    except StorageProblem as problem:
        raise explain_folder_failure(access, problem) from problem
    mount_folders = MountFolders([(name, virtual[name]) for name in names], [0] * len(names))
    mount_rows = await mount_folders.make_rows(access, range(len(names))[start:stop])
    encode = rows.make_encoder(access, rows.make_folder_signer(access), base)
    return join_rows(*mount_rows, await encode_in_thread(encode, part.entries)), part.total + len(names)


def exclude_names(virtual: dict[str, Mount], folder: CachedFolder) -> dict[str, Mount]:
    """Return the virtual folders whose names the storage's own listing does not have."""
    return {name: mount for name, mount in virtual.items() if folder.find(name) is None}


async def _open_folder(
    request: PageRequest, refresh: bool, has_virtual: bool, storage_path: StoragePath
) -> tuple[CachedFolder | PagedFolder, StoragePath]:
    """Return the storage's listing, as much of it as the page requires."""
    order = request.find_order(storage_path.mount.storage) or SortOrder.of(storage_path.mount.storage)
    if 0 < request.per_page <= MAX_WHOLE_ROWS:
        in_pages = not has_virtual and order.is_of_storage
        return await listings().open(storage_path, in_pages=in_pages, refresh=refresh), storage_path
    max_entries = platform().max_listed_entries
    return await listings().get(storage_path, refresh=refresh, max_entries=max_entries), storage_path


async def open_pages(access: PathAccess, has_virtual: bool) -> CachedFolder | PagedFolder | None:
    """Return the storage's listing, in pages if it supports them. Return None if there are only virtual folders."""
    return await _use_storage(access, has_virtual, _open_pages)


async def _open_pages(storage_path: StoragePath) -> CachedFolder | PagedFolder:
    folder = await listings().open(storage_path, in_pages=True)
    if isinstance(folder, CachedFolder):
        await folder.entries.read_details()
    return folder


async def check_folder(access: PathAccess) -> None:
    """Raise the failure of `list_folder` if the path is not a folder that can be listed, without listing it."""
    access.require_read()
    await _use_storage(access, bool(access.find_virtual_folders()), _check_folder)


async def _check_folder(storage_path: StoragePath) -> None:
    if storage_path.mount.has_failed:
        await listings().get(storage_path)  # it may work nevertheless
    elif storage_path.path != "/" and not (await look_up(storage_path, to_show=True)).is_dir:
        raise NotAFolder


async def _use_storage(
    access: PathAccess, has_virtual: bool, use: Callable[[StoragePath], Awaitable[Result]]
) -> Result | None:
    """Return what `use` reads of a folder's storage. Return None if there are only virtual folders.

    A failure has the words of a listing.
    """
    has_virtual = has_virtual or access.path in access.table.ancestors
    if has_virtual and not access.table.find_mounts(access.path):
        return None
    mount, inner = access.find_mount("")
    direct_lookup = False
    try:
        storage_path = StoragePath(await mount.get_driver(), inner, mount)
        direct_lookup = storage_path.driver.config.direct_lookup
        return await use(storage_path)
    except StorageProblem as problem:
        if has_virtual:
            return None
        raise _explain_failure(problem, direct_lookup) from problem


def _explain_failure(problem: StorageProblem, direct_lookup: bool) -> Problem:
    """Return a listing's failure in the words that clients compare."""
    explained: Problem = problem
    if isinstance(problem, EntryNotFound):
        explained = problem.with_prefix("failed get dir: failed to get obj" if direct_lookup else "failed get dir")
    elif not isinstance(problem, NotAFolder | StorageUnavailable):
        explained = problem.with_prefix("failed to list objs")
    return explained.with_prefix("failed get objs")


def explain_folder_failure(access: PathAccess, problem: StorageProblem) -> Problem:
    """Return a failure to list the folder in the words of `fs/list`."""
    driver = access.find_mount()[0].driver
    return _explain_failure(problem, driver is not None and driver.config.direct_lookup)


async def _get_view(access: PathAccess, folder: CachedFolder, base: str, order: SortOrder | None) -> View:
    signer = rows.make_folder_signer(access)
    visibility = access.make_visibility_filter()
    picture_limit = find_limit_at(access)
    thumbs = (base, access.share and access.share.key, picture_limit) if folder.has_thumbs or picture_limit else ""
    return await folder.get_view(
        (access.table.version, str(access.path), visibility.key, signer, thumbs),
        visibility.test,
        rows.make_encoder(access, signer, base),
        order,
    )


async def get_object(access: PathAccess, base: str) -> dict[str, Any]:
    """Return the answer of `fs/get`."""
    access.require_read()
    readme, header = access.decision.texts
    tail = {"readme": readme, "header": header, "provider": "unknown", "related": None, "raw_url": ""}
    virtual = find_virtual_entry(access)
    if virtual is not None:
        entry, provider = virtual
        mounts_here = access.table.by_path.get(access.path)
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
    row = rows.make_row(access.settings.type_codes, entry._replace(name=access.path.name or "root"), sign, thumb)
    row |= tail | {"provider": entry.provider or storage_path.driver.name}
    if not entry.is_dir:
        row["raw_url"] = await _get_raw_url(access, storage_path, entry, base, sign)
    row["related"] = await _encode_related(access, related)
    return row


def find_virtual_entry(access: PathAccess) -> tuple[Entry, str] | None:
    """Return the entry and provider of the root, of a mount's own folder, or of a folder that only leads to mounts."""
    mounts_here = access.table.by_path.get(access.path)
    if mounts_here:
        mount = mounts_here[0]
        return rows.make_mount_entry(access.path.name or "root", mount), mount.storage.driver
    if access.path == "/" and not access.table.find_mounts(access.path):
        return Entry("root", 0, 0.0, True), "unknown"
    if access.path in access.table.ancestors:
        name = access.path.name
        return rows.make_mount_entry(name, access.table.find_virtual_folders(access.path.parent)[name]), "unknown"
    return None


async def _encode_related(access: PathAccess, entries: Selection | None) -> orjson.Fragment | PendingRows | None:
    """Encode the related entries that the caller may see."""
    if entries is None:
        return None
    parent, name = access.parent, access.path.name
    visibility = parent.make_visibility_filter()
    related = await run_chunked(entries.select(lambda entry: entry.name != name and visibility.passes(entry)))
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


async def list_subfolders(access: PathAccess) -> orjson.Fragment | PendingRows:
    """Return the subfolders, as `{name, modified}`.

    A folder that its storage lists in pages is read in pages and not cached, because it may have many files.
    """
    access.require_read()
    virtual = access.find_virtual_folders()
    passes = access.make_visibility_filter().passes

    async def read(storage_path: StoragePath) -> Selection:
        folder = await listings().open(storage_path, in_pages=True)
        if isinstance(folder, CachedFolder):
            _remove_names(virtual, [name for name in virtual if folder.find(name) is not None])
            folders = await run_chunked(folder.entries.select(lambda entry: entry.is_dir and passes(entry)))
            await folders.read_details()
            return folders
        columns = await collect_entries(_iterate_subfolders(storage_path, virtual, passes))
        return Selection(columns, range(len(columns)))

    entries = await _use_storage(access, bool(virtual), read)
    mount_rows = encode_rows({"name": name, "modified": mount.storage.modified} for name, mount in virtual.items())
    if entries is None:
        return join_rows(mount_rows)
    return await View(entries, _encode_subfolders).get_content((0, len(entries)), mount_rows)


def _remove_names(virtual: dict[str, Mount], names: Iterable[str]) -> None:
    for name in names:
        virtual.pop(name, None)


async def _iterate_subfolders(
    storage_path: StoragePath, virtual: dict[str, Mount], passes: Callable[[Entry], bool]
) -> AsyncIterator[Sequence[Entry]]:
    async for batch in storage_path.driver.list(storage_path.path):
        _remove_names(virtual, (entry.name for entry in batch))
        yield [entry for entry in batch if entry.is_dir and passes(entry)]


def _encode_subfolders(entries: Sequence[Entry]) -> bytes:
    return encode_rows({"name": entry.name, "modified": rows.format_time(entry.modified)} for entry in entries)


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
