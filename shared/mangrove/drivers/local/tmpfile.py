"""New files that have no name until they are whole: of a killed process nothing stays behind."""

from __future__ import annotations

import errno
import os

_WITHOUT_NAME = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_CANNOT = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)  # what file systems without it say


def opened(folder: int, part: str, mode: int = 0o666) -> int:
    """A handle for a new file in `folder`; it is named `part` where the file system needs a name."""
    if _WITHOUT_NAME:
        try:
            return os.open(".", os.O_WRONLY | _WITHOUT_NAME | os.O_CLOEXEC, mode, dir_fd=folder)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def put(handle: int, folder: int, part: str, name: str, *, exclusive: bool = False) -> None:
    """Give the file its name, replacing a file there; IsADirectoryError for a folder. FileExistsError for anything
    there when it is to be `new`."""
    if os.fstat(handle).st_nlink == 0:
        source = f"/proc/self/fd/{handle}"
        try:
            os.link(source, name, dst_dir_fd=folder, follow_symlinks=True)
            return
        except FileExistsError:
            if exclusive:
                raise
            os.link(source, part, dst_dir_fd=folder, follow_symlinks=True)
    elif exclusive and _linked(part, name, folder):
        return
    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def _linked(part: str, name: str, folder: int) -> bool:
    """Give a finished file its name unless that is taken; False where the file system has no hard links."""
    try:
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            return False
        raise
    os.unlink(part, dir_fd=folder)
    return True


def abandon(folder: int, part: str) -> None:
    """Remove the file if it has its first name."""
    try:
        os.unlink(part, dir_fd=folder)
    except FileNotFoundError:
        pass  # it never had a name
