"""The verbs that read: list a folder, get one object, its sub-folders, its direct link."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import orjson

from mangrove.core.chunked import run_chunked
from mangrove.core.platform import platform
from mangrove.core.problems import (
    AccessDenied,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotMounted,
    NotSupported,
    Problem,
    StorageProblem,
    StorageUnavailable,
    TooLarge,
)
from mangrove.drivers.base import Entry, Link
from mangrove.records.storages import Storage
from mangrove.tree.access import PathAccess, lookup
from mangrove.tree.listing import encoders
from mangrove.tree.listing.columns import Columns, Selection
from mangrove.tree.listing.folder import CachedFolder, View, encode_in_thread
from mangrove.tree.listing.listing import LARGEST_SORTED, collect_entries, explain_list_failure, listings
from mangrove.tree.listing.mount_folders import MountFolders, get_mount_details, make_mount_entry, place_folders
from mangrove.tree.listing.orders import Order, cut_page
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.listing.related import look_up_with_related
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations import links, objects
from mangrove.tree.operations.objects import Rows, encode_rows, join_rows

Result = TypeVar("Result")

WHOLE_ROWS = 4096  # of an answer that is made at once; a longer one is encoded while it is sent


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a listing is wanted: `page` from 1, `per_page` 0 for everything; without `order_by` in the order
    of the storage."""

    page: int = 1
    per_page: int = 0
    order_by: str = ""
    order_direction: str = ""

    def indices(self, total: int) -> tuple[int, int]:
        """Start and stop, within 0..total."""
        if self.per_page <= 0:
            return (0, total) if self.page <= 1 else (total, total)
        start = min((max(self.page, 1) - 1) * self.per_page, total)
        return start, min(start + self.per_page, total)

    def find_order(self, storage: Storage | None) -> Order | None:
        """The order that is asked for, folders first unless the storage wants them last; None for the storage's own."""
        folders = "back" if storage is not None and storage.extract_folder == "back" else "front"
        return Order(self.order_by, self.order_direction == "desc", folders) if self.order_by else None


async def list_folder(access: PathAccess, part: Slice, refresh: bool, base: str) -> dict[str, Any]:
    """The answer of `fs/list`; `base` is the address clients reach us at, for thumbnails."""
    access.require_read()
    if refresh and not access.can_write():
        raise AccessDenied("Refresh without permission")
    virtual = access.find_virtual_folders()
    found = await _open_folder(access, part, refresh, bool(virtual))
    provider, is_writable = "unknown", False
    if found is None:
        nothing = View(Selection(Columns(), ()), lambda _: b"")
        content, total = await _get_merged(access, nothing, virtual, part, part.find_order(None))
    else:
        folder, storage_path = found
        provider, is_writable = (
            storage_path.driver.name,
            (
                storage_path.driver.capabilities.makedirs
                or storage_path.driver.capabilities.put_url
                or storage_path.driver.capabilities.write
            ),
        )
        if isinstance(folder, PagedFolder):
            content, total = await _get_stored_page(access, folder, virtual, part, base)
        else:
            order = part.find_order(storage_path.mount.storage)
            view = await _get_view(access, folder, storage_path.mount, base, order)
            content, total = await _get_merged(access, view, exclude_names(virtual, folder), part, order)
            listings().update_weight(folder)
    readme, header = access.judgement.texts
    return {
        "content": content,
        "total": total,
        "readme": readme,
        "header": header,
        "write": is_writable and access.can_write(),
        "write_content_bypass": access.judgement.is_open_for_writing,
        "provider": provider,
    }


Content = tuple[orjson.Fragment | Rows, int]  # rows, and how many there are in all


async def _get_merged(
    access: PathAccess, view: View, virtual: dict[str, Mount], part: Slice, order: Order | None
) -> Content:
    """A page of what is visible and of the virtual folders, which are behind it where no order is asked for."""
    mount_folders = await place_folders(virtual, view.visible, order)
    total = len(view.visible) + len(mount_folders)
    pieces = list(cut_page(*part.indices(total), mount_folders.places))
    rows = iter(await mount_folders.make_rows(access, [piece for piece in pieces if isinstance(piece, int)]))
    content = await get_content(view, *(next(rows) if isinstance(piece, int) else piece for piece in pieces))
    return content, total


