"""Which file something is: by its inode, its times and its size."""

from __future__ import annotations

import os
from typing import NamedTuple, Self

from mangrove.drivers.base import CopyRequest, Entry


class FileVersion(NamedTuple):
    """A file as the system shows it; times in nanoseconds since the epoch. `changed` is also set by a rename."""

    inode: int
    modified: int
    changed: int
    size: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)

    @property
    def etag(self) -> str:
        return "-".join(f"{value:x}" for value in self)

    def is_same_file(self, other: FileVersion) -> bool:
        """Whether both are one file with the same bytes, which may have been renamed in between."""
        return self._replace(changed=0) == other._replace(changed=0)


def is_same(status: os.stat_result, entry: Entry | CopyRequest, *, renamed: bool = False) -> bool:
    """Whether a file is what `stat` or a listing showed. `renamed`: its name was another one in between."""
    if entry.size not in (None, status.st_size) or entry.modified not in (0.0, status.st_mtime):
        return False
    if not entry.etag:
        return True
    version = FileVersion.of(status)
    if renamed:
        return entry.etag.partition("-")[0] == version.etag.partition("-")[0]
    return entry.etag == version.etag
