"""Durability of stored files: their bytes are on the disk before their names, and the names before the answer.

A folder is as durable as its own name in its parent. The service remembers which names of folders are on the disk, so
that a put costs one flush of its file and one of its folder, at any depth.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotAFolder
from mangrove.drivers.local import kernel
from mangrove.drivers.local.rooted import Root, Segments, translate_errors
from mangrove.drivers.threads import allow_long_wait

MIN_FILES_FOR_SYNCFS = 16  # a flush of the whole file system costs about as much as flushing so many files individually
MAX_KNOWN_FOLDERS = 10_000  # that are remembered


class Durability:
    """Flushes files and folders of one root. All methods block; they are called in threads.

    Flushing a whole file system also writes the unwritten data of other programs, however much that is, so it is done
    for many files only.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._named: dict[Segments, int] = {}  # folders whose names are on the disk, and their inodes

    def sync(self, path: TreePath) -> None:
        """Make an existing file survive, or a folder with all its content, which costs a flush of its file system.

        Raise EntryNotFound.
        """
        try:
            with self._root.open_folder(path) as folder:
                _sync_all(folder)
        except NotAFolder:
            handle = self._root.open(path)
            try:
                with translate_errors():
                    sync_file(handle)
            finally:
                os.close(handle)
        self.sync_names([path])

    def sync_files(self, files: Mapping[int, int]) -> None:
        """Make the bytes of open files survive; the handles give their devices.

        Raise OSError if that fails for one of them.
        """
        devices = {device: handle for handle, device in files.items()}
        if len(files) >= MIN_FILES_FOR_SYNCFS * len(devices) and kernel.can_sync_file_system():
            for handle in devices.values():
                _sync_file_system(handle)
        else:
            for handle in files:
                sync_file(handle)

    def sync_open_folders(self, targets: Mapping[int, TreePath]) -> None:
        """Make the names of new files survive as `sync_names` does.

        `targets`: a file of each folder, by the open handle of the folder.
        """
        unknown: list[TreePath] = []
        for handle, target in targets.items():
            # the folder itself, not one to which a link leads, if both have one inode
            inode = self._named.get(tuple(filter(None, target.parent.split("/"))))
            if len(targets) < MIN_FILES_FOR_SYNCFS and inode == os.fstat(handle).st_ino:
                with translate_errors():
                    _sync_folder(handle)
            else:
                unknown.append(target)
        if unknown:
            self.sync_names(unknown)

    def sync_names(self, targets: Iterable[TreePath]) -> None:
        """Make the names of new files and folders survive, with those of their parents."""
        folders: dict[Segments, int] = {}
        for target in targets:
            self._add_unsynced(target, folders)
        together = len(folders) >= MIN_FILES_FOR_SYNCFS and kernel.can_sync_file_system()
        synced: set[int] = set()
        for folder in folders:
            with self._root.open_real_folder(folder) as handle:
                if not together:
                    _sync_folder(handle)
                elif (device := os.fstat(handle).st_dev) not in synced:
                    _sync_file_system(handle)
                    synced.add(device)
        if len(self._named) > MAX_KNOWN_FOLDERS:
            self._named.clear()
        self._named.update(folders)

    def _add_unsynced(self, target: TreePath, folders: dict[Segments, int]) -> None:
        """Add the folder of `target` and its parents, up to one whose name is on the disk."""
        folder = self._root.resolve(target)[:-1]
        while folder not in folders:
            with self._root.open_real_folder(folder) as handle:
                folders[folder] = inode = os.fstat(handle).st_ino
            if not folder or self._named.get(folder) == inode:
                return
            folder = folder[:-1]

    def forget(self, folder: TreePath) -> None:
        """Record a new folder: it may have the inode of a removed one."""
        self._named.pop(self._root.resolve(folder), None)


def sync_file(handle: int) -> None:
    """Make the bytes of an open file survive."""
    with allow_long_wait():
        os.fsync(handle)


def _sync_all(folder: int) -> None:
    if kernel.can_sync_file_system():
        _sync_file_system(folder)
    else:
        os.sync()


def _sync_file_system(handle: int) -> None:
    with allow_long_wait():
        kernel.sync_file_system(handle)


def _sync_folder(handle: int) -> None:
    try:
        sync_file(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot flush folders
            raise
