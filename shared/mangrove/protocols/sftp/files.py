"""The operations of SFTP on the tree, for one connection of a signed-in user."""

from __future__ import annotations

import posixpath
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from asyncssh import SSHServerChannel
from asyncssh.constants import FXF_APPEND, FXF_CREAT, FXF_EXCL, FXF_TRUNC, FXF_WRITE
from asyncssh.sftp import SFTPAttrs, SFTPError, SFTPFailure, SFTPName, SFTPOpUnsupported, SFTPServer, SFTPVFSAttrs

from mangrove.core.problems import BadRequest, EntryExists, EntryNotFound, NotAFile, NotSupported, Problem
from mangrove.core.telemetry import log_exception
from mangrove.drivers.base import Entry
from mangrove.identity.rights import Right
from mangrove.protocols.sessions import ProtocolSession
from mangrove.protocols.sftp.handles import ConnectionHandles, HandleAccess, OpenedFile, OpenedFolder, explain
from mangrove.protocols.sftp.writing import Old, Spool, WrittenFile
from mangrove.tree import access as accesses
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import strict_operations, uploads

BLOCK_BYTES = 4096  # unit of the sizes in `statvfs`
MAX_NAME_BYTES = 255
MAX_NAMES_PER_ANSWER = 128

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Verb = Callable[Concatenate["TreeServer", Arguments], Awaitable[Result]]


