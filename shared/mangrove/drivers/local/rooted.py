"""Paths that are confined to a root: opened step by step, kept open, and compared by version."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import NamedTuple, Self

from mangrove.core.config import config
from mangrove.core.descriptors import open_patiently
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageFull,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import Capacity, CopyRequest, Entry
from mangrove.drivers.local import kernel
from mangrove.drivers.threads import is_given_up

Segments = tuple[str, ...]  # of a path below the root, links resolved
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PATH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
_NOT_SAID = (
    errno.EXDEV, errno.ELOOP,  # links that lead out, or to themselves, or have an absolute target
    errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.E2BIG,  # the call is missing, or folders were renamed meanwhile
    errno.ENAMETOOLONG,  # of the whole path; its segments may be valid
)  # fmt: skip


class NameTooLong(StorageProblem):
    """No entry can have this name, or that of a folder on the way to it."""


_PROBLEMS: dict[int, tuple[type[StorageProblem], str | None]] = {
    errno.ENOENT: (EntryNotFound, None),
    errno.ENOTDIR: (EntryNotFound, None),
    errno.ELOOP: (EntryNotFound, None),
    errno.EEXIST: (EntryExists, None),
    errno.ENOTEMPTY: (EntryExists, "folder is not empty"),
    errno.EISDIR: (NotAFile, None),
    errno.EACCES: (StorageForbidden, None),
    errno.EPERM: (StorageForbidden, None),
    errno.EROFS: (StorageForbidden, "the storage is read-only"),
    errno.EXDEV: (NotSupported, None),
    errno.ENOSPC: (StorageFull, "no space left on the storage"),
    errno.EDQUOT: (StorageFull, "the quota of the storage is used up"),
    errno.ENAMETOOLONG: (NameTooLong, "file name too long"),
    errno.EMFILE: (Unreachable, "too many files are open, try again later"),
    errno.ENFILE: (Unreachable, "too many files are open, try again later"),
}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of the system as StorageProblem, without the server's paths in their text."""
    try:
        yield
    except OSError as error:
        raise make_problem(error) from error


def make_problem(error: OSError) -> StorageProblem:
    """Return the problem of an error of the system, without paths of the server in its text."""
    kind, text = _PROBLEMS.get(error.errno or 0, (StorageProblem, os.strerror(error.errno or errno.EIO)))
    return kind(text)


def check_wanted() -> None:
    """Raise Unreachable if the call in this thread was given up: it must not change anything any more."""
    if is_given_up():
        raise Unreachable


def _lies_in(real: str, folder: str) -> bool:
    """True if a path is that of a folder or below it, both with links resolved."""
    return real == folder or real.startswith(folder.rstrip("/") + "/")


