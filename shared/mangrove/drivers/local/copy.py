"""Copies between folders of this machine that are done at once: clones, and files that are small enough."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mangrove.core.descriptors import count_free_for_bulk
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryChanged, NotSupported, StorageProblem
from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local import tmpfile
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.open_folders import OpenFolder, OpenFolders
from mangrove.drivers.local.ranges import Devices, RangeCopier
from mangrove.drivers.local.rooted import Root, check_wanted, make_problem, translate_errors
from mangrove.drivers.local.versions import is_same
from mangrove.drivers.part_names import make_part_name

PART = 128 << 20  # bytes that one call copies: a killed worker leaves as much to be done again
AT_ONCE = 64 << 20  # bytes; more is work for a task
MAX_BATCH = 512  # files that are copied before the first gets its name, so that they are flushed together
DESCRIPTORS_PER_FILE = 6  # of a batch: the copy, the folders at both ends; as much again for another thread


@contextmanager
def open_file(root: Root, path: TreePath) -> Iterator[int]:
    """A handle of a regular file, for reading."""
    handle = root.open(path)
    try:
        yield handle
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A whole copy that is to be `name` in its open folder; it has no name there yet, or `part`."""

    handle: int
    folder: OpenFolder
    name: str
    part: str
    overwrite: bool


