"""Removals in a storage: final, or into its recycle bin."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from mangrove.core.descriptors import count_free_for_bulk
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, NotAFile, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.drivers.local import quarantine, tmpfile
from mangrove.drivers.local.commits import DESCRIPTORS_PER_FILE, MAX_BATCH, catch_problem
from mangrove.drivers.local.copy import RangeCopier
from mangrove.drivers.local.durability import sync_file
from mangrove.drivers.local.noreplace import link_new_name, make_other_name, rename_noreplace, unlink
from mangrove.drivers.local.rooted import FileStat, OpenFolders, Root, check_wanted, is_same
from mangrove.drivers.part_names import make_part_name

ATTEMPTS = 20  # of a removal
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_folder(name: str, folder: int) -> bool:
    """True if an entry of an open folder is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


class Remover:
    """Removes from one root. `bin_path`: the folder that keeps removed entries; "" for none. All methods block."""

    def __init__(self, root: Root, bin_path: str, ranges: RangeCopier) -> None:
        self._root = root
        self._bin_path = bin_path
        self._ranges = ranges

    @cached_property
    def _bin(self) -> str:
        return os.path.realpath(self._bin_path)

    def remove(self, path: TreePath) -> None:
        """Remove a file or folder, if it exists. Try again while other callers change it or what is below it."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._remove(path)
            except (EntryNotFound, EntryExists, NotAFile):  # a part was removed, added, or became a folder meanwhile
                if not self._is_there(path):
                    return
                if attempt == ATTEMPTS:
                    raise

    def _remove(self, path: TreePath) -> None:
        with self._root.open_parent(path) as (folder, name):
            if self._bin_path:
                self._recycle(name, folder, path)
            elif is_folder(name, folder):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def _is_there(self, path: TreePath) -> bool:
        try:
            with self._root.open_parent(path) as (folder, name):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except EntryNotFound:
            return False
        return True

    def set_aside(self, path: TreePath, target: TreePath, keep: bool) -> bool:
        """Give an entry another path; with `keep` a file has both afterwards where there are hard links. True if it
        has."""
        opened = self._root.open_target(path) if keep else self._root.open_parent(path)
        with opened as (folder, name), self._root.open_parent(target) as (target_folder, new_name):
            if keep and link_new_name(name, new_name, folder, target_folder):
                return True
            quarantine.rename(name, new_name, folder, target_folder, overwrite=False)
            return False

    def set_many_aside(self, files: Sequence[tuple[TreePath, TreePath]], mode: int) -> list[bool | StorageProblem]:
        """Give files second names, each in a new folder of these permissions, which is in a folder that is there.

        False for a file that cannot have two names: it stays where it is.
        """
        results: list[bool | StorageProblem] = []
        while len(results) < len(files):
            size = min(MAX_BATCH, max(1, count_free_for_bulk() // DESCRIPTORS_PER_FILE))
            with OpenFolders(self._root) as folders:
                batch = files[len(results) : len(results) + size]
                results += [catch_problem(self._link_aside, folders, *file, mode) for file in batch]
        return results

    def _link_aside(self, folders: OpenFolders, path: TreePath, target: TreePath, mode: int) -> bool:
        folder, name = folders.open_target(path, overwrite=True)
        trash_folder, new_folder = folders.open_new(target.parent)
        check_wanted()
        os.mkdir(new_folder, self._root.limit_mode(mode), dir_fd=trash_folder.handle)
        is_linked = False
        try:
            is_linked = link_new_name(name, f"{new_folder}/{target.name}", folder.handle, trash_folder.handle)
        finally:
            if not is_linked:
                os.rmdir(new_folder, dir_fd=trash_folder.handle)
        return is_linked

    def remove_empty(self, path: TreePath) -> bool:
        """Remove an empty folder. Return True if it is gone."""
        if path == "/":
            return False
        with self._root.open_parent(path) as (folder, name):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
        return True

    def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        """Remove a file that is still `entry`. Otherwise keep it and raise EntryChanged."""
        with self._root.open_parent(path) as (folder, name):
            restored = quarantine.restore(folder, name)
            try:
                handle = os.open(name, _O_PATH, dir_fd=folder)
            except FileNotFoundError:
                return
            try:  # while the file is open no other file gets its inode
                status = os.fstat(handle)
                if stat.S_ISDIR(status.st_mode):
                    raise NotAFile
                shown = self._root.stat(path) if stat.S_ISLNK(status.st_mode) else status
                if not is_same(shown, entry, renamed=restored):
                    raise EntryChanged
                remove = (lambda name, place: self._recycle(name, place, path)) if self._bin_path else unlink
                quarantine.remove_unchanged(folder, name, FileStat.of(status), remove)
            finally:
                os.close(handle)

    def _recycle(self, name: str, folder: int, path: TreePath) -> None:
        """Move an entry of an open folder, which is `path` in this storage, into the recycle bin."""
        parent = Path(self._bin + str(path.parent))
        parent.mkdir(parents=True, exist_ok=True)
        bin_folder = os.open(parent, _FOLDER)
        try:
            new_name = path.name
            while True:
                try:
                    self._carry(name, new_name, folder, bin_folder)
                except FileExistsError:
                    new_name = make_other_name(path.name)
                    continue
                return
        finally:
            os.close(bin_folder)

    def _carry(self, name: str, new_name: str, folder: int, target: int) -> None:
        """Rename between two open folders; entry by entry if they are on two file systems."""
        try:
            rename_noreplace(name, new_name, folder, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                self._carry_folder(name, new_name, folder, target)
            elif stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(name, dir_fd=folder), new_name, dir_fd=target)
                quarantine.remove_unchanged(folder, name, FileStat.of(status), unlink)
            elif stat.S_ISREG(status.st_mode):
                self._carry_file(name, new_name, folder, target)
            else:
                raise StorageProblem("the recycle bin is on another file system, and this is a device") from None

    def _carry_folder(self, name: str, new_name: str, folder: int, target: int) -> None:
        os.mkdir(new_name, dir_fd=target)
        source = os.open(name, _FOLDER, dir_fd=folder)
        try:
            copied = os.open(new_name, _FOLDER, dir_fd=target)
            try:
                for item in os.listdir(source):
                    self._carry(item, item, source, copied)
            finally:
                os.close(copied)
        finally:
            os.close(source)
        os.rmdir(name, dir_fd=folder)

    def _carry_file(self, name: str, new_name: str, folder: int, target: int) -> None:
        """Copy a file, then remove it unless it has changed. Its copy in the bin is on the disk by then."""
        part = make_part_name()
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            status = os.fstat(source)
            copied = tmpfile.create(target, part, stat.S_IMODE(status.st_mode))
            try:
                if self._ranges.copy(source, copied, 0, status.st_size) < status.st_size:
                    raise EntryChanged
                os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))
                sync_file(copied)
                tmpfile.commit(copied, target, part, new_name, overwrite=False)
                sync_file(target)
            except BaseException:
                tmpfile.discard(target, part)
                raise
            finally:
                os.close(copied)
            quarantine.remove_unchanged(folder, name, FileStat.of(status), unlink)
        finally:
            os.close(source)
