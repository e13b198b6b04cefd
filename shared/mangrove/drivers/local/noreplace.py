"""A rename that replaces nothing, decided atomically by the kernel if the file system supports it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from secrets import token_hex

from mangrove.core.paths import MAX_NAME_BYTES
from mangrove.drivers.local import kernel
from mangrove.drivers.part_names import PART

_UNKNOWN_FLAG = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
Unlink = Callable[[str, int], None]  # a name, and the handle of its folder


def unlink(name: str, folder: int) -> None:
    os.unlink(name, dir_fd=folder)


def rename_noreplace(old: str, new: str, source: int, folder: int, unlink: Unlink = unlink) -> None:
    """Rename between two open folders. Raise FileExistsError if the new name is taken.

    `unlink` removes the old name of a file on file systems that need a second name in between: NFS and some of FUSE. If
    there are no second names either, the name is checked before the rename.
    """
    try:
        kernel.rename_noreplace(old, new, source, folder)
    except FileExistsError:
        if not _is_one_entry(old, new, source, folder):
            raise
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)  # a change of case on a file system that ignores case
    except OSError as error:
        if error.errno not in _UNKNOWN_FLAG:
            raise
        if link_new_name(old, new, source, folder):
            unlink(old, source)
            return
        refuse_existing(new, folder)
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)  # no folder is lost: at most an empty one is replaced


def _is_one_entry(old: str, new: str, source: int, folder: int) -> bool:
    """True if two names are two spellings of one, so that there is no second file."""
    try:
        status = os.stat(old, dir_fd=source, follow_symlinks=False)
        other = os.stat(new, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(status, other) and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)


def link_new_name(old: str, new: str, source: int, folder: int) -> bool:
    """Give a file a second name. Return False for a folder, and if the file system has no hard links."""
    if stat.S_ISDIR(os.stat(old, dir_fd=source, follow_symlinks=False).st_mode):
        return False
    try:
        os.link(old, new, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            return False
        raise
    return True


def refuse_existing(name: str, folder: int) -> None:
    """Raise FileExistsError if the name is taken."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def can_refuse_existing(folder: int) -> bool:
    """True if a rename in this folder refuses a taken name atomically; tried with a file that is removed.

    The trial always uses the same names, so that the next one removes the rest of a killed one.
    """
    old, new = f"{PART}trial-old.part", f"{PART}trial-new.part"
    _unlink_if_there(old, folder)
    _unlink_if_there(new, folder)
    os.close(os.open(old, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, dir_fd=folder))
    try:
        kernel.rename_noreplace(old, new, folder, folder)
        old = new
        return True
    except OSError as error:
        if error.errno not in _UNKNOWN_FLAG:
            raise
        if not link_new_name(old, new, folder, folder):
            return False
        unlink(new, folder)
        return True
    finally:
        _unlink_if_there(old, folder)


def _unlink_if_there(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        unlink(name, folder)


def make_other_name(name: str) -> str:
    """Return a name for an entry whose own name is taken."""
    suffix = f"_{datetime.now():%Y%m%d%H%M%S}_{token_hex(2)}"
    return name.encode()[: MAX_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix
