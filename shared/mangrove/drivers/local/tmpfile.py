"""New files that have no name until they are complete: a killed process leaves nothing behind."""

from __future__ import annotations

import errno
import os

from mangrove.core.descriptors import open_patiently
from mangrove.drivers.local.noreplace import rename_noreplace
from mangrove.drivers.part_names import make_part_name

_TMPFILE = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)  # answers of file systems without it


NEW_FILE = 0o666  # permissions, before the umask


def create(folder: int, part: str, mode: int = NEW_FILE) -> int:
    """Return a handle of a new file in `folder`. It is named `part` if the file system needs a name."""
    handle = create_nameless(folder, mode)
    return create_named(folder, part, mode) if handle is None else handle


def create_nameless(folder: int, mode: int = NEW_FILE) -> int | None:
    """Return a handle of a new file in `folder`, for reading too; None if the file system needs a name."""
    if _TMPFILE:
        try:
            return open_patiently(os.open, ".", os.O_RDWR | _TMPFILE | os.O_CLOEXEC, mode, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.EPERM and os.fstat(folder).st_nlink == 0:  # ext4's answer in a removed folder
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
            if error.errno not in _NO_TMPFILE:
                raise
    return None


def create_named(folder: int, part: str, mode: int = NEW_FILE) -> int:
    """Return a handle of a new file `part` in `folder`, which another process can continue."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open_patiently(os.open, part, flags, mode, dir_fd=folder)


def commit(handle: int, folder: int, part: str, name: str, *, overwrite: bool = True) -> None:
    """Give the file its name, replacing a file there.

    Raise FileExistsError for a folder and, without `overwrite`, for any entry.
    """
    if os.fstat(handle).st_nlink == 0:
        commit_nameless(handle, folder, name, overwrite=overwrite)
    elif overwrite:
        _replace(folder, part, name)
    else:
        rename_noreplace(part, name, folder, folder)


def commit_nameless(handle: int, folder: int, name: str, *, overwrite: bool) -> None:
    """Do as `commit`, for a file that has no name yet."""
    try:
        _link(handle, folder, name)
    except FileExistsError:
        if not overwrite:
            raise
        part = make_part_name()
        _link(handle, folder, part)
        try:
            _replace(folder, part, name)
        except BaseException:
            discard(folder, part)
            raise


def _link(handle: int, folder: int, name: str) -> None:
    os.link(f"/proc/self/fd/{handle}", name, dst_dir_fd=folder, follow_symlinks=True)


def _replace(folder: int, part: str, name: str) -> None:
    try:
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except IsADirectoryError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None


def discard(folder: int, part: str) -> None:
    """Remove the unfinished file if it has a name."""
    try:
        os.unlink(part, dir_fd=folder)
    except FileNotFoundError:
        pass  # it never had a name
