"""Small files of one root, read whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, StorageProblem
from mangrove.drivers.base import Entry, WholeFile
from mangrove.drivers.local.open_folders import OpenFolders
from mangrove.drivers.local.rooted import Root, translate_errors
from mangrove.drivers.local.versions import FileVersion, is_same
from mangrove.drivers.part_names import is_part

MakeEntry = Callable[[TreePath, os.stat_result], Entry]


def read_whole(
    root: Root, files: Sequence[tuple[TreePath, Entry]], make_entry: MakeEntry
) -> list[WholeFile | StorageProblem]:
    """See `ReadsWhole`; blocks. Each folder is opened once."""
    found: list[WholeFile | StorageProblem] = []
    with OpenFolders(root) as folders:
        for path, shown in files:
            try:
                status, content = _read(folders, path, shown)
            except StorageProblem as problem:
                found.append(problem)
            else:
                found.append(WholeFile(make_entry(path, status), content))
    return found


def _read(folders: OpenFolders, path: TreePath, shown: Entry) -> tuple[os.stat_result, bytes]:
    if is_part(path.name):
        raise EntryNotFound
    handle, status = folders.open_file(path)
    try:
        if not is_same(status, shown):
            raise EntryChanged
        with translate_errors():
            content = _read_bytes(handle, status.st_size)
            now = os.fstat(handle)
    finally:
        os.close(handle)
    if len(content) != status.st_size or FileVersion.of(now) != FileVersion.of(status):
        raise EntryChanged
    return status, content


def _read_bytes(handle: int, size: int) -> bytes:
    """The first bytes of a file, fewer where it has no more."""
    content = os.pread(handle, size, 0)
    while len(content) < size and (more := os.pread(handle, size - len(content), len(content))):
        content += more
    return content
