"""A rename that replaces nothing, decided by the kernel in the same step wherever the file system can."""

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
    """Rename between two open folders; FileExistsError when anything has the new name.

    `unlink` ends the old name of a file on file systems that need a second name on the way: NFS and some of FUSE. Where
    there are no second names either, a look goes before the rename.
    """
    try:
        kernel.rename_noreplace(old, new, source, folder)
    except FileExistsError:
        if not _is_one_entry(old, new, source, folder):
            raise
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)  # it changes case where case does not count
    except OSError as error:
        if error.errno not in _UNKNOWN_FLAG:
            raise
        if link_new_name(old, new, source, folder):
            unlink(old, source)
            return
        refuse_existing(new, folder)
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)  # no folder is lost: at most an empty one is replaced


def _is_one_entry(old: str, new: str, source: int, folder: int) -> bool:
    """Return True if two names are two spellings of one, which is no second file."""
    try:
        status = os.stat(old, dir_fd=source, follow_symlinks=False)
        other = os.stat(new, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(status, other) and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)


def link_new_name(old: str, new: str, source: int, folder: int) -> bool:
    """Give a file a second name; False for a folder, and where the file system has no hard links."""
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
    """FileExistsError when anything has the name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def can_refuse_existing(folder: int) -> bool:
    """Return True if a rename in this folder refuses a name that is taken in one step; tried with a file that is
    removed. It has the same names each time, so that the next trial removes what a killed one left."""
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
    """A name for what cannot have its own, since something else has it."""
    suffix = f"_{datetime.now():%Y%m%d%H%M%S}_{token_hex(2)}"
    return name.encode()[: MAX_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix
