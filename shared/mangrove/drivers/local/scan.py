"""Folders that are listed, and small files that are read whole."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import chain, islice

from mangrove.core.chunked import sort_chunked
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, Problem, StorageProblem
from mangrove.drivers.base import Entry, FolderBatch, WholeFile
from mangrove.drivers.local import quarantine
from mangrove.drivers.local.blocks import FileHandle
from mangrove.drivers.local.rooted import OpenFolders, Root, is_same, is_unchanged, make_problem
from mangrove.drivers.part_names import is_part
from mangrove.drivers.plain_entries import NamedEntries, PlainEntries
from mangrove.drivers.threads import StorageThreads

BATCH = 2000  # entries; some milliseconds of work
MAX_NAMED_ENTRIES = 100_000  # in a batch without details: the names of one batch are in memory twice
CALL_SECONDS = 0.02  # after which no further folder is started in the same call

MakeEntry = Callable[[str, os.stat_result, TreePath], Entry]


class FolderScan:
    """One reading of the folder `path`; its calls are made in `threads`, one after the other.

    `make_entry` describes entries that are not plain files. Those from the first link on, or all if `is_detailed`, may
    have more than a name, a size, a time and a kind.
    """

    def __init__(
        self, root: Root, threads: StorageThreads, path: TreePath, make_entry: MakeEntry, is_detailed: bool
    ) -> None:
        self._root = root
        self._threads = threads
        self._path = path
        self._make_entry = make_entry
        self._is_detailed = is_detailed
        self._names: list[str] = []  # the remaining ones, the next one at the end: each is released when it is taken
        self._handle: FileHandle | None = None
        self._defers_details = False
        self._links: set[str] = set()  # the names of links, filled only if details are deferred
        self._folders: set[str] = set()  # those of folders, likewise

    @property
    def has_more(self) -> bool:
        """True if there may be another batch."""
        return bool(self._names)

    async def iterate_batches(
        self, show_hidden: bool, *, defers_details: bool = False
    ) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries in batches; see `begin`."""
        batch = await self._threads.run(self.begin, show_hidden, defers_details)
        while batch:
            yield batch
            batch = await self._threads.run(self.read_batch) if self.has_more else ()

    def begin(self, show_hidden: bool, defers_details: bool = False) -> Sequence[Entry]:
        """The first entries; none in an empty folder.

        With `defers_details`, batches without a link are NamedEntries if the folder has more than one batch.
        """
        with self._root.open_folder(self._path) as handle:
            defers_details = defers_details and not self._is_detailed
            names = self._read_kinds(handle) if defers_details else os.listdir(handle)
            for name in names:
                if name.startswith(quarantine.PREFIX):
                    quarantine.restore_left(handle, name)
            self._names = [name for part in sort_chunked(names) for name in _select_shown(part, show_hidden)]
            self._names.reverse()
            self._defers_details = defers_details and len(self._names) > BATCH and _may_read_details(handle)
            batch = self._read_batch(handle)
            if self._names:
                self._handle = FileHandle(os.dup(handle), self._threads)
        return batch

    def _read_kinds(self, handle: int) -> list[str]:
        """Return the names in the folder. If it has more than one batch, note which are folders and links."""
        names: list[str] = []
        with os.scandir(handle) as scanned:
            first = list(islice(scanned, BATCH + 1))
            if len(first) <= BATCH:
                return [entry.name for entry in first]
            for entry in chain(first, scanned):
                names.append(entry.name)
                if not entry.is_file(follow_symlinks=False):
                    self._note_kind(entry)
        return names

    def _note_kind(self, entry: os.DirEntry[str]) -> None:
        if entry.is_symlink():
            self._links.add(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            self._folders.add(entry.name)

    def read_batch(self) -> Sequence[Entry]:
        """The next entries; none at the end."""
        return self._read_batch(self._handle.number) if self._handle is not None else ()

    def read_details(self, names: Sequence[str]) -> list[Entry | None]:
        """Return the entries with these names; None for each one that would not be listed."""
        with self._root.open_folder(self._path) as handle:
            return [self._read_entry(handle, name) for name in names]

    def _take_names(self) -> NamedEntries:
        """Take the entries before the first batch that has a link."""
        names: list[str] = []
        while self._names and len(names) < MAX_NAMED_ENTRIES and self._links.isdisjoint(self._names[-BATCH:]):
            names += self._names[: -BATCH - 1 : -1]
            del self._names[-BATCH:]
        return NamedEntries(names, bytes(map(self._folders.__contains__, names)))

    def _read_batch(self, handle: int) -> Sequence[Entry]:
        if self._defers_details and (named := self._take_names()):
            return named
        batch = PlainEntries()
        if not self._is_detailed:
            self._read_plain(handle, batch)
        return [*batch, *self._read_detailed(handle, BATCH - len(batch))] if self._is_detailed else batch

    def _read_plain(self, handle: int, batch: PlainEntries) -> None:
        """Add files and folders to a batch, up to the first link."""
        names, read, is_file = self._names, os.stat, stat.S_ISREG
        added, sizes, modified, dirs = batch.names, batch.sizes, batch.modified, batch.dirs
        while names and len(added) < BATCH:
            name = names.pop()
            try:
                status = read(name, dir_fd=handle, follow_symlinks=False)
                if is_file(status.st_mode):
                    added.append(name)
                    sizes.append(status.st_size)
                    modified.append(status.st_mtime)
                    dirs.append(False)
                elif stat.S_ISLNK(status.st_mode):
                    names.append(name)
                    self._is_detailed = True
                    return
                else:
                    entry = self._make_entry(name, status, self._path)
                    batch.add(entry)
            except (Problem, OSError):
                continue  # removed meanwhile

    def _read_detailed(self, handle: int, count: int) -> Sequence[Entry]:
        entries: list[Entry] = []
        while self._names and len(entries) < count:
            entry = self._read_entry(handle, self._names.pop())
            if entry is not None:
                entries.append(entry)
        return entries

    def _read_entry(self, handle: int, name: str) -> Entry | None:
        """Return an entry. Return None for a link that leaves the root or leads nowhere, or if it was removed."""
        try:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = self._root.stat(self._path / name)
                return self._make_entry(name, target, self._path)._replace(is_link=True)
            return self._make_entry(name, status, self._path)
        except (Problem, OSError):
            return None


class FoldersScan:
    """One reading of several folders, in about as few calls as there are batches of entries in them.

    `make_scan` makes the reading of a folder.
    """

    def __init__(
        self, paths: Sequence[TreePath], make_scan: Callable[[TreePath], FolderScan], show_hidden: bool
    ) -> None:
        self._paths = paths
        self._make_scan = make_scan
        self._show_hidden = show_hidden
        self._next = 0
        self._open: FolderScan | None = None  # of the folder before the next one, while there is more of it

    @property
    def has_more(self) -> bool:
        """True if there is another batch."""
        return self._open is not None or self._next < len(self._paths)

    def read_batch(self) -> Sequence[FolderBatch]:
        """Return the next batch: as many folders as are fast to read, or have few entries together."""
        batches: list[FolderBatch] = []
        count, end = 0, time.monotonic() + CALL_SECONDS
        while self.has_more and count < BATCH and (not batches or time.monotonic() < end):
            batches.append(self._read_next())
            count += len(batches[-1].entries)
        return batches

    def _read_next(self) -> FolderBatch:
        scan, self._open = self._open, None
        if scan is None:
            self._next += 1
        number = self._next - 1
        try:
            if scan is None:
                scan = self._make_scan(self._paths[number])
                entries = scan.begin(self._show_hidden)
            else:
                entries = scan.read_batch()
        except StorageProblem as problem:
            return FolderBatch(number, (), problem)
        self._open = scan if scan.has_more else None
        return FolderBatch(number, entries)


def _select_shown(names: Sequence[str], show_hidden: bool) -> Sequence[str]:
    """Return the names that are shown: at once if none of them needs a closer look, as is usual."""
    joined = "/" + "/".join(names)
    if joined.isascii() and "/." not in joined and "\\" not in joined:
        return names
    return [name for name in names if _is_shown(name, show_hidden)]


def _may_read_details(folder: int) -> bool:
    return os.access(".", os.X_OK, dir_fd=folder, effective_ids=True)


def _is_shown(name: str, show_hidden: bool) -> bool:
    if name[0] == "." and (not show_hidden or is_part(name)):
        return False
    return (name.isascii() or _is_unicode(name)) and "\\" not in name


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


MakeFileEntry = Callable[[TreePath, os.stat_result], Entry]


def read_whole(
    root: Root, files: Sequence[tuple[TreePath, Entry]], make_entry: MakeFileEntry
) -> list[WholeFile | StorageProblem]:
    """See `ReadsWhole`; blocks. Each folder is opened once."""
    results: list[WholeFile | StorageProblem] = []
    with OpenFolders(root) as folders:
        for path, shown in files:
            try:
                status, content = _read(folders, path, shown)
            except StorageProblem as problem:
                results.append(problem)
            else:
                results.append(WholeFile(content, partial(make_entry, path, status)))
    return results


def _read(folders: OpenFolders, path: TreePath, shown: Entry) -> tuple[os.stat_result, bytes]:
    if is_part(path.name):
        raise EntryNotFound
    handle, status = folders.open_file(path)
    try:
        if not is_same(status, shown):
            raise EntryChanged
        content = _read_bytes(handle, status.st_size)
        now = os.fstat(handle)
    except OSError as error:
        raise make_problem(error) from error
    finally:
        os.close(handle)
    if len(content) != status.st_size or not is_unchanged(status, now):
        raise EntryChanged
    return status, content


def _read_bytes(handle: int, size: int) -> bytes:
    """Return the first bytes of a file, fewer if it has no more."""
    content = os.pread(handle, size, 0)
    while len(content) < size and (more := os.pread(handle, size - len(content), len(content))):
        content += more
    return content