async def _get_stored_page(
    access: PathAccess, folder: PagedFolder, virtual: dict[str, Mount], part: Slice, base: str
) -> Content:
    """A page of a folder in its storage's own order; TooLarge where another one is asked for, but by name upwards,
    which is nearly the same. Virtual folders come first, and hide what has their names."""
    if part.order_by and (part.order_by, part.order_direction == "desc") != ("name", False):
        raise TooLarge(f"a folder of more than {LARGEST_SORTED} entries is listed by name only: leave out order_by")
    visibility = access.make_visibility_filter()
    first, (start, stop) = list(virtual), part.indices(sys.maxsize)

    def test(entry: Entry) -> bool:
        return entry.name not in virtual and visibility.passes(entry)

    passes = test if virtual else visibility.test
    key = visibility.key, frozenset(virtual)
    try:
        found = await folder.read(key, passes, max(start - len(first), 0), max(stop - len(first), 0))
    except StorageProblem as problem:
        raise explain_folder_failure(access, problem) from problem
    mount_folders = MountFolders([(name, virtual[name]) for name in first], [0] * len(first))
    rows = await mount_folders.make_rows(access, range(len(first))[start:stop])
    encode = encoders.make_encoder(access, encoders.make_folder_signer(access), base)
    return join_rows(*rows, await encode_in_thread(encode, found.entries)), found.total + len(first)


async def get_content(view: View, *pieces: tuple[int, int] | bytes) -> orjson.Fragment | Rows:
    """Slices of the view, and rows that are encoded already; to be encoded while they are sent where these are many."""
    slices = [piece for piece in pieces if not isinstance(piece, bytes)]
    if sum(stop - start for start, stop in slices) > WHOLE_ROWS:
        return Rows(_stream(view, pieces))
    return join_rows(*[piece if isinstance(piece, bytes) else await view.get_rows(*piece) for piece in pieces])


