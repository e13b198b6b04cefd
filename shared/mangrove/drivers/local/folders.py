"""New folders with their missing parents, while other callers remove and make the same folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound
from mangrove.drivers.local.rooted import Root

ATTEMPTS = 20  # each ends when another caller removes one of the folders


def make_folders(root: Root, path: TreePath, mode: int, notice: Callable[[TreePath], None]) -> None:
    """Make a folder and its missing parents. Call `notice` for each new one. Raise EntryExists for a file."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _make_folders(root, path, mode, notice)
        except EntryNotFound:
            pass  # one of the parents was removed meanwhile
    return _make_folders(root, path, mode, notice)


def _make_folders(root: Root, path: TreePath, mode: int, notice: Callable[[TreePath], None]) -> None:
    for step in reversed(path.ancestors()[:-1]):
        with root.open_parent(step) as (folder, name):
            try:
                os.mkdir(name, mode, dir_fd=folder)
            except FileExistsError:
                if not stat.S_ISDIR(root.stat(step).st_mode):
                    raise EntryExists from None
                continue
        notice(step)
