"""Copies between folders of this machine that are done at once: clones, and files that are small enough."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from mangrove.drivers.base import CopyRequest, Entry
from mangrove.drivers.local import tmpfile
from mangrove.drivers.local.durability import Durability, sync_file
from mangrove.drivers.local.open_folder import OpenFolder
from mangrove.drivers.local.ranges import RangeCopier
from mangrove.drivers.local.rooted import Root, check_wanted, translate_errors
from mangrove.drivers.local.versions import is_same
from mangrove.drivers.part_names import make_part_name
from mangrove.paths import TreePath
from mangrove.problems import Changed, NotSupported, StorageProblem

PART = 128 << 20  # bytes that one call copies: a killed worker leaves as much to be done again
AT_ONCE = 64 << 20  # bytes; more is work for a task
HELD = 160  # files that are copied before the first gets its name, so that they are flushed together


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
    """A whole copy that has no name yet, or the name `part`."""

    handle: int
    target: TreePath
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
            with OpenFolder(self._root) as origin, OpenFolder(self._root) as folders, translate_errors():
                handle, status = origin.open_file(path)
                try:
                    folder, name = folders.open_target(target, overwrite)
                    copied = self._copy_file(self._root, handle, status, folder, target, overwrite)
                finally:
                    os.close(handle)
                self._commit(copied, folder, name, durable)
        else:
            raise StorageProblem("cannot copy a device")
        if durable:
            self._durability.sync_names([target])

    def copy_from(self, source: Root, files: Sequence[CopyRequest]) -> list[StorageProblem | None]:
        """Copy small files from another root; the problem of each, or None. Files of one folder that come one after the
        other cost least: a folder is opened once for all of them."""
        results: list[StorageProblem | None] = []
        with OpenFolder(source) as origin, OpenFolder(self._root) as target:
            for start in range(0, len(files), HELD):
                batch = files[start : start + HELD]
                if any(file.durable for file in batch):
                    results += self._copy_durably(origin, target, batch)
                else:
                    results += [self._copy_one(origin, target, file) for file in batch]
        return results

    def _copy_one(self, origin: OpenFolder, target: OpenFolder, file: CopyRequest) -> StorageProblem | None:
        try:
            copied, folder, name = self._copy_request(origin, target, file)
            with translate_errors():
                self._commit(copied, folder, name)
        except StorageProblem as problem:
            return problem
        return None

    def _copy_durably(
        self, origin: OpenFolder, target: OpenFolder, files: Sequence[CopyRequest]
    ) -> list[StorageProblem | None]:
        """First all bytes, then all names: so few flushes are enough for many files."""
        results: list[StorageProblem | None] = [None] * len(files)
        copies: dict[int, CopiedFile] = {}
        for index, file in enumerate(files):
            try:
                copies[index], _, _ = self._copy_request(origin, target, file)
            except StorageProblem as problem:
                results[index] = problem
        try:
            with translate_errors():
                self._durability.sync_files([copied.handle for copied in copies.values()])
        except StorageProblem as problem:
            for copied in copies.values():
                self._discard(target, copied)
            return [result or problem for result in results]
        for index, copied in copies.items():
            try:
                folder, name = target.open_target(copied.target, copied.overwrite)
            except StorageProblem as problem:
                self._discard(target, copied)
                results[index] = problem
                continue
            try:
                with translate_errors():
                    self._commit(copied, folder, name)
            except StorageProblem as problem:
                results[index] = problem
        try:
            self._durability.sync_names(files[index].target for index in copies if results[index] is None)
        except StorageProblem as problem:
            return [result or problem for result in results]
        return results

    def _discard(self, target: OpenFolder, copied: CopiedFile) -> None:
        os.close(copied.handle)
        with suppress(StorageProblem):
            folder, _ = target.open_target(copied.target, overwrite=True)
            tmpfile.discard(folder, copied.part)

    def _copy_request(self, origin: OpenFolder, target: OpenFolder, file: CopyRequest) -> tuple[CopiedFile, int, str]:
        """A copy of the file that is asked for, the folder where it is to be, and its name there; Changed when the file
        is another one by now."""
        handle, status = origin.open_file(file.source)
        try:
            if not is_same(status, Entry("", file.size, file.modified, False, etag=file.etag)):
                raise Changed("the source changed since the task began")
            folder, name = target.open_target(file.target, file.overwrite)
            with translate_errors():
                return self._copy_file(origin.root, handle, status, folder, file.target, file.overwrite), folder, name
        finally:
            os.close(handle)

    def _copy_empty_folder(self, path: TreePath, target: TreePath) -> None:
        with self._root.open_folder(path) as handle, os.scandir(handle) as items:
            if next(items, None) is not None:
                raise NotSupported
        with self._root.open_parent(target) as (folder, name):
            os.mkdir(name, self._root.limit_mode(0o777), dir_fd=folder)
        self._durability.forget(target)

    def _copy_file(
        self, root: Root, source: int, status: os.stat_result, folder: int, target: TreePath, overwrite: bool
    ) -> CopiedFile:
        """Copy an open file of `root` with its times into the folder of its target; refused when it is no longer what
        `status` says once it is copied."""
        part = make_part_name()
        mode = self._root.limit_mode(root.extend_mode(stat.S_IMODE(status.st_mode)))
        copied = tmpfile.create(folder, part, mode)
        try:
            self._copy_bytes(source, copied, status.st_size)
            now = os.fstat(source)
            if (now.st_mtime_ns, now.st_size) != (status.st_mtime_ns, status.st_size):
                raise Changed("the source changed while it was copied")
            os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))
        except BaseException:
            os.close(copied)
            tmpfile.discard(folder, part)
            raise
        return CopiedFile(copied, target, part, overwrite)

    def _copy_bytes(self, source: int, copied: int, size: int) -> None:
        done = self.ranges.copy_whole(source, copied, size, AT_ONCE)
        if done is None:
            raise NotSupported
        if done < size:
            raise Changed("the file became shorter while it was copied")

    def _commit(self, copied: CopiedFile, folder: int, name: str, durable: bool = False) -> None:
        """Give a copy its name in the folder of its target; without one, it is removed."""
        try:
            if durable:
                sync_file(copied.handle)
            check_wanted()
            tmpfile.commit(copied.handle, folder, copied.part, name, overwrite=copied.overwrite)
        except BaseException:
            tmpfile.discard(folder, copied.part)
            raise
        finally:
            os.close(copied.handle)

    def copy_range(self, source: Root, path: TreePath, copied: int, offset: int, length: int) -> int:
        """Copy a range of a file of another root to the same offset of an open file; the bytes copied."""
        with open_file(source, path) as handle, translate_errors():
            return self.ranges.copy(handle, copied, offset, length)
