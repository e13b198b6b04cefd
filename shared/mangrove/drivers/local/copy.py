"""Copies between folders of this machine that are done at once: clones, and what is small enough."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local import tmpfile as unnamed
from mangrove.drivers.local.rooted import Root
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem

FICLONE = 0x40049409  # Linux: share the blocks of another file
PART = 128 << 20  # bytes that are copied by one call: a worker that is killed leaves that much to be done again
AT_ONCE = 64 << 20  # bytes; more is work for a task


def copy(root: Root, path: TreePath, target: TreePath, part: str) -> None:
    """Copy a file, or a folder without content; NotSupported for what needs a task. Never follows a link."""
    facts = root.status(path)
    if stat.S_ISDIR(facts.st_mode):
        _folder(root, path, target)
    elif stat.S_ISREG(facts.st_mode):
        with reading(root, path) as handle:
            _file(handle, root, target, part)
    else:
        raise StorageProblem("cannot copy a device")


def copy_from(source: Root, root: Root, files: Sequence[CopyRequest], part: str) -> list[StorageProblem | None]:
    """Copy small files from another root; what happened to each."""
    return [_taken(source, root, file, f"{part}-{index}") for index, file in enumerate(files)]


def _taken(source: Root, root: Root, file: CopyRequest, part: str) -> StorageProblem | None:
    try:
        with reading(source, file.source) as handle:
            facts = os.fstat(handle)
            if (facts.st_size, facts.st_mtime) != (file.size, file.modified):
                raise StorageProblem("the source changed since the task began")
            if not file.overwrite and _standing(root, file.target):
                raise Exists
            _file(handle, root, file.target, part, exclusive=not file.overwrite)
    except StorageProblem as problem:
        return problem
    return None


def _standing(root: Root, path: TreePath) -> bool:
    try:
        root.status(path)
    except NotFound:
        return False
    return True


def _folder(root: Root, path: TreePath, target: TreePath) -> None:
    with root.folder(path) as handle, os.scandir(handle) as items:
        if next(items, None) is not None:
            raise NotSupported
    with root.place(target) as (folder, name):
        os.mkdir(name, dir_fd=folder)


@contextmanager
def reading(root: Root, path: TreePath) -> Iterator[int]:
    """A handle of a regular file."""
    handle = root.open(path)
    try:
        yield handle
    finally:
        os.close(handle)


def _file(source: int, root: Root, target: TreePath, part: str, *, exclusive: bool = False) -> None:
    """Copy what the handle holds, with its times, whole or not at all; refused when it changes meanwhile. Exists when
    it is to be `new` and something stands there."""
    facts = os.fstat(source)
    with root.target(target) as (folder, name):
        copied = unnamed.opened(folder, part, stat.S_IMODE(facts.st_mode))
        try:
            _bytes(source, copied, facts.st_size)
            if os.fstat(source).st_mtime_ns != facts.st_mtime_ns:
                raise StorageProblem("the source changed while it was copied")
            os.utime(copied, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            unnamed.put(copied, folder, part, name, exclusive=exclusive)
        except IsADirectoryError:
            unnamed.abandon(folder, part)
            raise Exists from None
        except BaseException:
            unnamed.abandon(folder, part)
            raise
        finally:
            os.close(copied)


def part(source: int, copied: int, offset: int, length: int) -> int:
    """Copy a range between two files; the bytes copied."""
    left = length
    while left > 0:
        done = os.copy_file_range(source, copied, left, offset, offset)
        if not done:
            break
        left, offset = left - done, offset + done
    return length - left


def _bytes(source: int, copied: int, size: int) -> None:
    try:
        fcntl.ioctl(copied, FICLONE, source)
        return
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS):
            raise
    if size > AT_ONCE:
        raise NotSupported
    left = size
    while left > 0:
        done = os.copy_file_range(source, copied, left)
        if not done:
            raise StorageProblem("the file became shorter while it was copied")
        left -= done
