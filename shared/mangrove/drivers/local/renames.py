"""Renames inside a storage: of files over files, of folders over nothing."""

from __future__ import annotations

import errno
import os
import stat

from mangrove.drivers.local import aside
from mangrove.drivers.local.noreplace import rename_noreplace, unlink
from mangrove.drivers.local.versions import FileVersion


def rename(old: str, new: str, source: int, folder: int, *, overwrite: bool) -> None:
    """Rename between two open folders. FileExistsError when something has the new name, unless it may be replaced and
    both are files."""
    status = os.stat(old, dir_fd=source, follow_symlinks=False)

    def drop_old_name(name: str, source: int) -> None:
        aside.remove_unchanged(source, name, FileVersion.of(status), unlink)

    if not overwrite or stat.S_ISDIR(status.st_mode):
        rename_noreplace(old, new, source, folder, drop_old_name)
        return
    try:
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)
    except IsADirectoryError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
    # the kernel does nothing when both are names of one file
    if status.st_nlink > 1 and _has(old, source, status) and _has(new, folder, status):
        drop_old_name(old, source)


def _has(name: str, folder: int, status: os.stat_result) -> bool:
    """Whether a name is one of this file."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), status)
    except FileNotFoundError:
        return False
