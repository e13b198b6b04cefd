"""Copies inside one Local storage that are done at once: clones, and what is small enough."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from mangrove.drivers.confined import Root
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotSupported, StorageProblem

FICLONE = 0x40049409  # Linux: share the blocks of another file
AT_ONCE = 64 << 20  # bytes; more is work for a task


def copy(root: Root, path: TreePath, target: TreePath, part: str) -> None:
    """Copy a file, or a folder without content; NotSupported for what needs a task. Never follows a link."""
    facts = root.status(path)
    if stat.S_ISDIR(facts.st_mode):
        _folder(root, path, target)
    elif stat.S_ISREG(facts.st_mode):
        _file(root, path, target, part, facts)
    else:
        raise StorageProblem("cannot copy a device")


def _folder(root: Root, path: TreePath, target: TreePath) -> None:
    with root.folder(path) as handle, os.scandir(handle) as items:
        if next(items, None) is not None:
            raise NotSupported
    with root.place(target) as (folder, name):
        os.mkdir(name, dir_fd=folder)


def _file(root: Root, path: TreePath, target: TreePath, part: str, facts: os.stat_result) -> None:
    source = root.open(path)
    try:
        with root.target(target) as (folder, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            copied = os.open(part, flags, stat.S_IMODE(facts.st_mode), dir_fd=folder)
            try:
                _bytes(source, copied, facts.st_size)
                os.utime(copied, ns=(facts.st_atime_ns, facts.st_mtime_ns))
                os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            except IsADirectoryError:
                os.unlink(part, dir_fd=folder)
                raise Exists from None
            except BaseException:
                os.unlink(part, dir_fd=folder)
                raise
            finally:
                os.close(copied)
    finally:
        os.close(source)


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
