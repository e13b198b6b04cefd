"""The files of a selection as an archive takes them: walked, and read where the rules allow it at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

from mangrove.configuration.values import Settings
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TRASH, TreePath, check_existing_name
from mangrove.core.problems import EntryChanged, EntryNotFound, NotReadable, Problem, TooLarge
from mangrove.drivers.base import Entry, WholeFile
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.mounts import StoragePath

SMALL_FILE_BYTES = 256 << 10  # which are read as a whole, in groups
MAX_GROUP_FILES = 128
MAX_GROUP_BYTES = 4 << 20  # in memory
READ_CONCURRENCY = 8  # small files of a storage that reads them one by one
PLAN_SECONDS = 20.0  # for the walk before the first byte of an answer
UNREADABLE = "the file cannot be read"
LINK_IS_NOT_FOLLOWED = "the link to a folder is not followed"

Authorize = Callable[[], Awaitable[PathAccess]]
"""Returns the folder of the selection as its user may read it now. A Problem ends the archive."""


class PackedEntry(NamedTuple):
    """A file or folder of a selection, as the walk found it."""

    path: str
    """The path below the folder of the selection."""
    size: int | None
    """Bytes; None if unknown."""
    modified: float
    is_dir: bool
    etag: str = ""
    problem: str = ""
    """The reason why it cannot be read; "" if it can."""

    @property
    def is_small(self) -> bool:
        """True if the file is read as a whole."""
        is_readable = not self.is_dir and not self.problem
        return is_readable and self.size is not None and self.size <= SMALL_FILE_BYTES

    def to_entry(self) -> Entry:
        """Return what its storage lists, with the path as the name."""
        return Entry(self.path, self.size, self.modified, self.is_dir, etag=self.etag)


Batch = Sequence[PackedEntry]


def _make_entry(path: str, entry: Entry) -> PackedEntry:
    problem = LINK_IS_NOT_FOLLOWED if entry.is_dir and entry.is_link else ""
    return PackedEntry(path, entry.size, entry.modified, entry.is_dir, entry.etag, problem)


class PackLimits:
    """The bounds of what one archive holds."""

    def __init__(self, settings: Settings) -> None:
        self._max_files = settings.zip_max_files
        self._max_size = settings.zip_max_size
        self.count = 0
        """Files and folders so far."""
        self.size = 0
        """Bytes so far, of the files whose size is known."""

    def add(self, batch: Batch) -> None:
        """Count entries. Raise TooLarge above a bound."""
        self.count += len(batch)
        self.size += sum(packed.size or 0 for packed in batch)
        if self._max_files and self.count > self._max_files:
            raise TooLarge(f"more than {self._max_files} files and folders are too many for an archive")
        if self._max_size and self.size > self._max_size:
            raise TooLarge(f"more than {self._max_size >> 20} MiB are too large for an archive")


def find_access(root: PathAccess, path: str) -> PathAccess:
    """Return the access to a path below the folder of a selection, or below one of several shared entries."""
    if root.share is None or not root.share.roots:
        return root.with_path(root.path / path)
    name, _, below = path.partition("/")
    if name not in root.share.roots:
        raise EntryNotFound
    access = root.share.roots[name]
    return access.with_path(access.path / below) if below else access


def describe_problem(root: PathAccess, problem: Problem) -> str:
    """Return the reason why an entry cannot be read; visitors of a share link learn none, as it may name paths."""
    return problem.message if root.share is None else UNREADABLE


async def walk(root: PathAccess, names: Sequence[str], *, strict: bool = False) -> AsyncGenerator[Batch, None]:
    """Yield the entries `names` of a folder, or all its entries, with all that is below them, in batches.

    What the caller may not read, or not see, is left out. A folder that cannot be listed comes once more, with its
    problem. `strict`: raise the problem of an entry of `names`.
    """
    if not names:
        root.require_read()
        async for batch in _walk_folder(root, ""):
            yield batch
    for name in dict.fromkeys(names):
        selected = await _find(root, check_existing_name(name), strict)
        if selected is None:
            continue
        yield [selected]
        if selected.is_dir and not selected.problem:
            async for batch in _walk_folder(root, name):
                yield batch


async def _find(root: PathAccess, name: str, strict: bool) -> PackedEntry | None:
    """Return an entry with its problem; None if the caller may not read it."""
    try:
        return _make_entry(name, await entries.stat(find_access(root, name)))
    except Problem as problem:
        if strict:
            raise
        if isinstance(problem, NotReadable):
            return None
        return PackedEntry(name, 0, 0.0, False, problem=describe_problem(root, problem))


async def _walk_folder(root: PathAccess, start: str) -> AsyncGenerator[Batch, None]:
    waiting = [start]
    while waiting:
        folder = waiting.pop()
        subfolders: list[str] = []
        try:
            async for batch in _list_folder(root, folder):
                yield batch
                subfolders += [packed.path for packed in batch if packed.is_dir and not packed.problem]
        except EntryNotFound:
            if not folder:
                raise
            # else it was removed since its parent was listed
        except Problem as problem:
            if not folder:
                raise
            yield [PackedEntry(folder, 0, 0.0, True, problem=describe_problem(root, problem))]
        waiting.extend(reversed(subfolders))


async def _list_folder(root: PathAccess, folder: str) -> AsyncIterator[Batch]:
    access = find_access(root, folder)
    prefix = f"{folder}/" if folder else ""
    is_free = access.tree.rules.is_empty
    async for batch in entries.iterate_batches(access):
        yield [
            _make_entry(prefix + entry.name, entry)
            for entry in batch
            if entry.name != TRASH and (is_free or access.child(entry.name).may_read())
        ]


class ListedTooSlowly(TooLarge):
    """The selection cannot be listed in the time of a request."""

    text = "it takes too long to list what is to be packed: pack it as a task"


async def list_selection(root: PathAccess, names: Sequence[str], *, strict: bool = False) -> list[PackedEntry]:
    """Return what `walk` yields. Raise TooLarge above the bounds of an archive, ListedTooSlowly after PLAN_SECONDS."""
    bounds, rows = PackLimits(root.tree.settings), list[PackedEntry]()
    try:
        async with asyncio.timeout(PLAN_SECONDS), aclosing(walk(root, names, strict=strict)) as batches:
            async for batch in batches:
                bounds.add(batch)
                rows += batch
    except TimeoutError:
        raise ListedTooSlowly from None
    return rows


class _FileLocator:
    """Finds where files are. A folder without mounts is evaluated and located once for all its files."""

    def __init__(self, root: PathAccess) -> None:
        self._root = root
        self._folders: dict[str, tuple[PathAccess, StoragePath] | None] = {}

    async def locate(self, packed: PackedEntry) -> StoragePath:
        """Return where a file is. NotReadable if the caller may not read it now."""
        parent, _, name = packed.path.rpartition("/")
        if parent not in self._folders:
            self._folders[parent] = await self._find_folder(parent)
        folder = self._folders[parent]
        if folder is None:
            return await find_access(self._root, packed.path).require_read().locate()
        access, storage_path = folder
        if not access.tree.rules.is_empty:
            access.child(name).require_read()
        return storage_path.child(name)

    async def _find_folder(self, parent: str) -> tuple[PathAccess, StoragePath] | None:
        """Return a folder; None if another storage may have its entries."""
        if not parent and self._root.share is not None and self._root.share.roots:
            return None
        access = find_access(self._root, parent)
        if access.path in access.tree.table.ancestors:
            return None
        if access.tree.rules.is_empty:
            access.require_read()
        return access, await access.locate()


async def open_file(root: PathAccess, packed: PackedEntry, offset: int = 0) -> AsyncIterator[bytes]:
    """Open a file from `offset` on. NotReadable if the caller may not read it now, EntryChanged if it has changed since
    the walk."""
    storage_path = await _FileLocator(root).locate(packed)
    blocks = await storage_path.driver.read(storage_path.path, offset, None, packed.to_entry())
    return _check_length(blocks, None if packed.size is None else packed.size - offset)


async def _check_length(blocks: AsyncIterator[bytes], length: int | None) -> AsyncIterator[bytes]:
    """Yield the blocks. Raise EntryChanged before there are more bytes than `length`, and at the end if there are
    fewer."""
    source: Any = blocks
    count = 0
    async with aclosing(source):
        async for block in source:
            count += len(block)
            if length is not None and count > length:
                break
            yield block
    if length is not None and count != length:
        raise EntryChanged


Content = bytes | Problem
"""The bytes of a file, or the reason why there are none. NotReadable: it is left out."""


def split_groups(rows: Sequence[PackedEntry]) -> int:
    """Return how many of the first rows are read by one call of `read_small_files`."""
    size = 0
    for index, packed in enumerate(rows[:MAX_GROUP_FILES]):
        size += packed.size or 0
        if not packed.is_small or size > MAX_GROUP_BYTES:
            return index
    return min(len(rows), MAX_GROUP_FILES)


async def read_small_files(root: PathAccess, rows: Sequence[PackedEntry]) -> list[Content]:
    """Read small files, each whole and of the version that the walk found."""
    contents: list[Content] = [b""] * len(rows)
    groups: dict[int, list[tuple[int, StoragePath]]] = {}
    locator = _FileLocator(root)
    for index, packed in enumerate(rows):
        try:
            storage_path = await locator.locate(packed)
        except Problem as problem:
            contents[index] = problem
            continue
        groups.setdefault(id(storage_path.driver), []).append((index, storage_path))
    for group in groups.values():
        await _read_group(rows, group, contents)
    for index, packed in enumerate(rows):
        content = contents[index]
        if isinstance(content, bytes) and len(content) != packed.size:
            contents[index] = EntryChanged()
    return contents


async def _read_group(
    rows: Sequence[PackedEntry], group: Sequence[tuple[int, StoragePath]], contents: list[Content]
) -> None:
    """Read files of one storage into `contents`."""
    driver = group[0][1].driver
    if driver.capabilities.read_whole:
        requests = [(path.path, rows[index].to_entry()) for index, path in group]
        try:
            files: Sequence[WholeFile | Problem] = await driver.read_whole(requests)
        except Problem as problem:
            files = [problem] * len(group)
        for (index, _), file in zip(group, files, strict=True):
            contents[index] = file.content if isinstance(file, WholeFile) else file
        return
    reads = [partial(_read_file, path, rows[index]) for index, path in group]
    for (index, _), content in zip(group, await gather_bounded(reads, READ_CONCURRENCY), strict=True):
        contents[index] = content


async def _read_file(path: StoragePath, packed: PackedEntry) -> Content:
    try:
        blocks: Any = _check_length(await path.driver.read(path.path, 0, None, packed.to_entry()), packed.size)
        async with aclosing(blocks):
            return b"".join([block async for block in blocks])
    except Problem as problem:
        return problem


def find_root(folder: PathAccess) -> tuple[PathAccess, list[str]]:
    """Return the selection that is a whole folder: the folder is in the archive, unless it is the caller's root."""
    if folder.path == folder.base or folder.path == TreePath("/"):
        return folder, []
    return folder.parent, [folder.path.name]
