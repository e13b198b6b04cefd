"""Removing a file only if it is still the one that was meant.

The kernel removes a name, whatever has it by then. So the file is first renamed into a folder of its own beside it,
where nobody else puts anything; there it is looked at once more, and then removed or given its name back. A reader
that comes in between finds nothing for some microseconds.

A process that is killed in between leaves that folder, and the file in it hidden. Whoever asks for the file by its
name, or lists its folder later, puts it back: `restore`. That may also happen to a process that is still at work,
which then finds nothing in its folder and begins again. No lock is needed: the folder is used through its handle, and
one that was removed cannot be filled again, not even when there is another one of the same name.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress

from mangrove.core.problems import EntryChanged
from mangrove.drivers.local.noreplace import Unlink, make_other_name, rename_noreplace
from mangrove.drivers.local.rooted import check_wanted
from mangrove.drivers.local.versions import FileVersion
from mangrove.drivers.part_names import PART

PREFIX = f"{PART}aside-"
ATTEMPTS = 50
SECONDS = 10.0  # old enough to be left by a process that was killed
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_unchanged(folder: int, name: str, version: FileVersion, remove: Unlink) -> None:
    """Remove a file of an open folder; EntryChanged, and what is there stays, when it is not `version` any more.

    `remove` gets its name and the folder in which it was put aside. No error if nothing has the name.
    """
    for _ in range(ATTEMPTS):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            if restore(folder, name):
                continue
            return
        if not version.is_same_file(FileVersion.of(found)):
            break
        if _remove_aside(folder, name, version, remove):
            return
    restore(folder, name)
    raise EntryChanged


def _remove_aside(folder: int, name: str, version: FileVersion, remove: Unlink) -> bool:
    """Put aside, compare, remove; False when someone has put it back meanwhile."""
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
        if not version.is_same_file(FileVersion.of(os.stat(name, dir_fd=place, follow_symlinks=False))):
            raise EntryChanged
        check_wanted()
        remove(name, place)
    except FileNotFoundError:
        return False
    except BaseException:  # whatever it was, the file gets its name back
        _put_back(name, place, folder)
        raise
    finally:
        os.close(place)
        _remove_place(folder, place_name)
    return True


def make_place_name(name: str) -> str:
    """The name of the folder into which a file of that name is put aside."""
    return PREFIX + hashlib.sha256(os.fsencode(name)).hexdigest()[:24]


def restore(folder: int, name: str) -> bool:
    """Give a file its name back that was put aside; whether there was one."""
    return _empty(folder, make_place_name(name))


def restore_left(folder: int, place_name: str) -> None:
    """Restore what lies aside for so long that no process is at work with it. A listing that does so may not show it,
    the next one does."""
    with suppress(FileNotFoundError):
        changed = os.stat(place_name, dir_fd=folder, follow_symlinks=False).st_mtime
        if abs(time.time() - changed) > SECONDS:
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
    """Give a file its name back. Who has taken that meanwhile keeps it, as the newer one; the other one stays beside
    it: the name was taken because it looked free, which is no leave to lose what had it."""
    wanted = name
    while True:
        try:
            rename_noreplace(name, wanted, place, folder)
        except FileExistsError:
            wanted = make_other_name(name)
            continue
        except FileNotFoundError:
            pass  # someone else has put it back
        return


def _remove_place(folder: int, place_name: str) -> None:
    with suppress(OSError):  # gone, or in use again
        os.rmdir(place_name, dir_fd=folder)
