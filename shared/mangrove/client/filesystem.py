"""A file system for fsspec: `fsspec.filesystem("mangrove", address=…, token=…)`."""

from __future__ import annotations

import errno
import io
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import stringify_path

from mangrove.client.client import Client
from mangrove.client.errors import ClientError
from mangrove.client.models import FileObject, SingleObject
from mangrove.client.transfers import MAX_SPOOLED_BYTES, download, upload

URL_VARIABLE, TOKEN_VARIABLE = "MANGROVE_URL", "MANGROVE_TOKEN"
BLOCK_BYTES = 4 << 20  # of a read that is buffered
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _translate(error: ClientError, path: str) -> OSError:
    if error.is_missing:
        return FileNotFoundError(errno.ENOENT, str(error), path)
    if error.is_name_taken:
        return FileExistsError(errno.EEXIST, str(error), path)
    if error.is_denied:
        return PermissionError(errno.EACCES, str(error), path)
    return OSError(errno.EIO, str(error), path)


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise _translate(error, path) from error


def _with_os_errors(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a method that raises subclasses of OSError. Its first argument is a path."""

    @wraps(method)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _translate_errors(str(arguments[1] if len(arguments) > 1 else "")):
            return method(*arguments, **options)

    return call


class MangroveFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The tree of a Mangrove. Paths are absolute: `mangrove://files/a.txt` is `/files/a.txt`.

    `address` and `token` default to MANGROVE_URL and MANGROVE_TOKEN. Failures are subclasses of OSError.
    """

    protocol = "mangrove"
    root_marker = "/"

    def __init__(self, address: str = "", token: str = "", **options: Any) -> None:
        super().__init__(**options)
        with _translate_errors(address):
            self.client = Client(
                address or os.environ.get(URL_VARIABLE, ""), token or os.environ.get(TOKEN_VARIABLE, "")
            )

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = str(stringify_path(path)).removeprefix("mangrove://").strip("/")
        return f"/{text}"

    @_with_os_errors
    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entry = self.client.info(path)
        if not entry["is_dir"]:
            rows = [_describe(path, entry)]
        else:
            rows = [_describe(posixpath.join(path, row["name"]), row) for row in self.client.iter_folder(path)]
        return rows if detail else [row["name"] for row in rows]

    @_with_os_errors
    def info(self, path: str, **options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return _describe(path, self.client.info(path))

    def modified(self, path: str) -> datetime:
        modified: datetime = self.info(path)["modified"]
        return modified

    def created(self, path: str) -> datetime:
        created: datetime = self.info(path)["created"]
        return created

    @_with_os_errors
    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not create_parents and not self.isdir(self._parent(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._parent(path))
        self.client.fs_mkdir(path=path)

    @_with_os_errors
    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return
        self.client.fs_mkdir(path=path)

    @_with_os_errors
    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if not self.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if self.ls(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._remove(path)

    @_with_os_errors
    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        if self.info(path)["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._remove(path)

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    @_with_os_errors
    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        paths = path if isinstance(path, list) else [path]
        for each in map(self._strip_protocol, paths):
            if recursive and maxdepth is None and not self._is_pattern(each):
                self.info(each)
                self._remove(each)
            else:
                super().rm(each, recursive=recursive, maxdepth=maxdepth)

    @staticmethod
    def _is_pattern(path: str) -> bool:
        return any(letter in path for letter in "*?[")

    def _remove(self, path: str) -> None:
        folder, name = posixpath.split(path)
        self.client.fs_remove(dir=folder, names=[name])

    @_with_os_errors
    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.makedirs(target, exist_ok=True)
            return
        (folder, name), (target_folder, target_name) = posixpath.split(source), posixpath.split(target)
        if name == target_name and folder != target_folder:
            self.makedirs(target_folder, exist_ok=True)
            for task in self.client.copy(folder, [name], target_folder, overwrite=True):
                self.client.wait("copy", task)
        else:
            self._copy_bytes(source, target)

    def _copy_bytes(self, source: str, target: str) -> None:
        """Copy a file to another name through this process: the service copies to the same name only."""
        with tempfile.SpooledTemporaryFile(MAX_SPOOLED_BYTES) as spool:
            with self.client.stream(source) as response:
                for block in response.iter_bytes():
                    spool.write(block)
            spool.seek(0)
            upload(self.client, spool, target)

    @_with_os_errors
    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        path = self._strip_protocol(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            start = max(size + start, 0) if start is not None and start < 0 else start
            end = size + end if end is not None and end < 0 else end
        return self.client.read(path, start or 0, end)

    @_with_os_errors
    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        path = self._strip_protocol(path)
        upload(self.client, io.BytesIO(value), path, overwrite=mode != "create")

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **options: Any) -> None:
        target = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(target, exist_ok=True)
            return
        with open(lpath, "rb") as file, _translate_errors(target):
            status = os.fstat(file.fileno())
            if callback is not None:
                callback.set_size(status.st_size)
            notify = id if callback is None else callback.relative_update
            modified = status.st_mtime_ns // 1_000_000
            upload(self.client, file, target, overwrite=mode != "create", modified=modified, notify=notify)

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **options: Any) -> None:
        source = self._strip_protocol(rpath)
        if self.isdir(source):
            os.makedirs(lpath, exist_ok=True)
            return
        if outfile is not None or hasattr(lpath, "write"):
            super().get_file(source, lpath, callback, outfile)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        with _translate_errors(source):
            if callback is not None:
                callback.set_size(self.info(source)["size"])
            download(self.client, source, Path(lpath), notify=id if callback is None else callback.relative_update)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> MangroveFile:
        if mode not in ("rb", "wb", "xb"):
            raise NotImplementedError(f"files cannot be opened with the mode {mode}")
        if mode == "xb" and self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        return MangroveFile(self, path, mode, block_size or BLOCK_BYTES, **options)


class MangroveFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """An open file. What is written appears at its path when the file is closed."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        with _translate_errors(self.path):
            content: bytes = self.fs.client.read(self.path, start, end)
            return content

    def _initiate_upload(self) -> None:
        self._spool = tempfile.SpooledTemporaryFile(MAX_SPOOLED_BYTES)  # noqa: SIM115 - closed with the file

    def _upload_chunk(self, final: bool = False) -> bool:
        self._spool.write(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Store the file at its path."""
        self._spool.seek(0)
        with self._spool, _translate_errors(self.path):
            upload(self.fs.client, self._spool, self.path, overwrite=self.mode != "xb")

    def discard(self) -> None:
        """Forget the written bytes."""
        self._spool.close()


def _describe(path: str, entry: FileObject | SingleObject) -> dict[str, Any]:
    kind = "directory" if entry["is_dir"] else "file"
    return {
        "name": path,
        "size": 0 if entry["is_dir"] else entry["size"],
        "type": kind,
        "modified": datetime.fromisoformat(entry["modified"]),
        "created": datetime.fromisoformat(entry["created"]),
    }
