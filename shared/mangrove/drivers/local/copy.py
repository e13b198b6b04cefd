"""Copies between folders of this machine within a request: clones, ranges, and files that are small enough."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mangrove.core.descriptors import count_free_for_bulk
from mangrove.core.metering import get_meter
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryChanged, EntryExists, NotSupported, StorageProblem
from mangrove.drivers.base import BLOCK, CopyRequest
from mangrove.drivers.local.commits import (
    DESCRIPTORS_PER_FILE,
    MAX_BATCH,
    CompleteFile,
    Outcome,
    commit_durably,
    sync_bytes,
    try_commit,
)
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.rooted import (
    OpenFolder,
    OpenFolders,
    Root,
    is_same,
    make_problem,
    translate_errors,
)
from mangrove.drivers.threads import allow_long_wait

FICLONE = 0x40049409  # Linux: share the blocks of another file
_NO_CLONE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.ENOSYS)  # of two file systems, whatever the files
_NOT_THESE = (errno.EINVAL, errno.EBADF, errno.EPERM)  # of two files; others of the same file systems may be cloned
_CANNOT = (
    errno.EXDEV,  # Linux before 5.3, and since 5.19 unless both file systems are of one type that supports it
    errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL,  # the file system or the kernel cannot
    errno.EBADF,  # an older answer of file systems that cannot
    errno.EPERM,  # a sandbox refuses the call; if the file is immutable the next means fails as well
    errno.ENOTSOCK,  # sendfile of systems that send to sockets only
)  # fmt: skip
Devices = tuple[int, int]


def _find_devices(source: int, copied: int) -> Devices:
    return os.fstat(source).st_dev, os.fstat(copied).st_dev


def _copy_in_kernel(source: int, copied: int, offset: int, length: int) -> int:
    return os.copy_file_range(source, copied, length, offset, offset)


def _send(source: int, copied: int, offset: int, length: int) -> int:
    os.lseek(copied, offset, os.SEEK_SET)
    return os.sendfile(copied, source, offset, length)


def _read_and_write(source: int, copied: int, offset: int, length: int) -> int:
    block = memoryview(os.pread(source, min(length, BLOCK), offset))
    done = 0
    while done < len(block):
        done += os.pwrite(copied, block[done:], offset + done)
    return done


MEANS = (*([_copy_in_kernel] if hasattr(os, "copy_file_range") else []), _send, _read_and_write)


class RangeCopier:
    """A copier between open files. It remembers for each pair of file systems which means works."""

    def __init__(self) -> None:
        self._means: dict[Devices, int] = {}  # the first of MEANS that worked
        self._no_clones: set[Devices] = set()

    def copy(self, source: int, copied: int, offset: int, length: int) -> int:
        """Copy a range to the same offset, in pieces that the meter of the context counts.

        Return the copied bytes, fewer if the source ends.
        """
        devices, meter, done = _find_devices(source, copied), get_meter(), 0
        while done < length:
            piece = min(length - done, MAX_PIECE_BYTES)
            count = self._copy(source, copied, offset + done, piece, devices)
            meter.add(count)
            done += count
            if count < piece:
                break
        return done

    def copy_whole(self, source: int, copied: int, size: int, largest: int, devices: Devices) -> int | None:
        """Copy a file into an empty one.

        Return the copied bytes, None if it is larger than `largest` and cannot be cloned. `devices`: those of the two
        files.
        """
        if self._clone(source, copied, devices):
            return size
        return self._copy(source, copied, 0, size, devices) if size <= largest else None

    def _copy(self, source: int, copied: int, offset: int, length: int, devices: Devices) -> int:
        means, left = self._means.get(devices, 0), length
        while left > 0:
            try:
                with allow_long_wait():
                    done = MEANS[means](source, copied, offset, left)
            except OSError as error:
                if error.errno not in _CANNOT or means == len(MEANS) - 1:
                    raise
                done = 0
            if done:
                self._means.setdefault(devices, means)
                left, offset = left - done, offset + done
            elif means == len(MEANS) - 1:
                break
            else:
                means += 1  # also after 0 bytes, which Linux before 5.19 returns for files of the kernel's own
        return length - left

    def _clone(self, source: int, copied: int, devices: Devices) -> bool:
        """Make an empty file share the bytes of another one. Return True if that is possible."""
        if devices in self._no_clones:
            return False
        try:
            fcntl.ioctl(copied, FICLONE, source)
        except OSError as error:
            if error.errno in _NO_CLONE:
                self._no_clones.add(devices)
            elif error.errno not in _NOT_THESE:
                raise
            return False
        return True


MAX_PIECE_BYTES = 4 << 20  # that are copied before the progress shows them
PART = 128 << 20  # bytes that one call copies: the work that a killed worker may have to repeat
MAX_BYTES_WITHOUT_TASK = 64 << 20  # bytes; more is work for a task
LOOKUP_INTERVAL = 16  # files of a batch
MIN_COUNTED_BYTES = 4096  # of the disk that a file takes, however small it is


@contextmanager
def open_file(root: Root, path: TreePath) -> Iterator[int]:
    """A handle of a regular file, for reading."""
    handle = root.open(path)
    try:
        yield handle
    finally:
        os.close(handle)


class SpaceCheck:
    """The check for free space of a batch of copies: before the first, and before each further mebibyte, as for a body
    that is written in blocks."""

    def __init__(self) -> None:
        self._bytes_left: dict[int, int] = {}  # by the devices of the copies

    def require(self, copied: int, device: int, size: int) -> None:
        """Raise DataDiskFull if a copy of `size` bytes must not be written to an open file."""
        bytes_left = self._bytes_left.get(device, 0) - max(size, MIN_COUNTED_BYTES)
        if bytes_left < 0:
            platform().require_space(copied)
            bytes_left = BLOCK
        self._bytes_left[device] = bytes_left


class TargetLookups:
    """The lookups of the targets of a batch, so that few files are copied in vain: the first and each sixteenth, and
    each one after a taken name or where files may be replaced.

    The other names are expected to be free. A name that is not is refused when the copy gets it.
    """

    def __init__(self) -> None:
        self._count = 0
        self._has_taken = False

    def open_target(self, folders: OpenFolders, file: CopyRequest) -> tuple[OpenFolder, str]:
        """Return the folder and the name of a target. Raise EntryExists if it was looked up and must stay."""
        self._count += 1
        if not (file.overwrite or self._has_taken or self._count % LOOKUP_INTERVAL == 1):
            return folders.open_new(file.target)
        try:
            return folders.open_target(file.target, file.overwrite)
        except EntryExists:
            self._has_taken = True
            raise


class FileCopier:
    """A copier of files into one root. All methods block; they are called in threads."""

    def __init__(self, root: Root, durability: Durability) -> None:
        self._root = root
        self._durability = durability
        self.ranges = RangeCopier()

    def copy(self, path: TreePath, target: TreePath, overwrite: bool, durable: bool) -> None:
        """Copy a file, or an empty folder. Raise NotSupported if it needs a task. Links are never followed."""
        mode = self._root.stat(path).st_mode
        if stat.S_ISDIR(mode):
            self._copy_empty_folder(path, target)
        elif stat.S_ISREG(mode):
            with OpenFolders(self._root) as folders, translate_errors():
                handle, status = folders.open_file(path)
                try:
                    folder, name = folders.open_target(target, overwrite)
                    copied = self._copy_open_file(self._root, handle, status, folder, name, overwrite, SpaceCheck())
                finally:
                    os.close(handle)
                if durable:
                    sync_bytes(self._durability, [copied])
                copied.commit()
        else:
            raise StorageProblem("cannot copy a device")
        if durable:
            self._durability.sync_names([target])

    def copy_from(self, source: Root, files: Sequence[CopyRequest]) -> list[StorageProblem | None]:
        """Copy small files from another root. Return the problem of each, or None.

        Each folder is opened once per batch, which has as many files as there are free descriptors for.
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
        outcomes: dict[int, Outcome] = {}
        unsynced: dict[int, CompleteFile] = {}
        lookups, space = TargetLookups(), SpaceCheck()
        for index, file in enumerate(files):
            try:
                copied = self._copy_request(origin, target, file, lookups, space)
            except OSError as error:
                outcomes[index] = make_problem(error)
            except StorageProblem as problem:
                outcomes[index] = problem
            else:
                if file.durable:
                    unsynced[index] = copied
                else:
                    outcomes[index] = try_commit(copied)
        if unsynced:
            outcomes |= commit_durably(self._durability, {index: files[index].target for index in unsynced}, unsynced)
        ordered = (outcomes[index] for index in range(len(files)))
        return [outcome if isinstance(outcome, StorageProblem) else None for outcome in ordered]

    def _copy_request(
        self, origin: OpenFolders, target: OpenFolders, file: CopyRequest, lookups: TargetLookups, space: SpaceCheck
    ) -> CompleteFile:
        """Return a copy of the requested file. Raise EntryChanged if it was replaced."""
        handle, status = origin.open_file(file.source)
        try:
            if not is_same(status, file):
                raise EntryChanged("the source changed since the task began")
            folder, name = lookups.open_target(target, file)
            return self._copy_open_file(origin.root, handle, status, folder, name, file.overwrite, space)
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
        self,
        root: Root,
        source: int,
        status: os.stat_result,
        folder: OpenFolder,
        name: str,
        overwrite: bool,
        space: SpaceCheck,
    ) -> CompleteFile:
        """Copy an open file of `root` with its times. Refuse it if it no longer matches `status` once it is copied."""
        mode = self._root.limit_mode(root.extend_mode(stat.S_IMODE(status.st_mode)))
        copied = CompleteFile.create(folder, name, mode, overwrite)
        try:
            space.require(copied.handle, folder.device, status.st_size)
            self._copy_bytes(source, copied.handle, status.st_size, (status.st_dev, folder.device))
            now = os.fstat(source)
            if (now.st_mtime_ns, now.st_size) != (status.st_mtime_ns, status.st_size):
                raise EntryChanged("the source changed while it was copied")
            os.utime(copied.handle, ns=(status.st_atime_ns, status.st_mtime_ns))
        except BaseException:
            copied.drop()
            raise
        return copied

    def _copy_bytes(self, source: int, copied: int, size: int, devices: Devices) -> None:
        done = self.ranges.copy_whole(source, copied, size, MAX_BYTES_WITHOUT_TASK, devices)
        if done is None:
            raise NotSupported
        if done < size:
            raise EntryChanged("the file became shorter while it was copied")

    def copy_range(self, source: Root, path: TreePath, copied: int, offset: int, length: int) -> int:
        """Copy a range of a file of another root to the same offset of an open file. Return the copied bytes."""
        platform().require_space(copied)
        with open_file(source, path) as handle, translate_errors():
            return self.ranges.copy(handle, copied, offset, length)
