"""Local paths that cannot leave their root, whatever symbolic links exist or appear below it.

A path is resolved first, refused when it ends outside, then opened folder by folder without following links: a
folder that is replaced by a link in between causes an error and is never followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from mangrove.paths import TreePath
from mangrove.problems import Exists, Forbidden, NotAFile, NotAFolder, NotFound, NotSupported, StorageProblem

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PROBLEMS: dict[int, tuple[type[StorageProblem], str | None]] = {
    errno.ENOENT: (NotFound, None),
    errno.ENOTDIR: (NotFound, None),
    errno.ELOOP: (NotFound, None),
    errno.EEXIST: (Exists, None),
    errno.ENOTEMPTY: (Exists, "folder is not empty"),
    errno.EISDIR: (NotAFile, None),
    errno.EACCES: (Forbidden, None),
    errno.EPERM: (Forbidden, None),
    errno.EROFS: (Forbidden, "the storage is read-only"),
    errno.EXDEV: (NotSupported, None),
    errno.ENOSPC: (StorageProblem, "no space left on the storage"),
    errno.EDQUOT: (StorageProblem, "the quota of the storage is used up"),
    errno.ENAMETOOLONG: (StorageProblem, "file name too long"),
}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of the system as StorageProblem, without the server's paths in their text."""
    try:
        yield
    except OSError as error:
        kind, text = _PROBLEMS.get(error.errno or 0, (StorageProblem, os.strerror(error.errno or errno.EIO)))
        raise kind(text) from error


class Root:
    """The root folder of a storage. All methods block; they are called in threads."""

    def __init__(self, folder: str) -> None:
        self.real = os.path.realpath(folder)

    def _resolve(self, path: TreePath) -> list[str]:
        """The real segments of `path` below the root, links resolved; NotFound when it leads outside."""
        real = os.path.realpath(self.real + str(path))
        if real == self.real:
            return []
        prefix = self.real.rstrip("/") + "/"
        if not real.startswith(prefix):
            raise NotFound
        return real[len(prefix) :].split("/")

    def _open_folder(self, segments: list[str]) -> int:
        handle = os.open(self.real, _FOLDER)
        for segment in segments:
            try:
                below = os.open(segment, _FOLDER, dir_fd=handle)
            finally:
                os.close(handle)
            handle = below
        return handle

    @contextmanager
    def open_folder(self, path: TreePath) -> Iterator[int]:
        """A handle of the folder `path`; NotFound, or NotSupported when it is a file."""
        with translate_errors():
            segments = self._resolve(path)
            try:
                handle = self._open_folder(segments)
            except NotADirectoryError:
                if self.stat(path) is not None:
                    raise NotAFolder from None
                raise
            try:
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def open_parent(self, path: TreePath) -> Iterator[tuple[int, str]]:
        """A handle of the folder of `path`, and its last segment as named there, possibly a link."""
        with self.open_folder(path.parent) as handle:
            yield handle, path.name

    @contextmanager
    def open_target(self, path: TreePath) -> Iterator[tuple[int, str]]:
        """As `open_parent`, with links resolved: where the bytes are or are to be; Forbidden when that is outside."""
        with translate_errors():
            try:
                segments = self._resolve(path)
            except NotFound:
                raise Forbidden from None
            handle = self._open_folder(segments[:-1])
            try:
                yield handle, segments[-1] if segments else "."
            finally:
                os.close(handle)

    def open(self, path: TreePath) -> int:
        """A handle for reading the regular file `path`; NotSupported for a folder or a device."""
        with translate_errors():
            segments = self._resolve(path)
            if not segments:
                raise NotAFile
            handle = self._open_folder(segments[:-1])
            try:
                found = os.open(segments[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
            finally:
                os.close(handle)
            if not stat.S_ISREG(os.fstat(found).st_mode):
                os.close(found)
                raise NotAFile
            return found

    def stat(self, path: TreePath) -> os.stat_result:
        """The status of what `path` leads to; NotFound when that is nothing or outside."""
        with translate_errors():
            segments = self._resolve(path)
            if not segments:
                return os.stat(self.real)
            handle = self._open_folder(segments[:-1])
            try:
                found = os.stat(segments[-1], dir_fd=handle, follow_symlinks=False)
            finally:
                os.close(handle)
            if stat.S_ISLNK(found.st_mode):
                raise NotFound  # a link to itself, or replaced since it was resolved
            return found
