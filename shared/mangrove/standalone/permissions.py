"""A data directory is for its owner alone: whose it is, and what was open to others and is closed to them."""

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
    """Take from a data directory, and all in it, what other accounts may do there; with one line when that was any.

    Links are not followed, and a file with a second name is left alone: it has that for somebody. A folder is closed
    after what is in it, so what was cut off is done again.
    """
    with _open(data, _FOLDER) as handle:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        is_open = _close(handle)  # first of all: what is in it cannot be reached any more
        for entry in _list_entries(handle):
            if entry.is_dir(follow_symlinks=False):
                is_open |= _close_tree(handle, entry.name)
            else:
                is_open |= _close_file(handle, entry)
        if os.fstat(handle).st_mode & GROUP_AND_WORLD_BITS:
            log_warning("the file system leaves the data directory open to other accounts", data=data)
        elif is_open:
            log_warning("the data directory was open to other accounts and is closed now", data=data, mode=f"{mode:o}")


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
    """Return True if it was open to others."""
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    if mode & GROUP_AND_WORLD_BITS:
        with suppress(PermissionError):  # the owner's word, and a file system that has no permissions
            os.fchmod(handle, mode & ~GROUP_AND_WORLD_BITS)
    return bool(mode & GROUP_AND_WORLD_BITS)


def _close_tree(data: int, name: str) -> bool:
    """The same, of a folder with all below it."""
    with _open(name, _FOLDER, data) as top:
        if not os.fstat(top).st_mode & GROUP_AND_WORLD_BITS:
            return False
        waiting = [name]
        while waiting:
            path = waiting.pop()
            with suppress(OSError), _open(path, _FOLDER, data) as folder:  # gone, or too deep to be named
                for entry in _list_entries(folder):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{path}/{entry.name}")
                    else:
                        _close_file(folder, entry)
                if path != name:
                    _close(folder)
        return _close(top)


def _close_file(folder: int, entry: os.DirEntry[str]) -> bool:
    """The same, of a regular file."""
    with suppress(OSError):  # gone, or closed to its owner, too
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_mode & GROUP_AND_WORLD_BITS and status.st_nlink == 1:
            with _open(entry.name, _FILE, folder) as handle:
                return _close(handle)
    return False
