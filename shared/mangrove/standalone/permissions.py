"""File permissions of a data directory, which is for its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mangrove.core.telemetry import log_warning

GROUP_AND_WORLD_BITS = 0o077
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def close_to_others(data: str) -> None:
    """Remove the permissions of other accounts from a data directory and everything in it. Log one line if there were
    any.

    Links are not followed. A file with a second hard link is skipped, since another program relies on it. A folder is
    closed after its content, so an interrupted run is repeated.
    """
    with _open(data, _FOLDER) as handle:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        is_open = _close(handle)  # first, so that its content cannot be reached any more
        for entry in _list_entries(handle):
            if entry.is_dir(follow_symlinks=False):
                is_open |= _close_tree(handle, entry.name)
            else:
                is_open |= _close_file(handle, entry)
        if os.fstat(handle).st_mode & GROUP_AND_WORLD_BITS:
            log_warning("file system ignores permissions: other accounts can read the data directory", data=data)
        elif is_open:
            log_warning("data directory closed to other accounts", data=data, mode=f"{mode:o}")


@contextmanager
def _open(name: str, flags: int, folder: int | None = None) -> Iterator[int]:
    handle = os.open(name, flags, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _list_entries(folder: int) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _close(handle: int) -> bool:
    """Close an entry. Return True if it was open to other accounts."""
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    if mode & GROUP_AND_WORLD_BITS:
        with suppress(PermissionError):  # an entry of another account, or a file system without permissions
            os.fchmod(handle, mode & ~GROUP_AND_WORLD_BITS)
    return bool(mode & GROUP_AND_WORLD_BITS)


def _close_tree(data: int, name: str) -> bool:
    """Close a folder with everything below it. Return True if anything was open."""
    with _open(name, _FOLDER, data) as top:
        if not os.fstat(top).st_mode & GROUP_AND_WORLD_BITS:
            return False
        waiting = [name]
        while waiting:
            path = waiting.pop()
            with suppress(OSError), _open(path, _FOLDER, data) as folder:  # removed, or its path is too long
                for entry in _list_entries(folder):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{path}/{entry.name}")
                    else:
                        _close_file(folder, entry)
                if path != name:
                    _close(folder)
        return _close(top)


def _close_file(folder: int, entry: os.DirEntry[str]) -> bool:
    """Close a regular file. Return True if it was open."""
    with suppress(OSError):  # removed, or not readable by its owner
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_mode & GROUP_AND_WORLD_BITS and status.st_nlink == 1:
            with _open(entry.name, _FILE, folder) as handle:
                return _close(handle)
    return False
