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
from mangrove.drivers.local.ranges import RangeCopier
from mangrove.drivers.local.rooted import Root, check_wanted, translate_errors
from mangrove.drivers.local.versions import is_same
from mangrove.drivers.part_names import make_part_name
from mangrove.paths import TreePath
from mangrove.problems import Changed, Exists, NotFound, NotSupported, StorageProblem

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
            with open_file(self._root, path) as handle:
                self._refuse_existing(target, overwrite)
                with self._root.open_target(target) as (folder, name):
                    status = os.fstat(handle)
                    copied = self._copy_file(self._root, handle, status, folder, target, overwrite)
                    self._commit(copied, folder, name, durable)
        else:
            raise StorageProblem("cannot copy a device")
        if durable:
            self._durability.sync_names([target])

    def copy_from(self, source: Root, files: Sequence[CopyRequest]) -> list[StorageProblem | None]:
        """Copy small files from another root; the problem of each, or None."""
        results: list[StorageProblem | None] = []
        for start in range(0, len(files), HELD):
            batch = files[start : start + HELD]
            if any(file.durable for file in batch):
                results += self._copy_durably(source, batch)
            else:
                results += [self._copy_one(source, file) for file in batch]
        return results

    def _copy_one(self, source: Root, file: CopyRequest) -> StorageProblem | None:
        try:
            with (
                self._open_request(source, file) as (handle, status),
                self._root.open_target(file.target) as (folder, name),
            ):
                copied = self._copy_file(source, handle, status, folder, file.target, file.overwrite)
                self._commit(copied, folder, name)
        except StorageProblem as problem:
            return problem
        return None

    def _copy_durably(self, source: Root, files: Sequence[CopyRequest]) -> list[StorageProblem | None]:
        """First all bytes, then all names: so few flushes are enough for many files."""
        results: list[StorageProblem | None] = [None] * len(files)
        copies: dict[int, CopiedFile] = {}
        for index, file in enumerate(files):
            try:
                with (
                    self._open_request(source, file) as (handle, status),
                    self._root.open_target(file.target) as (folder, _),
                ):
                    copies[index] = self._copy_file(source, handle, status, folder, file.target, file.overwrite)
            except StorageProblem as problem:
                results[index] = problem
        try:
            with translate_errors():
                self._durability.sync_files([copied.handle for copied in copies.values()])
        except StorageProblem as problem:
            for copied in copies.values():
                with suppress(StorageProblem), self._root.open_target(copied.target) as (folder, _):
                    tmpfile.discard(folder, copied.part)
                os.close(copied.handle)
            return [result or problem for result in results]
        for index, copied in copies.items():
            try:
                with self._root.open_target(copied.target) as (folder, name):
                    self._commit(copied, folder, name)
            except StorageProblem as problem:
                results[index] = problem
        try:
            self._durability.sync_names(files[index].target for index in copies if results[index] is None)
        except StorageProblem as problem:
            return [result or problem for result in results]
        return results

    @contextmanager
    def _open_request(self, source: Root, file: CopyRequest) -> Iterator[tuple[int, os.stat_result]]:
        """A handle of the file that is to be copied, and its status; Changed when it is another one by now."""
        with open_file(source, file.source) as handle:
            status = os.fstat(handle)
            if not is_same(status, Entry("", file.size, file.modified, False, etag=file.etag)):
                raise Changed("the source changed since the task began")
            self._refuse_existing(file.target, file.overwrite)
            yield handle, status

    def _refuse_existing(self, target: TreePath, overwrite: bool) -> None:
        """A look before the bytes are copied for nothing; what counts is what is there when the copy gets its name."""
        if not overwrite:
            with suppress(NotFound):
                self._root.stat(target)
                raise Exists

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
