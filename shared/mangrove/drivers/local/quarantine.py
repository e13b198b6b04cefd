"""Files that are moved away from their names: for a comparison before a removal, or to make room for a rename."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from contextlib import suppress

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, NotAFolder
from mangrove.drivers.local.noreplace import Unlink, make_other_name, rename_noreplace, unlink
from mangrove.drivers.local.rooted import FileStat, NameTooLong, Root, check_wanted
from mangrove.drivers.part_names import PART

PREFIX = f"{PART}aside-"
ATTEMPTS = 50
ABANDONED_AFTER_SECONDS = 10.0  # so old that their process must have died
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_unchanged(folder: int, name: str, version: FileStat, remove: Unlink) -> None:
    """Remove a file of an open folder. If it is not `version` any more, keep it and raise EntryChanged.

    `remove` gets its name and the quarantine folder. A missing file is ignored.
    """
    for _ in range(ATTEMPTS):
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            if restore(folder, name):
                continue
            return
        if not version.is_same_file(FileStat.of(status)):
            break
        if _remove_aside(folder, name, version, remove):
            return
    restore(folder, name)
    raise EntryChanged


def _remove_aside(folder: int, name: str, version: FileStat, remove: Unlink) -> bool:
    """Move it aside, compare, remove. Return False if another process has put it back meanwhile."""
    place_name = make_place_name(name)
    try:
        os.mkdir(place_name, 0o700, dir_fd=folder)
    except FileExistsError:
        _empty(folder, place_name)
        return False
    try:
        place = os.open(place_name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        os.rename(name, name, src_dir_fd=folder, dst_dir_fd=place)
        if not version.is_same_file(FileStat.of(os.stat(name, dir_fd=place, follow_symlinks=False))):
            raise EntryChanged
        check_wanted()
        remove(name, place)
    except FileNotFoundError:
        return False
    except BaseException:  # after any failure the file gets its name back
        _put_back(name, place, folder)
        raise
    finally:
        os.close(place)
        _remove_place(folder, place_name)
    return True


def make_place_name(name: str) -> str:
    """Return the name of the quarantine folder for a file of that name."""
    return PREFIX + hashlib.sha256(os.fsencode(name)).hexdigest()[:24]


def stat_or_restore(root: Root, path: TreePath) -> os.stat_result:
    """Return the status of a path, which may have to be restored first. Raise EntryNotFound, also if no entry can have
    that name."""
    try:
        return root.stat(path)
    except NameTooLong:
        raise EntryNotFound from None
    except EntryNotFound:
        try:
            with root.open_parent(path) as (folder, name):
                is_back = restore(folder, name)
        except NotAFolder:
            raise EntryNotFound from None
        if not is_back:
            raise
        return root.stat(path)


def restore(folder: int, name: str) -> bool:
    """Give a file in quarantine its name back. Return True if there was one."""
    return _empty(folder, make_place_name(name))


def restore_left(folder: int, place_name: str) -> None:
    """Restore files that are in quarantine for so long that no process works with them.

    A listing that does so may not show them; the next one does.
    """
    with suppress(FileNotFoundError):
        changed = os.stat(place_name, dir_fd=folder, follow_symlinks=False).st_mtime
        if abs(time.time() - changed) > ABANDONED_AFTER_SECONDS:
            _empty(folder, place_name)


def _empty(folder: int, place_name: str) -> bool:
    try:
        place = os.open(place_name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        names = os.listdir(place)
        for name in names:
            _put_back(name, place, folder)
    finally:
        os.close(place)
        _remove_place(folder, place_name)
    return bool(names)


def _put_back(name: str, place: int, folder: int) -> None:
    """Give a file its name back.

    If another file has taken the name meanwhile, that one keeps it, as the newer one, and this one stays beside it: the
    name only seemed free, which does not justify losing either.
    """
    free_name = name
    while True:
        try:
            rename_noreplace(name, free_name, place, folder)
        except FileExistsError:
            free_name = make_other_name(name)
            continue
        except FileNotFoundError:
            pass  # another process has put it back
        return


def _remove_place(folder: int, place_name: str) -> None:
    with suppress(OSError):  # removed, or in use again
        os.rmdir(place_name, dir_fd=folder)


def rename(old: str, new: str, source: int, folder: int, *, overwrite: bool) -> None:
    """Rename between two open folders.

    Raise FileExistsError if the new name is taken, unless it may be replaced and both are files.
    """
    status = os.stat(old, dir_fd=source, follow_symlinks=False)

    def drop_old_name(name: str, source: int) -> None:
        remove_unchanged(source, name, FileStat.of(status), unlink)

    if not overwrite or stat.S_ISDIR(status.st_mode):
        rename_noreplace(old, new, source, folder, drop_old_name)
        return
    try:
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)
    except IsADirectoryError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
    # the kernel does nothing if both are names of one file
    if status.st_nlink > 1 and _has(old, source, status) and _has(new, folder, status):
        drop_old_name(old, source)


def _has(name: str, folder: int, status: os.stat_result) -> bool:
    """True if a name is one of this file."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), status)
    except FileNotFoundError:
        return False
