"""Folders that are listed, and small files that are read whole."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, Problem, StorageProblem
from mangrove.drivers.base import Entry, FolderBatch, WholeFile
from mangrove.drivers.local import quarantine
from mangrove.drivers.local.blocks import FileHandle
from mangrove.drivers.local.rooted import OpenFolders, Root, is_same, is_unchanged, make_problem, translate_errors
from mangrove.drivers.local.sorted_names import RUN_NAMES, SortedNames
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
        self._parts: Iterator[list[str]] = iter(())  # the following names in order
        self._names: list[str] = []  # the next of them, the first one at the end: each is released when it is taken
        self._is_complete = True  # no name is left in `_parts`
        self._handle: FileHandle | None = None
        self._defers_details = False
        self._in_quarantine: list[str] = []  # names of quarantine folders that were found
        self._links: set[str] = set()  # the names of links, filled only if details are deferred
        self._folders: set[str] = set()  # those of folders, likewise

    @property
    def has_more(self) -> bool:
        """True if there may be another batch."""
        return bool(self._names) or not self._is_complete

    async def iterate_batches(
        self, show_hidden: bool, *, defers_details: bool = False
    ) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries in batches; see `begin`."""
        if batch := await self._threads.run(self.begin, show_hidden, defers_details):
            yield batch
        while self.has_more:
            if batch := await self._threads.run(self.read_batch):
                yield batch

    def begin(self, show_hidden: bool, defers_details: bool = False, end: float = math.inf) -> Sequence[Entry]:
        """The first entries; none in an empty folder, or if not all names are read at `end` (of `time.monotonic`).

        With `defers_details`, batches without a link are NamedEntries if the folder has more than one batch.
        """
        with self._root.open_folder(self._path) as handle:
            self._defers_details = defers_details and not self._is_detailed
            self._parts, self._is_complete = self._iterate_names(handle, show_hidden), False
            batch = self._read_batch(handle, end)
            if self.has_more:
                self._handle = FileHandle(os.dup(handle), self._threads)
        return batch

    def _iterate_names(self, handle: int, show_hidden: bool) -> Iterator[list[str]]:
        """Yield the shown names in order. Some lists are empty: each takes a few milliseconds.

        If details are deferred and there is more than one batch, note which are folders and links.
        """
        names = SortedNames()
        with os.scandir(handle) as scanned:
            entries = list(islice(scanned, BATCH + 1))
            self._defers_details = self._defers_details and len(entries) > BATCH and _may_read_details(handle)
            while entries:
                names.add(self._select_shown([entry.name for entry in entries], show_hidden))
                if self._defers_details:
                    self._note_kinds(entries)
                entries = list(islice(scanned, RUN_NAMES))
                if entries:
                    yield []
        yield from names.take()

    def _select_shown(self, names: list[str], show_hidden: bool) -> list[str]:
        """Return the names that are shown: at once if none of them needs a closer look, as is usual."""
        joined = "/" + "/".join(names)
        if joined.isascii() and "/." not in joined and "\\" not in joined:
            return names
        self._in_quarantine += [name for name in names if name.startswith(quarantine.PREFIX)]
        return [name for name in names if _is_shown(name, show_hidden)]

    def _note_kinds(self, entries: Sequence[os.DirEntry[str]]) -> None:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                continue
            if entry.is_symlink():
                self._links.add(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                self._folders.add(entry.name)

    def _take_part(self, handle: int) -> None:
        """Take the next names."""
        part = next(self._parts, None)
        if part is not None:
            part.reverse()
            self._names = part + self._names
            return
        self._is_complete = True
        while self._in_quarantine:
            quarantine.restore_left(handle, self._in_quarantine.pop())

    def _fill(self, handle: int, end: float = math.inf) -> bool:
        """Take names until there are more than one batch or all. Return False if this is not done at `end`."""
        while self._lacks_names():
            self._take_part(handle)  # the first time before the handle of `begin` is closed
            if time.monotonic() > end:
                break
        return not self._lacks_names()

    def _lacks_names(self) -> bool:
        return not self._is_complete and len(self._names) <= BATCH

    def read_batch(self, end: float = math.inf) -> Sequence[Entry]:
        """The next entries; none at the end, or if not all names are read at `end`."""
        if self._handle is None:
            return ()
        with translate_errors():
            return self._read_batch(self._handle.number, end)

    def read_details(self, names: Sequence[str]) -> list[Entry | None]:
        """Return the entries with these names; None for each one that would not be listed."""
        with self._root.open_folder(self._path) as handle:
            return [self._read_entry(handle, name) for name in names]

    def _take_named(self, handle: int) -> NamedEntries:
        """Take the entries before the first batch that has a link."""
        names: list[str] = []
        while self._names and len(names) < MAX_NAMED_ENTRIES and self._links.isdisjoint(self._names[-BATCH:]):
            names += self._names[: -BATCH - 1 : -1]
            del self._names[-BATCH:]
            self._fill(handle)
        return NamedEntries(names, bytes(map(self._folders.__contains__, names)))

    def _read_batch(self, handle: int, end: float) -> Sequence[Entry]:
        if not self._fill(handle, end):
            return ()
        if self._defers_details and (named := self._take_named(handle)):
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
            batches.append(self._read_next(end))
            count += len(batches[-1].entries)
        return batches

    def _read_next(self, end: float) -> FolderBatch:
        scan, self._open = self._open, None
        if scan is None:
            self._next += 1
        number = self._next - 1
        try:
            if scan is None:
                scan = self._make_scan(self._paths[number])
                entries = scan.begin(self._show_hidden, end=end)
            else:
                entries = scan.read_batch(end)
        except StorageProblem as problem:
            return FolderBatch(number, (), problem)
        self._open = scan if scan.has_more else None
        return FolderBatch(number, entries)


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
