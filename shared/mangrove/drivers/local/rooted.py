"""Local paths that cannot leave their root, whatever links stand or appear on the way.

A path is resolved first, refused when it ends outside, then opened folder by folder without following links: what
was swapped for a link in between is met as an error, never followed.
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
_WORDS: dict[int, tuple[type[StorageProblem], str | None]] = {
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
def told() -> Iterator[None]:
    """The system's errors in a driver's words, without the server's paths."""
    try:
        yield
    except OSError as error:
        kind, text = _WORDS.get(error.errno or 0, (StorageProblem, os.strerror(error.errno or errno.EIO)))
        raise kind(text) from error


class Root:
    """The folder below which everything happens. All methods block; they are called in threads."""

    def __init__(self, folder: str) -> None:
        self.real = os.path.realpath(folder)

    def _inside(self, path: TreePath) -> list[str]:
        """The real segments of `path` below the root, links resolved; NotFound when it leads elsewhere."""
        real = os.path.realpath(self.real + str(path))
        if real == self.real:
            return []
        prefix = self.real.rstrip("/") + "/"
        if not real.startswith(prefix):
            raise NotFound
        return real[len(prefix) :].split("/")

    def _walk(self, segments: list[str]) -> int:
        handle = os.open(self.real, _FOLDER)
        for segment in segments:
            try:
                below = os.open(segment, _FOLDER, dir_fd=handle)
            finally:
                os.close(handle)
            handle = below
        return handle

    @contextmanager
    def folder(self, path: TreePath) -> Iterator[int]:
        """A handle of the folder `path`; NotFound, or NotSupported when it is a file."""
        with told():
            segments = self._inside(path)
            try:
                handle = self._walk(segments)
            except NotADirectoryError:
                if self.status(path) is not None:
                    raise NotAFolder from None
                raise
            try:
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def place(self, path: TreePath) -> Iterator[tuple[int, str]]:
        """A handle of the folder of `path` and its last segment as it stands there, possibly a link."""
        with self.folder(path.parent) as handle:
            yield handle, path.name

    @contextmanager
    def target(self, path: TreePath) -> Iterator[tuple[int, str]]:
        """As `place`, but where the bytes of `path` really are or are to be; Forbidden when that is elsewhere."""
        with told():
            try:
                segments = self._inside(path)
            except NotFound:
                raise Forbidden from None
            handle = self._walk(segments[:-1])
            try:
                yield handle, segments[-1] if segments else "."
            finally:
                os.close(handle)

    def open(self, path: TreePath) -> int:
        """A handle for reading the regular file `path`; NotSupported for a folder or a device."""
        with told():
            segments = self._inside(path)
            if not segments:
                raise NotAFile
            handle = self._walk(segments[:-1])
            try:
                found = os.open(segments[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
            finally:
                os.close(handle)
            if not stat.S_ISREG(os.fstat(found).st_mode):
                os.close(found)
                raise NotAFile
            return found

    def status(self, path: TreePath) -> os.stat_result:
        """The status of what `path` leads to; NotFound when that is nothing or elsewhere."""
        with told():
            segments = self._inside(path)
            if not segments:
                return os.stat(self.real)
            handle = self._walk(segments[:-1])
            try:
                found = os.stat(segments[-1], dir_fd=handle, follow_symlinks=False)
            finally:
                os.close(handle)
            if stat.S_ISLNK(found.st_mode):
                raise NotFound  # a circle, or swapped since it was resolved
            return found
