"""Pages of folders of the tree, of share links and of archives: the answers of `fs/list`, `fs/dirs` and
`fs/archive/list`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mangrove.core.chunked import PendingRows
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import AccessDenied, StorageProblem, TooLarge
from mangrove.drivers.base import Driver, Entry
from mangrove.records.storages import Storage
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import rows
from mangrove.tree.listing.columns import Columns, Selection
from mangrove.tree.listing.folder import MAX_WHOLE_ROWS, CachedFolder, Encode, View, encode_in_thread, join_rows
from mangrove.tree.listing.listing import MAX_SORTED_ENTRIES, collect_entries, listings
from mangrove.tree.listing.objects import describe_share, find_roots
from mangrove.tree.listing.opening import exclude_names, explain_folder_failure, use_storage
from mangrove.tree.listing.orders import SortOrder, merge_page, sort_entries
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.listing.rows import find_limit_at
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations import archives
from mangrove.tree.sharing.shared_path import SharedPath
from mangrove.tree.sharing.uploads import list_sent

ROOT_PATH = TreePath("/")
Rows = orjson.Fragment | PendingRows


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page of a listing that a client requests."""

    page: int = 1  # from 1
    per_page: int = 0  # 0 for everything
    order_by: str = ""  # "" for the order of the storage
    order_direction: str = ""

    def indices(self, total: int) -> tuple[int, int]:
        """Return start and stop, within 0..total."""
        if self.per_page <= 0:
            return (0, total) if self.page <= 1 else (total, total)
        start = min((max(self.page, 1) - 1) * self.per_page, total)
        return start, min(start + self.per_page, total)

    def find_order(self, share: SharedPath | None, storage: Storage | None) -> SortOrder:
        """Return the requested order, else that of the share link, else that of the storage.

        Folders come first unless the share link or the storage wants them last.
        """
        folders = "back" if storage is not None and storage.extract_folder == "back" else "front"
        if self.order_by:
            return SortOrder(self.order_by, self.order_direction == "desc", folders, True)
        if share is not None and (share.link.order_by or share.link.extract_folder):
            link, folders = share.link, share.link.extract_folder or folders
            return SortOrder(link.order_by or "name", link.order_direction == "desc", folders, True)
        return SortOrder() if storage is None else SortOrder.of(storage)


async def list_folder(
    access: PathAccess, page: PageRequest, refresh: bool, base: str, session: str = ""
) -> dict[str, Any]:
    """Return the answer of `fs/list`. `base`: the address of the service, for thumbnails.

    A share link that does not show its content lists the files that were sent in the `session`.
    """
    share = access.share
    if refresh and (share is not None or not access.require_read().can_write()):
        raise AccessDenied("Refresh without permission")
    if share is not None and not share.shows_content:
        listing = await _list_sent(access, share, page, session)
    elif share is not None and share.roots:
        listing = await _list_roots(access, share, page, base)
    else:
        listing = await _list_storage(access, page, refresh, base)
    if share is None:
        return listing
    return listing | {
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
    order = page.find_order(access.share, access.find_storage())
    virtual = access.find_virtual_folders()

    async def open_folder(storage_path: StoragePath) -> CachedFolder | PagedFolder:
        if not 0 < page.per_page <= MAX_WHOLE_ROWS:
            return await listings().get(storage_path, refresh=refresh, max_entries=platform().max_listed_entries)
        return await listings().open(storage_path, in_pages=order.is_of_storage and not virtual, refresh=refresh)

    folder = await use_storage(access, bool(virtual), open_folder)
    try:
        if isinstance(folder, PagedFolder):
            content, total = await _get_stored_page(access, folder, virtual, page, base)
        else:
            content, total = await _get_sorted_page(access, folder, virtual, order, page, base)
    except StorageProblem as problem:  # of a page of the storage, or of the sizes and times of the rows
        raise explain_folder_failure(access, problem) from problem
    readme, header = access.decision.texts
    driver = None if folder is None else folder.mount.driver
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
    order: SortOrder,
    page: PageRequest,
    base: str,
) -> tuple[Rows, int]:
    """Return a page of the visible entries of a folder and the virtual folders, and the total."""
    if folder is None:
        view = View(Selection(Columns(), ()), lambda _: b"")
    else:
        view, virtual = await _get_view(access, folder, order, base), exclude_names(virtual, folder)
    total = len(view.entries) + len(virtual)
    mounts = [rows.make_mount_entry(*mount) for mount in virtual.items()]
    pieces = await merge_page(view.entries, order, mounts, *page.indices(total))
    names = [piece.name for piece in pieces if isinstance(piece, Entry)]
    mount_rows = iter(await _make_mount_rows(access, [(name, virtual[name]) for name in names]))
    content = await view.get_content(*(next(mount_rows) if isinstance(piece, Entry) else piece for piece in pieces))
    if folder is not None:
        listings().update_weight(folder)
    return content, total


async def _get_view(access: PathAccess, folder: CachedFolder, order: SortOrder, base: str) -> View:
    """Return the entries that the caller may see. Callers with the same rights share them, and the encoded pages."""
    signer = rows.make_folder_signer(access)
    visibility = access.make_visibility_filter()
    picture_limit = find_limit_at(access)
    thumbs = (base, access.share and access.share.key, picture_limit) if folder.has_thumbs or picture_limit else ""
    key = (access.tree.table.version, str(access.path), visibility.key)
    entries = await folder.select_entries(order, key, visibility.test)
    return View(entries, rows.make_encoder(access, signer, base), folder.rows, (order, key, signer, thumbs))


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
    part = await folder.read(key, passes, max(start - len(folders), 0), max(stop - len(folders), 0))
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
        "content": [rows.make_row(access.tree.settings.type_codes, entry) for entry in sent[start:stop]],
        "total": len(sent),
    }


async def _list_roots(access: PathAccess, share: SharedPath, page: PageRequest, base: str) -> dict[str, Any]:
    """List the shared files and folders, without those that do not exist."""
    settings = access.tree.settings

    def make_thumb_url(entry: Entry) -> str:
        has_thumb = entry.thumb and not entry.is_dir and settings.share_preview
        return share.make_inner_url(base, "/sd", ROOT_PATH / entry.name, "type=thumb") if has_thumb else ""

    def encode(entries: Sequence[Entry]) -> bytes:
        return rows.encode_rows(
            rows.make_row(settings.type_codes, entry, "", make_thumb_url(entry)) for entry in entries
        )

    return await _sort_page(await find_roots(share), page.find_order(share, None), page, encode)


async def _sort_page(entries: Sequence[Entry], order: SortOrder, page: PageRequest, encode: Encode) -> dict[str, Any]:
    """Sort entries that are not cached, and return a page of them."""
    view = View(await sort_entries(entries, order), encode)
    start, stop = page.indices(len(entries))
    return {"content": await view.get_content((start, stop)), "total": len(entries)}


async def list_archive(
    access: PathAccess, password: str, inside: str, page: PageRequest, caller: str
) -> dict[str, Any]:
    """Return the answer of `fs/archive/list`: a page of one folder of the archive."""
    entries, storage = await archives.read_folder(access, password, inside, caller)
    codes = access.tree.settings.type_codes

    def encode(entries: Sequence[Entry]) -> bytes:
        return rows.encode_rows(rows.make_row(codes, entry) for entry in entries)

    return await _sort_page(entries, page.find_order(None, storage), page, encode)


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
