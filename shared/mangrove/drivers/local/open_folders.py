"""Folders that are kept open for all of their files that are asked for."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from typing import NamedTuple, Self

from mangrove.core.descriptors import open_patiently
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, NotAFile
from mangrove.drivers.local.rooted import FILE, Root, make_problem


class OpenFolder(NamedTuple):
    """The handle of a folder, and the device that it lies on."""

    handle: int
    device: int


class OpenFolders:
    """Of one root: each folder is opened when the first of its files is asked for. For one call in one thread, which
    sees to it that they are not too many."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._folders: dict[str, OpenFolder] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.clear()
        self._open.close()

    def _enter(self, path: TreePath) -> tuple[OpenFolder, str]:
        """The folder of `path`, and its last segment."""
        parent, _, name = path.rpartition("/")
        folder = self._folders.get(parent)
        if folder is None:
            handle = self._open.enter_context(self.root.open_folder(path.parent))
            folder = self._folders[parent] = OpenFolder(handle, os.fstat(handle).st_dev)
        return folder, name

    def open_file(self, path: TreePath) -> tuple[int, os.stat_result]:
        """As `Root.open`, with the status of the file."""
        try:
            folder, name = self._enter(path)
            handle = open_patiently(os.open, name or ".", FILE | os.O_NOFOLLOW, dir_fd=folder.handle)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise make_problem(error) from error
            handle = self.root.open(path)  # where the link leads
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            raise NotAFile
        return handle, status

    def open_target(self, path: TreePath, overwrite: bool) -> tuple[OpenFolder, str]:
        """As `Root.open_target`; EntryExists when something is there that must not be replaced, before bytes are copied
        for nothing: what counts is what is there when the copy gets its name."""
        try:
            folder, name = self._enter(path)
            if not os.access(name, os.F_OK, dir_fd=folder.handle, follow_symlinks=False):
                return folder, name
            if stat.S_ISLNK(os.stat(name, dir_fd=folder.handle, follow_symlinks=False).st_mode):
                handle, name = self._open.enter_context(self.root.open_target(path))
                return OpenFolder(handle, os.fstat(handle).st_dev), name
        except OSError as error:
            raise make_problem(error) from error
        if not overwrite:
            raise EntryExists
        return folder, name