class Root:
    """The root folder of a storage. All methods but the constructor block, and are called in threads."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @cached_property
    def real(self) -> str:
        """Its absolute path, with links resolved at the first use."""
        return os.path.realpath(self._folder)

    @cached_property
    def _is_private(self) -> bool:
        """True if it is in the data directory, which is for its owner alone."""
        data = config().data
        return data is not None and _lies_in(self.real, os.path.realpath(data))

    def limit_mode(self, mode: int) -> int:
        """The permissions of new entries below, before the umask."""
        return mode & 0o700 if self._is_private else mode

    def extend_mode(self, mode: int) -> int:
        """The permissions that a file below would have elsewhere, before the umask."""
        owner = mode & 0o700
        return mode | owner >> 3 | owner >> 6 if self._is_private else mode

    def resolve(self, path: TreePath) -> Segments:
        """Return the real segments of `path` below the root, with links resolved.

        Raise EntryNotFound if it leads outside.
        """
        real = os.path.realpath(self.real + str(path))
        if real == self.real:
            return ()
        if not _lies_in(real, self.real):
            raise EntryNotFound
        return tuple(real[len(self.real.rstrip("/")) + 1 :].split("/"))

    def _open_beneath(self, path: TreePath, flags: int) -> int | None:
        """Return a handle of the target of `path`; None if the kernel does not confirm that it is below the root."""
        root = open_patiently(os.open, self.real, _PATH | os.O_DIRECTORY)
        try:
            return open_patiently(kernel.open_beneath, root, path[1:] or ".", flags)
        except OSError as error:
            if error.errno in _NOT_SAID:
                return None
            raise
        finally:
            os.close(root)

    def _walk(self, segments: Segments) -> int:
        """Return a handle of a folder that `resolve` found."""
        handle = open_patiently(os.open, self.real, _FOLDER | os.O_NOFOLLOW)
        for segment in segments:
            try:
                below = open_patiently(os.open, segment, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            finally:
                os.close(handle)
            handle = below
        return handle

    def _open_folder(self, path: TreePath) -> int:
        try:
            handle = self._open_beneath(path, _FOLDER)
            return self._walk(self.resolve(path)) if handle is None else handle
        except NotADirectoryError:
            if not stat.S_ISDIR(self.stat(path).st_mode):
                raise NotAFolder from None
            raise

    @contextmanager
    def open_folder(self, path: TreePath) -> Iterator[int]:
        """Return a handle of the folder `path`. Raise EntryNotFound, or NotSupported if it is a file."""
        with translate_errors():
            handle = self._open_folder(path)
            try:
                check_wanted()
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def open_real_folder(self, segments: Segments) -> Iterator[int]:
        """Return a handle of a folder that `resolve` found."""
        with translate_errors():
            handle = self._walk(segments)
            try:
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def open_parent(self, path: TreePath) -> Iterator[tuple[int, str]]:
        """Return a handle of the folder of `path`, and its last segment, possibly a link."""
        with self.open_folder(path.parent) as handle:
            yield handle, path.name

    @contextmanager
    def open_target(self, path: TreePath) -> Iterator[tuple[int, str]]:
        """Return as `open_parent`, with links resolved: the folder of the bytes.

        Raise StorageForbidden if that is outside.
        """
        with translate_errors():
            handle, name = self._open_target(path)
            try:
                check_wanted()
                yield handle, name
            finally:
                os.close(handle)

    def _open_target(self, path: TreePath) -> tuple[int, str]:
        handle = self._open_beneath(path.parent, _FOLDER)
        if handle is not None:
            try:
                is_final = path == "/" or not _is_link(path.name, handle)
            except BaseException:
                os.close(handle)
                raise
            if is_final:
                return handle, path.name or "."
            os.close(handle)
        try:
            segments = self.resolve(path)
        except EntryNotFound:
            raise StorageForbidden from None
        return self._walk(segments[:-1]), segments[-1] if segments else "."

    def open(self, path: TreePath) -> int:
        """Return a handle for reading the regular file `path`. Raise NotSupported for a folder or a device."""
        with translate_errors():
            handle = self._open_beneath(path, FILE)
            if handle is None:
                handle = self._walk_to(path, FILE | os.O_NOFOLLOW)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise NotAFile
            return handle

    def _walk_to(self, path: TreePath, flags: int) -> int:
        """Return as `_open_beneath`, folder by folder."""
        segments = self.resolve(path)
        if not segments:
            return os.open(self.real, flags)
        handle = self._walk(segments[:-1])
        try:
            return os.open(segments[-1], flags, dir_fd=handle)
        finally:
            os.close(handle)

    def stat(self, path: TreePath) -> os.stat_result:
        """Return the status of the target of `path`. Raise EntryNotFound if there is none or it is outside."""
        with translate_errors():
            handle = self._open_beneath(path, _PATH)
            if handle is not None:
                try:
                    return os.fstat(handle)
                finally:
                    os.close(handle)
            return self._walk_to_status(path)

    def _walk_to_status(self, path: TreePath) -> os.stat_result:
        segments = self.resolve(path)
        if not segments:
            return os.stat(self.real)
        handle = self._walk(segments[:-1])
        try:
            status = os.stat(segments[-1], dir_fd=handle, follow_symlinks=False)
        finally:
            os.close(handle)
        if stat.S_ISLNK(status.st_mode):
            raise EntryNotFound  # a link to itself, or replaced since it was resolved
        return status

    def measure_space(self) -> Capacity:
        """Return the size of the file system, and the space that is free for this process."""
        with translate_errors():
            status = os.statvfs(self.real)
        return Capacity(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def sum_sizes(self, path: TreePath) -> int:
        """Return the bytes of all files below a folder; links are not followed."""
        total = 0
        for _, _, names, handle in os.fwalk(self.real + str(path), follow_symlinks=False):
            for name in names:
                try:
                    total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_size
                except FileNotFoundError:
                    pass  # removed meanwhile
        return total


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


class FileStat(NamedTuple):
    """A file as the system shows it; times in nanoseconds since the epoch. A rename also sets `changed`."""

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

    def is_same_file(self, other: FileStat) -> bool:
        """True if both are one file with the same bytes, which may have been renamed in between."""
        return self._replace(changed=0) == other._replace(changed=0)


def is_unchanged(status: os.stat_result, now: os.stat_result) -> bool:
    """True if an open file has not changed between two calls of `fstat`."""
    return FileStat.of(status) == FileStat.of(now)


def is_same(status: os.stat_result, entry: Entry | CopyRequest, *, renamed: bool = False) -> bool:
    """True if a file is the one that `stat` or a listing showed. `renamed`: it was renamed in between."""
    if entry.size not in (None, status.st_size) or entry.modified not in (0.0, status.st_mtime):
        return False
    if not entry.etag:
        return True
    version = FileStat.of(status)
    if renamed:
        return entry.etag.partition("-")[0] == version.etag.partition("-")[0]
    return entry.etag == version.etag


class OpenFolder(NamedTuple):
    """The handle of a folder, and its device."""

    handle: int
    device: int


class OpenFolders:
    """Open folders of one root: each is opened for the first of its files.

    It is for one call in one thread, which limits their number.
    """

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
        """Return the folder of `path`, and its last segment."""
        parent, _, name = path.rpartition("/")
        folder = self._folders.get(parent)
        if folder is None:
            handle = self._open.enter_context(self.root.open_folder(path.parent))
            folder = self._folders[parent] = OpenFolder(handle, os.fstat(handle).st_dev)
        return folder, name

    def open_file(self, path: TreePath) -> tuple[int, os.stat_result]:
        """Return as `Root.open`, with the status of the file."""
        try:
            folder, name = self._enter(path)
            handle = open_patiently(os.open, name or ".", FILE | os.O_NOFOLLOW, dir_fd=folder.handle)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise make_problem(error) from error
            handle = self.root.open(path)  # the target of the link
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            raise NotAFile
        return handle, status

    def open_new(self, path: TreePath) -> tuple[OpenFolder, str]:
        """Return the folder of a path whose name is expected to be free, and its last segment."""
        with translate_errors():
            return self._enter(path)

    def open_target(self, path: TreePath, overwrite: bool) -> tuple[OpenFolder, str]:
        """Return as `Root.open_target`.

        Raise EntryExists for an entry that must not be replaced, before its bytes are copied in vain; the check that
        decides is made when the copy gets its name.
        """
        try:
            folder, name = self._enter(path)
            if not os.access(name, os.F_OK, dir_fd=folder.handle, follow_symlinks=False):
                return folder, name
            if _is_link(name, folder.handle):
                handle, name = self._open.enter_context(self.root.open_target(path))
                return OpenFolder(handle, os.fstat(handle).st_dev), name
        except OSError as error:
            raise make_problem(error) from error
        if not overwrite:
            raise EntryExists
        return folder, name
