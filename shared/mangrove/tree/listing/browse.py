"""Pages of folders of the tree and of share links: the answers of `fs/list` and `fs/dirs`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import orjson

from mangrove.core.chunked import PendingRows, iterate_chunked
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import AccessDenied, StorageProblem, TooLarge
from mangrove.drivers.base import Driver, Entry
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import rows
from mangrove.tree.listing.columns import Columns, Selection
from mangrove.tree.listing.folder import MAX_WHOLE_ROWS, CachedFolder, View, encode_in_thread, join_rows
from mangrove.tree.listing.listing import MAX_SORTED_ENTRIES, collect_entries, listings
from mangrove.tree.listing.objects import describe_share, find_roots
from mangrove.tree.listing.opening import exclude_names, explain_folder_failure, use_storage
from mangrove.tree.listing.orders import PageRequest, SortOrder, cut_page, find_folder_position, sort_entries
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.listing.rows import find_limit_at
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.sharing.shared_path import SharedPath
from mangrove.tree.sharing.uploads import list_sent

ROOT_PATH = TreePath("/")
Rows = orjson.Fragment | PendingRows


async def list_folder(
    access: PathAccess, page: PageRequest, refresh: bool, base: str, session: str = ""
) -> dict[str, Any]:
    """Return the answer of `fs/list`. `base`: the address of the service, for thumbnails.

    A share link that does not show its content lists the files that were sent in the `session`.
    """
    share = access.share
    if refresh and (share is not None or not access.require_read().can_write()):
        raise AccessDenied("Refresh without permission")
    if share is None:
        return await _list_storage(access, page, refresh, base)
    if not share.shows_content:
        answer = await _list_sent(access, share, page, session)
    elif share.roots:
        answer = await _list_roots(access, share, page, base)
    else:
        answer = await _list_storage(access, page, False, base)
    return answer | {
        "readme": share.link.readme,
        "header": share.link.header,
        "write": share.takes_uploads,
        "write_content_bypass": False,
        "provider": "unknown",
        "share": describe_share(share),
    }


async def _list_storage(access: PathAccess, page: PageRequest, refresh: bool, base: str) -> dict[str, Any]:
    """List a folder of the tree."""
    access.require_read()
    virtual = access.find_virtual_folders()

    async def open_folder(storage_path: StoragePath) -> CachedFolder | PagedFolder:
        if not 0 < page.per_page <= MAX_WHOLE_ROWS:
            return await listings().get(storage_path, refresh=refresh, max_entries=platform().max_listed_entries)
        is_of_storage = page.find_order(access.share, storage_path.mount.storage).is_of_storage
        return await listings().open(storage_path, in_pages=is_of_storage and not virtual, refresh=refresh)

    folder = await use_storage(access, bool(virtual), open_folder)
    mount = None if folder is None else folder.mount
    driver = None if mount is None else mount.driver
    order = page.find_order(access.share, None if mount is None else mount.storage)
    if isinstance(folder, PagedFolder):
        content, total = await _get_stored_page(access, folder, virtual, page, base)
    else:
        content, total = await _get_sorted_page(access, folder, virtual, page, order, base)
    readme, header = access.decision.texts
    return {
        "content": content,
        "total": total,
        "readme": readme,
        "header": header,
        "write": driver is not None and _is_writable(driver) and access.can_write(),
        "write_content_bypass": access.decision.is_open_for_writing,
        "provider": "unknown" if driver is None else driver.name,
    }


def _is_writable(driver: Driver) -> bool:
    capabilities = driver.capabilities
    return capabilities.makedirs or capabilities.put_url or capabilities.write


async def _get_sorted_page(
    access: PathAccess,
    folder: CachedFolder | None,
    virtual: dict[str, Mount],
    page: PageRequest,
    order: SortOrder,
    base: str,
) -> tuple[Rows, int]:
    """Return a page of the visible entries of a folder and the virtual folders, and the total."""
    if folder is None:
        return await _get_merged_page(access, View(Selection(Columns(), ()), lambda _: b""), virtual, page, order)
    try:
        view = await _get_view(access, folder, base, order)
        merged_page = await _get_merged_page(access, view, exclude_names(virtual, folder), page, order)
    except StorageProblem as problem:  # of the sizes and times of the rows
        raise explain_folder_failure(access, problem) from problem
    listings().update_weight(folder)
    return merged_page


async def _get_view(access: PathAccess, folder: CachedFolder, base: str, order: SortOrder) -> View:
    """Return the entries that the caller may see. Callers with the same rights share them, and the encoded pages."""
    signer = rows.make_folder_signer(access)
    visibility = access.make_visibility_filter()
    picture_limit = find_limit_at(access)
    thumbs = (base, access.share and access.share.key, picture_limit) if folder.has_thumbs or picture_limit else ""
    key = (access.table.version, str(access.path), visibility.key)
    entries = await folder.select_entries(order, key, visibility.test)
    return View(entries, rows.make_encoder(access, signer, base), folder.rows, (order, key, signer, thumbs))


async def _get_merged_page(
    access: PathAccess, view: View, virtual: dict[str, Mount], page: PageRequest, order: SortOrder
) -> tuple[Rows, int]:
    """Return a page of the visible entries and the virtual folders, and the total."""
    folders, positions = await _place_folders(virtual, view.entries, order)
    total = len(view.entries) + len(folders)
    pieces = list(cut_page(*page.indices(total), positions))
    mount_rows = iter(await _make_mount_rows(access, [folders[piece] for piece in pieces if isinstance(piece, int)]))
    content = await view.get_content(*(next(mount_rows) if isinstance(piece, int) else piece for piece in pieces))
    return content, total


async def _place_folders(
    virtual: dict[str, Mount], entries: Selection, order: SortOrder
) -> tuple[list[tuple[str, Mount]], list[int]]:
    """Return the virtual folders, and for each the number of entries before it.

    Virtual folders come last unless an order is requested.
    """
    folders = list(virtual.items())
    if not order.is_requested:
        return folders, [len(entries)] * len(folders)
    folders.sort(key=lambda item: order.make_key(rows.make_mount_entry(*item)), reverse=order.descending)
    return folders, [
        find_folder_position(entries, order, rows.make_mount_entry(*item)) async for item in iterate_chunked(folders)
    ]


async def _make_mount_rows(access: PathAccess, folders: Iterable[tuple[str, Mount]]) -> list[bytes]:
    return await asyncio.gather(*(rows.make_mount_row(access, *folder) for folder in folders))


async def _get_stored_page(
    access: PathAccess, folder: PagedFolder, virtual: dict[str, Mount], page: PageRequest, base: str
) -> tuple[Rows, int]:
    """Return a page of a folder in the order of its storage, and the total.

    Raise TooLarge for a requested order, except ascending names, which is nearly the same. Virtual folders come first,
    and hide the entries with their names.
    """
    if page.order_by and (page.order_by, page.order_direction == "desc") != ("name", False):
        raise TooLarge(f"a folder of more than {MAX_SORTED_ENTRIES} entries is listed by name only: leave out order_by")
    visibility = access.make_visibility_filter()
    folders, (start, stop) = list(virtual.items()), page.indices(sys.maxsize)

    def test(entry: Entry) -> bool:
        return entry.name not in virtual and visibility.passes(entry)

    passes = test if virtual else visibility.test
    key = visibility.key, frozenset(virtual)
    try:
        part = await folder.read(key, passes, max(start - len(folders), 0), max(stop - len(folders), 0))
    except StorageProblem as problem:
        raise explain_folder_failure(access, problem) from problem
    mount_rows = await _make_mount_rows(access, folders[start:stop])
    encode = rows.make_encoder(access, rows.make_folder_signer(access), base)
    entry_rows = [piece async for piece in encode_in_thread(encode, part.entries, 0, len(part.entries))]
    return join_rows(*mount_rows, *entry_rows), part.total + len(folders)


async def _list_sent(access: PathAccess, share: SharedPath, page: PageRequest, session: str) -> dict[str, Any]:
    receipts = await list_sent(share, session)
    sent = [
        Entry(receipt.name, receipt.size, float(receipt.time), False, hashes={"sha256": receipt.sha256})
        for receipt in receipts
    ]
    start, stop = page.indices(len(sent))
    return {
        "content": [rows.make_row(access.settings.type_codes, entry) for entry in sent[start:stop]],
        "total": len(sent),
    }


async def _list_roots(access: PathAccess, share: SharedPath, page: PageRequest, base: str) -> dict[str, Any]:
    """List the shared files and folders, without those that do not exist."""
    ordered = await sort_entries(await find_roots(share), page.find_order(share, None))
    settings = access.settings

    def make_thumb_url(entry: Entry) -> str:
        has_thumb = entry.thumb and not entry.is_dir and settings.share_preview
        return share.make_inner_url(base, "/sd", ROOT_PATH / entry.name, "type=thumb") if has_thumb else ""

    def encode(entries: Sequence[Entry]) -> bytes:
        return rows.encode_rows(
            rows.make_row(settings.type_codes, entry, "", make_thumb_url(entry)) for entry in entries
        )

    content = await View(ordered, encode).get_content(page.indices(len(ordered)))
    return {"content": content, "total": len(ordered)}


async def list_subfolders(access: PathAccess) -> Rows:
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
            folders = await folder.entries.select(lambda entry: entry.is_dir and passes(entry))
            await folders.read_details()
            return folders
        columns = await collect_entries(_iterate_subfolders(storage_path, virtual, passes))
        return Selection(columns, range(len(columns)))

    entries = await use_storage(access, bool(virtual), read)
    mount_rows = rows.encode_rows({"name": name, "modified": mount.storage.modified} for name, mount in virtual.items())
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
    return rows.encode_rows({"name": entry.name, "modified": rows.format_time(entry.modified)} for entry in entries)
