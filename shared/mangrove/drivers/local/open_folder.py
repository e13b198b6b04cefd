"""A folder that is kept open for all of its files that are asked for one after the other."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from typing import Self

from mangrove.drivers.local.rooted import FILE, Root, translate_errors
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotAFile


class OpenFolder:
    """Of one root: the folder of the path that was asked for last. For one call in one thread."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._path = ""  # none yet
        self._handle = -1
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _enter(self, path: TreePath) -> int:
        """A handle of the folder of `path`."""
        folder = path.parent
        if folder != self._path:
            self._leave()
            self._handle = self._open.enter_context(self.root.open_folder(folder))
            self._path = folder
        return self._handle

    def _leave(self) -> None:
        self._path = ""
        self._open.close()

    def open_file(self, path: TreePath) -> tuple[int, os.stat_result]:
        """As `Root.open`, with the status of the file."""
        with translate_errors():
            folder = self._enter(path)
            try:
                handle = os.open(path.name or ".", FILE | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                handle = self.root.open(path)  # where the link leads
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                os.close(handle)
                raise NotAFile
            return handle, status

    def open_target(self, path: TreePath, overwrite: bool) -> tuple[int, str]:
        """As `Root.open_target`; Exists when something is there that must not be replaced, before bytes are copied for
        nothing: what counts is what is there when the copy gets its name."""
        with translate_errors():
            folder = self._enter(path)
            try:
                status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return folder, path.name
            if stat.S_ISLNK(status.st_mode):
                self._leave()
                folder, name = self._open.enter_context(self.root.open_target(path))
                return folder, name
            if not overwrite:
                raise Exists
            return folder, path.name
