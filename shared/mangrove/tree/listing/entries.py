"""Single entries of the tree, including mounts, for protocols that do not use the lists of the API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Sequence
from contextlib import aclosing

from mangrove.core.chunked import in_batches, iterate_chunked
from mangrove.core.problems import EntryNotFound, NotAFolder, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import look_up, look_up_folder
from mangrove.tree.listing.objects import find_virtual_entry
from mangrove.tree.listing.opening import exclude_names, explain_folder_failure, open_pages
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.listing.rows import make_mount_entry

ENTRIES_PER_PAGE = 1000  # of a folder that its storage lists in pages
ENTRIES_PER_BATCH = 512  # of a folder that is listed at once: about 2 ms


async def stat(access: PathAccess) -> Entry:
    """Return the entry at the path: an entry of a storage, a mount, or a folder that only leads to mounts.

    Raise EntryNotFound, NotReadable, or the driver's StorageProblem.
    """
    access.require_read()
    virtual = find_virtual_entry(access)
    return virtual[0] if virtual is not None else await look_up(await access.locate(""), to_show=True)


async def find_known(access: PathAccess) -> Entry | None:
    """Return the entry at the path. Return None if there is none or the caller may not read it."""
    if not access.may_read():
        return None
    try:
        return await stat(access)
    except EntryNotFound:
        return None


async def iterate(access: PathAccess) -> AsyncIterator[Entry]:
    """Yield the entries in a folder as `iterate_batches` does, one by one."""
    async with aclosing(iterate_batches(access)) as batches:
        async for batch in batches:
            async for entry in iterate_chunked(batch):
                yield entry


async def iterate_batches(access: PathAccess) -> AsyncGenerator[Sequence[Entry], None]:
    """Yield the entries in a folder that the caller may see: its storage's entries, then the mounts without an entry.

    For a storage that lists in pages, at most one page is read ahead, and a mount hides an entry of its name.
    """
    access.require_read()
    virtual = access.find_virtual_folders()
    folder = await open_pages(access, bool(virtual))
    visibility = access.make_visibility_filter()
    if isinstance(folder, PagedFolder):

        def test(entry: Entry) -> bool:
            return entry.name not in virtual and visibility.passes(entry)

        async for page in _iterate_pages(access, folder, (visibility.key, frozenset(virtual)), test):
            yield page
    elif folder is not None:
        virtual = exclude_names(virtual, folder)
        async for batch in in_batches(folder.entries, ENTRIES_PER_BATCH):
            yield visibility.select(batch)
    yield [make_mount_entry(name, mount) for name, mount in virtual.items()]


async def _iterate_pages(
    access: PathAccess, folder: PagedFolder, key: Hashable, test: Callable[[Entry], bool]
) -> AsyncIterator[Sequence[Entry]]:
    start, is_end = 0, False
    while not is_end:
        try:
            part = await folder.read(key, test, start, start + ENTRIES_PER_PAGE)
        except StorageProblem as problem:
            raise explain_folder_failure(access, problem) from problem
        yield part.entries
        start += len(part.entries)
        is_end = len(part.entries) < ENTRIES_PER_PAGE


async def require_folder(access: PathAccess) -> None:
    """Raise EntryNotFound or NotAFolder unless there is a folder at the path."""
    if not (await _find_kind(access)).is_dir:
        raise NotAFolder


async def exists(access: PathAccess) -> bool:
    """True if there is an entry at the path that the caller may read."""
    if not access.may_read():
        return False
    try:
        await _find_kind(access)
    except EntryNotFound:
        return False
    return True


async def _find_kind(access: PathAccess) -> Entry:
    """Return the entry at the path as `stat` does. If it is a folder, its time may be older."""
    access.require_read()
    virtual = find_virtual_entry(access)
    return virtual[0] if virtual is not None else await look_up_folder(await access.locate(""))


def format_etag(entry: Entry) -> str:
    """Return a strong validator of a file, with quotes."""
    if entry.etag or entry.hashes:
        return f'"{entry.etag or max((entry.hashes or {}).values())}"'
    size = "" if entry.size is None else f"{entry.size:x}"
    return f'"{int(entry.modified * 1e9):x}-{size}"'