async def _stream(view: View, pieces: Sequence[tuple[int, int] | bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        if not isinstance(piece, bytes):
            async for rows in view.stream_rows(*piece):
                yield rows
        elif piece:
            yield piece


def exclude_names(virtual: dict[str, Mount], folder: CachedFolder) -> dict[str, Mount]:
    """The virtual folders whose names the storage's own listing does not have."""
    return {name: mount for name, mount in virtual.items() if folder.find(name) is None}


async def _open_folder(
    access: PathAccess, part: Slice, refresh: bool, has_virtual: bool
) -> tuple[CachedFolder | PagedFolder, StoragePath] | None:
    """The storage's listing, as much of it as a part needs; None where only virtual folders answer."""

    async def read(storage_path: StoragePath) -> tuple[CachedFolder | PagedFolder, StoragePath]:
        order = part.find_order(storage_path.mount.storage) or Order.of(storage_path.mount.storage)
        if 0 < part.per_page <= WHOLE_ROWS:
            in_pages = not has_virtual and order.is_of_storage
            return await listings().open(storage_path, in_pages=in_pages, refresh=refresh), storage_path
        most = platform().max_listed_entries
        return await listings().get(storage_path, refresh=refresh, most=most), storage_path

    return await _ask_storage(access, has_virtual, read)


async def open_pages(access: PathAccess, has_virtual: bool) -> CachedFolder | PagedFolder | None:
    """The storage's listing, in pages where the storage has such; None where only virtual folders answer."""
    return await _ask_storage(access, has_virtual, partial(listings().open, in_pages=True))


async def check_folder(access: PathAccess) -> None:
    """Fails as `list_folder` does where the path is no folder that can be listed, as far as a look at it tells."""
    access.require_read()
    await _ask_storage(access, bool(access.find_virtual_folders()), _check_folder)


async def _check_folder(storage_path: StoragePath) -> None:
    if storage_path.mount.has_failed:
        await listings().get(storage_path)  # it may serve all the same
    elif storage_path.path != "/" and not (await lookup(storage_path, to_show=True)).is_dir:
        raise NotAFolder


async def _ask_storage(
    access: PathAccess, has_virtual: bool, ask: Callable[[StoragePath], Awaitable[Result]]
) -> Result | None:
    """What the storage says of a folder, its failure in the words of a listing; None where only virtual folders
    answer."""
    has_virtual = has_virtual or access.path in access.table.ancestors
    if has_virtual and not access.table.find_mounts(access.path):
        return None
    direct_lookup = False
    try:
        mount, inner = access.find_mount()
    except StorageProblem:
        if access.path == "/" and not access.table.mounts:
            raise NotMounted("failed get storage: storage not found; please add a storage first") from None
        raise NotMounted(f"failed get storage: storage not found; rawPath: {access.path}") from None
    try:
        storage_path = StoragePath(await mount.get_driver(), inner, mount)
        direct_lookup = storage_path.driver.config.direct_lookup
        return await ask(storage_path)
    except StorageProblem as problem:
        if has_virtual:
            return None
        raise explain_list_failure(problem, direct_lookup) from problem


async def _get_view(access: PathAccess, folder: CachedFolder, mount: Mount, base: str, order: Order | None) -> View:
    signer = encoders.make_folder_signer(access)
    visibility = access.make_visibility_filter()
    thumbs = base if folder.has_thumbs else ""
    return await folder.get_view(
        (access.table.version, str(access.path), visibility.key, signer, thumbs),
        visibility.test,
        encoders.make_encoder(access, signer, base),
        order,
    )


async def get_object(access: PathAccess, base: str) -> dict[str, Any]:
    """The answer of `fs/get`."""
    access.require_read()
    readme, header = access.judgement.texts
    tail = {"readme": readme, "header": header, "provider": "unknown", "related": None, "raw_url": ""}
    virtual = find_virtual_entry(access)
    if virtual is not None:
        entry, provider = virtual
        mounted = access.table.by_path.get(access.path)
        details = await get_mount_details(access, mounted[0]) if mounted else {}
        return objects.make_row({}, entry) | tail | {"provider": provider} | details
    storage_path = await access.locate("")
    try:
        entry, beside = await look_up_with_related(access, storage_path)
    except StorageProblem as problem:
        if not storage_path.driver.config.direct_lookup or isinstance(problem, StorageUnavailable):
            raise
        raise problem.with_prefix("failed to get obj") from problem
    codes = access.settings.type_codes
    must_sign = not entry.is_dir and access.requires_signature()
    sign = encoders.make_signer(access).sign(access.path) if must_sign else ""
    record = objects.make_row(
        codes,
        entry._replace(name=access.path.name or "root"),
        sign,
        encoders.make_thumb_url(access.path, entry, sign, base),
    )
    record |= tail | {"provider": entry.provider or storage_path.driver.name}
    if not entry.is_dir:
        record["raw_url"] = await _get_raw_url(access, storage_path, entry, base, sign)
    record["related"] = await _encode_related(access, beside)
    return record


def find_virtual_entry(access: PathAccess) -> tuple[Entry, str] | None:
    """The root, a mount's own folder, or a folder that only leads to mounts; with its provider."""
    mounted = access.table.by_path.get(access.path)
    if mounted:
        mount = mounted[0]
        return make_mount_entry(access.path.name or "root", mount), mount.storage.driver
    if access.path == "/" and not access.table.find_mounts(access.path):
        return Entry("root", 0, 0.0, True), "unknown"
    if access.path in access.table.ancestors:
        name = access.path.name
        return make_mount_entry(name, access.table.find_virtual_folders(access.path.parent)[name]), "unknown"
    return None


async def _encode_related(access: PathAccess, found: Selection | None) -> orjson.Fragment | Rows | None:
    """Those of the entries beside this one that the caller may see."""
    if found is None:
        return None
    parent, name = access.parent, access.path.name
    visibility = parent.make_visibility_filter()
    related = await run_chunked(found.select(lambda other: other.name != name and visibility.passes(other)))
    view = View(related, encoders.make_encoder(parent, encoders.make_folder_signer(parent), None))
    return await get_content(view, (0, len(related))) if len(related) else None


def _make_proxy_url(access: PathAccess, mount: Mount, base: str, sign: str, route: str = "/p") -> str:
    signature = sign or encoders.make_signer(access).sign(access.path)
    return links.make_proxy_url(mount, access.path, base, signature, bool(sign), route)


async def _get_raw_url(access: PathAccess, storage_path: StoragePath, entry: Entry, base: str, sign: str) -> str:
    """Where the bytes of a file are fetched (behaviour 5.2); `sign`: of our links to it, "" where they carry none."""
    driver, mount = storage_path.driver, storage_path.mount
    if driver.config.only_proxy or mount.storage.web_proxy or not driver.capabilities.link:
        return _make_proxy_url(access, mount, base, sign)
    if entry.url:
        return entry.url
    try:
        url = (await driver.link(storage_path.path)).url
    except NotSupported:  # of this file: `/d` streams it
        return _make_proxy_url(access, mount, base, sign, "/d")
    return base + url if url.startswith("/") else url


async def list_subfolders(access: PathAccess) -> orjson.Fragment | Rows:
    """The sub-folders, as `{name, modified}`. A folder that its storage lists in pages is read so: its files are many,
    and nobody keeps them."""
    access.require_read()
    virtual = access.find_virtual_folders()
    passes = access.make_visibility_filter().passes

    async def read(storage_path: StoragePath) -> Selection:
        folder = await listings().open(storage_path, in_pages=True)
        if isinstance(folder, CachedFolder):
            _exclude(virtual, [name for name in virtual if folder.find(name) is not None])
            return await run_chunked(folder.entries.select(lambda entry: entry.is_dir and passes(entry)))
        columns = await collect_entries(_select_folders(storage_path, virtual, passes))
        return Selection(columns, range(len(columns)))

    found = await _ask_storage(access, bool(virtual), read)
    last = encode_rows({"name": name, "modified": mount.storage.modified} for name, mount in virtual.items())
    if found is None:
        return join_rows(last)
    return await get_content(View(found, _encode_subfolders), (0, len(found)), last)


def _exclude(virtual: dict[str, Mount], names: Iterable[str]) -> None:
    """Drop the virtual folders whose names the storage's own listing has."""
    for name in names:
        virtual.pop(name, None)


async def _select_folders(
    storage_path: StoragePath, virtual: dict[str, Mount], passes: Callable[[Entry], bool]
) -> AsyncIterator[Sequence[Entry]]:
    async for batch in storage_path.driver.list(storage_path.path):
        _exclude(virtual, (entry.name for entry in batch))
        yield [entry for entry in batch if entry.is_dir and passes(entry)]


def _encode_subfolders(entries: Sequence[Entry]) -> bytes:
    return encode_rows({"name": entry.name, "modified": objects.format_time(entry.modified)} for entry in entries)


async def get_link(access: PathAccess, base: str) -> Link:
    """The answer of `fs/link`: the driver's own link, or ours where it has none (for this file)."""
    storage_path = await access.locate()
    driver = storage_path.driver
    query = f"d&sign={encoders.make_signer(access).sign(access.path)}"
    if driver.config.only_proxy or not driver.capabilities.link:
        return Link(links.make_file_url(base, "/p", access.path, query))
    entry = await stat_file(storage_path)
    try:
        found = await driver.link(storage_path.path)
    except NotSupported:
        return Link(links.make_file_url(base, "/d", access.path, query))
    return Link(entry.url or found.url, found.headers, found.lifetime)


def explain_folder_failure(access: PathAccess, problem: StorageProblem) -> Problem:
    """A failure to list the folder, in the words of `fs/list`."""
    driver = access.find_mount()[0].driver
    return explain_list_failure(problem, driver is not None and driver.config.direct_lookup)


async def stat_file(storage_path: StoragePath) -> Entry:
    """The file's entry, with failures worded as the link routes do."""
    try:
        entry = await lookup(storage_path)
    except EntryNotFound as problem:
        explained = problem.with_prefix("failed to get obj") if storage_path.driver.config.direct_lookup else problem
        raise explained.with_prefix("failed link: failed to get file") from None
    if entry.is_dir:
        raise NotAFile("failed link: not a file")
    return entry