class FileCopier:
    """Copies files into one root. All methods block; they are called in threads."""

    def __init__(self, root: Root, durability: Durability) -> None:
        self._root = root
        self._durability = durability
        self.ranges = RangeCopier()

    def copy(self, path: TreePath, target: TreePath, overwrite: bool, durable: bool) -> None:
        """Copy a file, or a folder without content; NotSupported for what needs a task. Never follows a link."""
        mode = self._root.stat(path).st_mode
        if stat.S_ISDIR(mode):
            self._copy_empty_folder(path, target)
        elif stat.S_ISREG(mode):
            with OpenFolders(self._root) as folders, translate_errors():
                handle, status = folders.open_file(path)
                try:
                    folder, name = folders.open_target(target, overwrite)
                    copied = self._copy_open_file(self._root, handle, status, folder, name, overwrite)
                finally:
                    os.close(handle)
                if durable:
                    self._sync_bytes([copied])
                self._commit(copied)
        else:
            raise StorageProblem("cannot copy a device")
        if durable:
            self._durability.sync_names([target])

    def copy_from(self, source: Root, files: Sequence[CopyRequest]) -> list[StorageProblem | None]:
        """Copy small files from another root; return the problem of each, or None.

        Each folder is opened once for a batch, which has as many files as there are free descriptors for.
        """
        results: list[StorageProblem | None] = []
        while len(results) < len(files):
            size = min(MAX_BATCH, max(1, count_free_for_bulk() // DESCRIPTORS_PER_FILE))
            with OpenFolders(source) as origin, OpenFolders(self._root) as target:
                results += self._copy_batch(origin, target, files[len(results) : len(results) + size])
        return results

    def _copy_batch(
        self, origin: OpenFolders, target: OpenFolders, files: Sequence[CopyRequest]
    ) -> list[StorageProblem | None]:
        results: list[StorageProblem | None] = [None] * len(files)
        unsynced: dict[int, CopiedFile] = {}
        for index, file in enumerate(files):
            try:
                copied = self._copy_request(origin, target, file)
                if file.durable:
                    unsynced[index] = copied
                else:
                    self._commit(copied)
            except OSError as error:
                results[index] = make_problem(error)
            except StorageProblem as problem:
                results[index] = problem
        if unsynced:
            self._commit_durably(files, unsynced, results)
        return results

    def _commit_durably(
        self, files: Sequence[CopyRequest], copies: Mapping[int, CopiedFile], results: list[StorageProblem | None]
    ) -> None:
        """First all bytes, then all names, then the folders: so few flushes are enough for many files."""
        try:
            self._sync_bytes(copies.values())
        except OSError as error:
            for index in copies:
                results[index] = make_problem(error)
            return
        named: dict[int, TreePath] = {}  # by the handles of folders, one in each
        for index, copied in copies.items():
            try:
                self._commit(copied)
                named[copied.folder.handle] = files[index].target
            except OSError as error:
                results[index] = make_problem(error)
            except StorageProblem as problem:
                results[index] = problem
        try:
            self._durability.sync_names(named.values())
        except StorageProblem as problem:
            for index in copies:
                results[index] = results[index] or problem

    def _sync_bytes(self, copies: Collection[CopiedFile]) -> None:
        """Make the bytes of copies survive; without that, all are dropped."""
        try:
            self._durability.sync_files({copied.handle: copied.folder.device for copied in copies})
        except BaseException:
            for copied in copies:
                _drop(copied)
            raise

    def _copy_request(self, origin: OpenFolders, target: OpenFolders, file: CopyRequest) -> CopiedFile:
        """A copy of the file that is asked for; EntryChanged when it is another one by now."""
        handle, status = origin.open_file(file.source)
        try:
            if not is_same(status, file):
                raise EntryChanged("the source changed since the task began")
            folder, name = target.open_target(file.target, file.overwrite)
            return self._copy_open_file(origin.root, handle, status, folder, name, file.overwrite)
        finally:
            os.close(handle)

    def _copy_empty_folder(self, path: TreePath, target: TreePath) -> None:
        with self._root.open_folder(path) as handle, os.scandir(handle) as items:
            if next(items, None) is not None:
                raise NotSupported
        with self._root.open_parent(target) as (folder, name):
            os.mkdir(name, self._root.limit_mode(0o777), dir_fd=folder)
        self._durability.forget(target)

    def _copy_open_file(
        self, root: Root, source: int, status: os.stat_result, folder: OpenFolder, name: str, overwrite: bool
    ) -> CopiedFile:
        """Copy an open file of `root` with its times; refused when it is no longer what `status` says once it is
        copied."""
        mode = self._root.limit_mode(root.extend_mode(stat.S_IMODE(status.st_mode)))
        part, handle = "", tmpfile.create_nameless(folder.handle, mode)
        if handle is None:
            part = make_part_name()
            handle = tmpfile.create_named(folder.handle, part, mode)
        copied = CopiedFile(handle, folder, name, part, overwrite)
        try:
            platform().require_space(handle)
            self._copy_bytes(source, handle, status.st_size, (status.st_dev, folder.device))
            now = os.fstat(source)
            if (now.st_mtime_ns, now.st_size) != (status.st_mtime_ns, status.st_size):
                raise EntryChanged("the source changed while it was copied")
            os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))
        except BaseException:
            _drop(copied)
            raise
        return copied

    def _copy_bytes(self, source: int, copied: int, size: int, devices: Devices) -> None:
        done = self.ranges.copy_whole(source, copied, size, AT_ONCE, devices)
        if done is None:
            raise NotSupported
        if done < size:
            raise EntryChanged("the file became shorter while it was copied")

    def _commit(self, copied: CopiedFile) -> None:
        """Give a copy its name; without one, it is removed."""
        handle, folder, part = copied.handle, copied.folder.handle, copied.part
        try:
            check_wanted()
            if part:
                tmpfile.commit(handle, folder, part, copied.name, overwrite=copied.overwrite)
            else:
                tmpfile.commit_nameless(handle, folder, copied.name, overwrite=copied.overwrite)
        except BaseException:
            _drop(copied)
            raise
        os.close(handle)

    def copy_range(self, source: Root, path: TreePath, copied: int, offset: int, length: int) -> int:
        """Copy a range of a file of another root to the same offset of an open file; the bytes copied."""
        platform().require_space(copied)
        with open_file(source, path) as handle, translate_errors():
            return self.ranges.copy(handle, copied, offset, length)


def _drop(copied: CopiedFile) -> None:
    """Remove a copy that is not to be."""
    os.close(copied.handle)
    if copied.part:
        tmpfile.discard(copied.folder.handle, copied.part)