def _logged(
    name: str,
) -> Callable[[Verb[Arguments, Result]], Callable[Concatenate[TreeServer, Arguments], Coroutine[Any, Any, Result]]]:
    """Decorate an operation: failures become statuses of SFTP, and it writes one line of the access log.

    With an empty `name`, it logs failures only.
    """

    def decorate(
        verb: Verb[Arguments, Result],
    ) -> Callable[Concatenate[TreeServer, Arguments], Coroutine[Any, Any, Result]]:
        @wraps(verb)
        async def run(self: TreeServer, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            began, problem = time.perf_counter(), ""
            try:
                return await verb(self, *args, **kwargs)
            except Problem as error:
                problem = type(error).__name__
                raise explain(error) from None
            except SFTPError as error:
                problem = type(error).__name__
                raise
            except Exception:  # unexpected: the client gets a status, the log the traceback
                problem = "internal error"
                log_exception("request failed", protocol=self.session.protocol, method=verb.__name__)
                raise SFTPFailure("internal error") from None
            finally:
                if name or problem:
                    target = args[0] if args and isinstance(args[0], bytes) else b""
                    self.session.log(name or verb.__name__, target.decode(errors="replace"), began, problem)

        return run

    return decorate


def _decode(path: bytes) -> str:
    """Return an absolute path, with `.` and `..` resolved as text.

    Raise BadRequest for a path that the tree cannot have.
    """
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise BadRequest("a name has to be UTF-8") from None
    if "\\" in text:
        raise BadRequest("a name cannot have a backslash")
    return posixpath.normpath(posixpath.join("/", text))


def _make_attrs(entry: Entry) -> SFTPAttrs:
    """Return the attributes of an entry.

    All mode bits for reading are set; the operations check the rights to write.
    """
    modified = max(0, int(entry.modified))
    kind = stat.S_IFDIR if entry.is_dir else stat.S_IFREG
    size = entry.size if not entry.is_dir else 0
    return SFTPAttrs(size=size, uid=0, gid=0, permissions=kind | 0o755, atime=modified, mtime=modified, nlink=1)


def _describe(file: WrittenFile) -> SFTPAttrs:
    """Return the attributes of a file that the client is writing."""
    modified = time.time() if file.modified is None else file.modified
    return _make_attrs(Entry("", file.size, modified, False))


def _require_file(file: object) -> OpenedFile | WrittenFile:
    if not isinstance(file, OpenedFile | WrittenFile):
        raise BadRequest("the handle is not of a file")
    return file


def _require_written(file: object) -> WrittenFile:
    if not isinstance(file, WrittenFile):
        raise BadRequest("the file is open for reading only")
    return file


class TreeServer(SFTPServer):
    """One client's view of the tree. `handles`: the open handles of the connection."""

    def __init__(self, channel: SSHServerChannel[bytes], session: ProtocolSession, handles: ConnectionHandles) -> None:
        super().__init__(channel)
        self.session = session
        self.is_ending = False  # the server closes what is open now, not the client
        self._handles = handles
        self._open: set[OpenedFile | WrittenFile | OpenedFolder] = set()

    async def _at(self, path: bytes, right: Right = Right.READ) -> PathAccess:
        return await accesses.at(await self.session.make_caller(right), _decode(path))

    @_logged("")
    async def realpath(self, path: bytes) -> bytes:
        return _decode(path).encode()

    @_logged("STAT")
    async def stat(self, path: bytes) -> SFTPAttrs:
        return await self._stat(path)

    @_logged("LSTAT")
    async def lstat(self, path: bytes) -> SFTPAttrs:
        return await self._stat(path)

    async def _stat(self, path: bytes) -> SFTPAttrs:
        """Return the attributes at a path. The session's own unfinished files are included, as sshfs expects."""
        access = await self._at(path)
        written = self._find_written(access)
        return _make_attrs(await entries.stat(access)) if written is None else _describe(written)

    def _find_written(self, access: PathAccess) -> WrittenFile | None:
        files = (file for file in self._open if isinstance(file, WrittenFile) and file.path == access.path)
        return next(files, None) if access.may_read() else None

    @_logged("")
    async def fstat(self, file_obj: object) -> SFTPAttrs:
        if isinstance(file_obj, OpenedFile):
            return _make_attrs(file_obj.entry)
        return _describe(_require_written(file_obj))

    def scandir(self, path: bytes) -> OpenedFolder:
        """Return the names of a folder. The caller has to call `close_folder` afterwards."""
        try:
            self._handles.take()
        except Problem as problem:
            raise explain(problem) from None
        folder = OpenedFolder(self._iterate_names(path))
        self._open.add(folder)
        return folder

    async def close_folder(self, folder: AsyncIterator[SFTPName]) -> None:
        """Close a folder that `scandir` has returned. A closed one is ignored."""
        if isinstance(folder, OpenedFolder) and folder in self._open:
            self._open.discard(folder)
            self._handles.release()
            await folder.close()

    async def _iterate_names(self, path: bytes) -> AsyncGenerator[SFTPName]:
        access, opened = await self._open_folder(path)
        listing = entries.iterate(opened)
        while names := await self._take_names(listing):
            for name in names:
                yield name
            await self._follow(access)

    @_logged("READDIR")
    async def _open_folder(self, path: bytes) -> tuple[HandleAccess, PathAccess]:
        access = await self._at(path)
        await entries.require_folder(access)
        return HandleAccess(access, None, Right.READ, partial(self._at, path)), access

    @_logged("READDIR")
    async def _follow(self, access: HandleAccess) -> None:
        await access.follow()

    @_logged("")
    async def _take_names(self, listing: AsyncIterator[Entry]) -> list[SFTPName]:
        """Return the next names of a folder, without names that SFTP cannot encode."""
        names: list[SFTPName] = []
        async for entry in listing:
            name = SFTPName(entry.name.encode(errors="surrogateescape"), attrs=_make_attrs(entry))
            self.format_longname(name)
            names.append(name)
            if len(names) == MAX_NAMES_PER_ANSWER:
                break
        return names

    def format_user(self, uid: int | None) -> str:
        return self.session.username

    def format_group(self, gid: int | None) -> str:
        return "mangrove"

    @_logged("OPEN")
    async def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> object:
        is_write = bool(pflags & FXF_WRITE)
        self._handles.take(is_write=is_write)
        try:
            file = await (self._open_to_write(path, pflags) if is_write else self._open_to_read(path))
        except BaseException:
            self._handles.release(is_write=is_write)
            raise
        self._open.add(file)
        return file

    async def _open_to_read(self, path: bytes) -> OpenedFile:
        access = await self._at(path)
        entry = await entries.stat(access)
        if entry.is_dir:
            raise NotAFile
        storage_path = await access.locate("")
        return OpenedFile(storage_path, entry, HandleAccess(access, storage_path, Right.READ, partial(self._at, path)))

    async def _open_to_write(self, path: bytes, flags: int) -> WrittenFile:
        access = await self._at(path, Right.WRITE)
        access.parent.require(Right.WRITE)
        if access.parent.may_read():
            await entries.require_folder(access.parent)
        if flags & FXF_EXCL:
            strict_operations.refuse_hidden(access)
        entry = await entries.find_known(access)
        if entry is None and not flags & FXF_CREAT:
            raise EntryNotFound
        if entry is not None and flags & FXF_EXCL:
            raise EntryExists
        if entry is not None and entry.is_dir:
            raise NotAFile
        is_exclusive = bool(flags & FXF_EXCL)
        handle = HandleAccess(access, await access.locate(""), Right.WRITE, partial(self._at, path, Right.WRITE))
        chosen, storage_path = await uploads.prepare_known(access, not is_exclusive, entry)
        old = None if entry is None or flags & FXF_TRUNC else Old(storage_path, entry)
        spool = Spool(self._handles, partial(storage_path.driver.open_staged, storage_path.path))
        file = WrittenFile(handle, chosen, old, not is_exclusive, spool, is_new=entry is None)
        file.is_appending = bool(flags & FXF_APPEND)
        return file

    @_logged("CLOSE")
    async def close(self, file_obj: object) -> None:
        file = _require_file(file_obj)
        if file in self._open:
            self._open.discard(file)
            self._handles.release(is_write=isinstance(file, WrittenFile))
        if isinstance(file, OpenedFile):
            await file.close()
        elif self.is_ending:
            await file.discard()
        else:
            await file.finish()

    @_logged("")
    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        file = _require_file(file_obj)
        await file.access.follow()
        return await file.read(offset, size)

    @_logged("")
    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        file = _require_written(file_obj)
        await file.access.follow()
        await file.write(file.size if file.is_appending else offset, data)
        return len(data)

    @_logged("SETSTAT")
    async def setstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        if attrs.size is not None:
            await self._resize(path, attrs.size, attrs.mtime)
        elif attrs.mtime is not None:
            await strict_operations.set_modified(await self._at(path, Right.WRITE), attrs.mtime)
        else:
            await entries.stat(await self._at(path, Right.WRITE))  # owners and modes are not stored

    async def _resize(self, path: bytes, size: int, modified: float | None) -> None:
        """Truncate an existing file, or extend it with zeros: it is replaced by a file of that size."""
        file = await self._open_to_write(path, FXF_WRITE)
        try:
            file.modified = modified
            await file.truncate(size)
            await file.finish()
        finally:
            await file.discard()

    @_logged("SETSTAT")
    async def lsetstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        await self.setstat(path, attrs)

    @_logged("")
    async def fsetstat(self, file_obj: object, attrs: SFTPAttrs) -> None:
        file = _require_written(file_obj)
        await file.access.follow()
        if attrs.size is not None:
            await file.truncate(attrs.size)
        if attrs.mtime is not None:
            file.modified = attrs.mtime

    @_logged("")
    async def fsync(self, file_obj: object) -> None:
        """Return without an effect. A file is made durable when it is closed, as the setting `durability` says."""

    @_logged("REMOVE")
    async def remove(self, path: bytes) -> None:
        await strict_operations.remove_file(await self._at(path, Right.DELETE))

    @_logged("MKDIR")
    async def mkdir(self, path: bytes, attrs: SFTPAttrs) -> None:
        await strict_operations.mkdir(await self._at(path, Right.WRITE))

    @_logged("RMDIR")
    async def rmdir(self, path: bytes) -> None:
        await strict_operations.remove_folder(await self._at(path, Right.DELETE))

    @_logged("RENAME")
    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._rename(oldpath, newpath, overwrite=False)

    @_logged("POSIX-RENAME")
    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._rename(oldpath, newpath, overwrite=True)

    async def _rename(self, oldpath: bytes, newpath: bytes, *, overwrite: bool) -> None:
        is_same_folder = posixpath.dirname(_decode(oldpath)) == posixpath.dirname(_decode(newpath))
        right = Right.RENAME if is_same_folder else Right.MOVE
        await strict_operations.rename(await self._at(oldpath, right), await self._at(newpath, right), overwrite)

    @_logged("READLINK")
    async def readlink(self, path: bytes) -> bytes:
        raise SFTPOpUnsupported("there are no links")

    @_logged("SYMLINK")
    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        raise SFTPOpUnsupported("there are no links")

    @_logged("LINK")
    async def link(self, oldpath: bytes, newpath: bytes) -> None:
        raise SFTPOpUnsupported("there are no links")

    @_logged("STATVFS")
    async def statvfs(self, path: bytes) -> SFTPVFSAttrs:
        access = await self._at(path)
        access.require_read()
        if access.caller.is_guest or access.tree.settings.hide_storage_details:
            raise NotSupported
        space = await mounts.get_capacity(access.find_mount()[0])
        if space is None:
            raise NotSupported
        total, free = space.total // BLOCK_BYTES, space.free // BLOCK_BYTES
        return SFTPVFSAttrs(
            bsize=BLOCK_BYTES, frsize=BLOCK_BYTES, blocks=total, bfree=free, bavail=free, namemax=MAX_NAME_BYTES
        )  # fmt: skip

    @_logged("")
    async def fstatvfs(self, file_obj: object) -> SFTPVFSAttrs:
        raise NotSupported

    @_logged("CHECK-FILE")
    async def find_hash(
        self, file: object, algorithms: Sequence[str], start: int, length: int, block_size: int
    ) -> tuple[str, bytes]:
        """Return the first requested checksum that the storage knows of a whole file, given by path or handle.

        Raise NotSupported if it knows none, or for a part of a file.
        """
        if isinstance(file, bytes):
            file = await self._open_to_read(file)
        if not isinstance(file, OpenedFile):
            raise BadRequest("the handle is not open for reading")
        size = file.entry.size
        if start or (length and length != size) or (block_size and (size is None or block_size < size)):
            raise NotSupported("only the checksum of a whole file is available")
        known = await file.get_checksums()
        for algorithm in algorithms:
            if algorithm in known:
                return algorithm, bytes.fromhex(known[algorithm])
        raise NotSupported("the storage does not have this checksum")

    async def discard_all(self) -> None:
        """Close all handles. Unfinished files are discarded."""
        self.is_ending = True
        for handle in list(self._open):
            if isinstance(handle, OpenedFolder):
                await self.close_folder(handle)
            else:
                await self.close(handle)
