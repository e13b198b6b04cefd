"""Copies between folders of this machine that are done at once: clones, and files that are small enough."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local import tmpfile
from mangrove.drivers.local.rooted import Root
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem

FICLONE = 0x40049409  # Linux: share the blocks of another file
PART = 128 << 20  # bytes that one call copies: a killed worker leaves as much to be done again
AT_ONCE = 64 << 20  # bytes; more is work for a task
_NO_CLONE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS)


def copy(root: Root, path: TreePath, target: TreePath, part: str) -> None:
    """Copy a file, or a folder without content; NotSupported for what needs a task. Never follows a link."""
    mode = root.stat(path).st_mode
    if stat.S_ISDIR(mode):
        _copy_empty_folder(root, path, target)
    elif stat.S_ISREG(mode):
        with open_file(root, path) as handle:
            _copy_file(handle, root, target, part)
    else:
        raise StorageProblem("cannot copy a device")


def copy_from(source: Root, root: Root, files: Sequence[CopyRequest], part: str) -> list[StorageProblem | None]:
    """Copy small files from another root; the problem of each, or None."""
    return [_copy_one(source, root, file, f"{part}-{index}") for index, file in enumerate(files)]


def _copy_one(source: Root, root: Root, file: CopyRequest, part: str) -> StorageProblem | None:
    try:
        with open_file(source, file.source) as handle:
            status = os.fstat(handle)
            if (status.st_size, status.st_mtime) != (file.size, file.modified):
                raise StorageProblem("the source changed since the task began")
            if not file.overwrite and _exists(root, file.target):
                raise Exists
            _copy_file(handle, root, file.target, part, exclusive=not file.overwrite)
    except StorageProblem as problem:
        return problem
    return None


def _exists(root: Root, path: TreePath) -> bool:
    try:
        root.stat(path)
    except NotFound:
        return False
    return True


def _copy_empty_folder(root: Root, path: TreePath, target: TreePath) -> None:
    with root.open_folder(path) as handle, os.scandir(handle) as items:
        if next(items, None) is not None:
            raise NotSupported
    with root.open_parent(target) as (folder, name):
        os.mkdir(name, dir_fd=folder)


@contextmanager
def open_file(root: Root, path: TreePath) -> Iterator[int]:
    """A handle of a regular file, for reading."""
    handle = root.open(path)
    try:
        yield handle
    finally:
        os.close(handle)


def _copy_file(source: int, root: Root, target: TreePath, part: str, *, exclusive: bool = False) -> None:
    """Copy an open file with its times, whole or not at all; refused when it changes meanwhile.

    `exclusive`: Exists when anything has the target's name.
    """
    status = os.fstat(source)
    with root.open_target(target) as (folder, name):
        copied = tmpfile.create(folder, part, stat.S_IMODE(status.st_mode))
        try:
            _copy_bytes(source, copied, status.st_size)
            if os.fstat(source).st_mtime_ns != status.st_mtime_ns:
                raise StorageProblem("the source changed while it was copied")
            os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))
            tmpfile.commit(copied, folder, part, name, exclusive=exclusive)
        except IsADirectoryError:
            tmpfile.discard(folder, part)
            raise Exists from None
        except BaseException:
            tmpfile.discard(folder, part)
            raise
        finally:
            os.close(copied)


def copy_range(source: int, copied: int, offset: int, length: int) -> int:
    """Copy a range between two open files; the bytes copied."""
    left = length
    while left > 0:
        done = os.copy_file_range(source, copied, left, offset, offset)
        if not done:
            break
        left, offset = left - done, offset + done
    return length - left


def _copy_bytes(source: int, copied: int, size: int) -> None:
    try:
        fcntl.ioctl(copied, FICLONE, source)
        return
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
    if size > AT_ONCE:
        raise NotSupported
    left = size
    while left > 0:
        done = os.copy_file_range(source, copied, left)
        if not done:
            raise StorageProblem("the file became shorter while it was copied")
        left -= done
