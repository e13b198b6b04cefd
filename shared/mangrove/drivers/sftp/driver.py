"""SFTP: a folder of an SSH server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing

import asyncssh

from mangrove.core.chunked import stream
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers.base import ROOT, Capabilities, Capacity, Driver, DriverContext, DriverProperties, Entry, Upload
from mangrove.drivers.connections import ConnectionPool, parse_address
from mangrove.drivers.leftovers import Leftovers
from mangrove.drivers.part_names import PART, has_part, is_part, refuse_part_name
from mangrove.drivers.refusals import refuse_changed, refuse_inside_itself, refuse_root_removal
from mangrove.drivers.sftp import entries
from mangrove.drivers.sftp.client import CachedResult, HostKey, SftpSession, open_session, read_credentials
from mangrove.drivers.sftp.entries import CREATE, find, is_folder, is_link, list_folder, make_entry
from mangrove.drivers.sftp.errors import ServerFailure
from mangrove.drivers.sftp.options import PORT, SFTPOptions, parse_root
from mangrove.drivers.sftp.transfer import (
    SftpStream,
    can_sync,
    can_write_into_files,
    copy_bytes,
    set_time_and_check,
    sync,
    sync_folders,
    write_blocks,
)
from mangrove.drivers.whole_files import write_whole

MAX_CONTROL_CONNECTIONS = 2  # for short requests
MAX_REQUESTS_PER_CONTROL_CONNECTION = 100
MAX_DATA_CONNECTIONS = 4  # for bytes of files, so that short requests do not wait for them
MAX_FILES_PER_DATA_CONNECTION = 64

Store = Callable[[SftpSession, bytes, AsyncIterator[bytes]], Awaitable[int]]


class SFTP(Driver):
    name = "SFTP"
    Options = SFTPOptions
    config = DriverProperties(only_proxy=True, default_root="/", check_status=True)
    capabilities = Capabilities(
        write=True, parts=True, makedirs=True, rename=True, move=True, copy=True, remove=True, remove_empty=True,
        get_space=True, set_aside=True,
    )  # fmt: skip
    options: SFTPOptions

    def __init__(self, options: SFTPOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._root = parse_root(options.root_folder_path)
        self._host_key = HostKey(options, context)
        self._credentials = CachedResult(lambda: read_credentials(options))
        self._control = self._make_pool(MAX_CONTROL_CONNECTIONS, MAX_REQUESTS_PER_CONTROL_CONNECTION)
        self._data = self._make_pool(MAX_DATA_CONNECTIONS, MAX_FILES_PER_DATA_CONNECTION)
        self._refuses_existing = CachedResult(self._try_refusal)
        self._takes_parts: bool | None = None  # not tried yet
        self._syncs = CachedResult(self._try_sync)
        self._leftovers = Leftovers(context.state, self._discard)

    def _make_pool(self, limit: int, sharing: int) -> ConnectionPool[SftpSession]:
        return ConnectionPool(
            self._open,
            SftpSession.close,
            lambda session: session.is_open,
            SftpSession.check,
            limit=limit,
            sharing=sharing,
        )

    async def _open(self) -> SftpSession:
        return await open_session(self.options, self._host_key, await self._credentials.get())

    def _locate(self, path: TreePath) -> bytes:
        """Return a path on the server. Raise EntryNotFound for the name of an unfinished file."""
        if has_part(path):
            raise EntryNotFound
        return self._root + path.encode() if path != "/" else self._root or b"/"

    async def start(self) -> None:
        parse_address(self.options.address, PORT)
        try:
            async with self._control.use() as session:
                root = await self._find(session, ROOT)
            if root is None or not root.is_dir:
                raise StorageProblem(f"root folder {self.options.root_folder_path} not exists")
        except BaseException:
            await self.stop()
            raise
        self._leftovers.start()

    async def stop(self) -> None:
        await self._leftovers.stop()
        await asyncio.gather(self._control.close(), self._data.close())

    async def can_refuse_existing(self) -> bool:
        try:
            return await self._refuses_existing.get()
        except StorageProblem:
            return False  # unknown; the next call tries again, if no file can be made now

    async def _try_refusal(self) -> bool:
        async with self._control.use() as session:
            return await entries.can_refuse_existing(session, self._root, self._discard_path)

    async def proves_writes(self) -> bool:
        """True if the server can sync: SSH authenticates every byte in transit, so only a power cut can lose one."""
        return await self._syncs.get()

    async def proves_reads(self) -> bool:
        return True  # every byte is authenticated in transit

    async def _try_sync(self) -> bool:
        async with self._control.use() as session:
            return await can_sync(session, self._locate(ROOT))

    async def _find(self, session: SftpSession, path: TreePath) -> Entry | None:
        """Return the entry of a path, with links followed; None if it does not exist."""
        try:
            return make_entry(path.name, await session.call(session.client.stat(self._locate(path)), path))
        except EntryNotFound:
            return None

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        folder = self._locate(path)
        async with self._control.use() as session:
            try:
                listing = list_folder(session, folder, path, skip_broken=self.options.ignore_symlink_error)
                async with aclosing(listing) as batches:
                    async for batch in batches:
                        yield batch
            except (EntryNotFound, ServerFailure):
                entry = await self._find(session, path)
                if entry is not None and not entry.is_dir:
                    raise NotAFolder from None
                raise

    async def stat(self, path: TreePath) -> Entry:
        async with self._control.use() as session:
            entry = await self._find(session, path)
        if entry is None:
            raise EntryNotFound
        return entry

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        async with AsyncExitStack() as resources:
            session = await resources.enter_async_context(self._data.use())
            try:
                opening = session.open_file(self._locate(path), asyncssh.FXF_READ, path)
                file = await resources.enter_async_context(opening)
            except ServerFailure:
                entry = await self._find(session, path)
                if entry is not None and entry.is_dir:
                    raise NotAFile from None
                raise
            entry = make_entry(path.name, await session.call(file.stat(), path))
            if entry.is_dir:
                raise NotAFile
            refuse_changed(entry, if_match)
            end = entry.size
            if length is not None:
                end = offset + length if end is None else min(offset + length, end)
            return SftpStream(session, file, path, (offset, end), resources.pop_all())

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        async def store(session: SftpSession, part: bytes, blocks: AsyncIterator[bytes]) -> int:
            async with session.open_file(part, CREATE, path) as file:
                size = await write_blocks(session, file, path, blocks)
                if upload.durable:
                    await sync(session, file, path)
            return size

        return await self._write_whole(path, body, upload, store)

    async def _write_whole(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload, store: Store) -> Entry:
        """Store a file under a temporary name, then rename it."""
        entry, size = Entry(path.name, None, 0.0, False), 0

        async def store_part(part: TreePath, blocks: AsyncIterator[bytes]) -> None:
            nonlocal size
            async with self._data.use() as session:
                size = await store(session, self._root + part.encode(), blocks)

        async def publish(part: TreePath) -> None:
            nonlocal entry
            async with self._data.use() as session:
                entry = await self._publish(session, part, path, size, upload)

        await write_whole(path, body, upload, store=store_part, publish=publish, discard=self._leftovers.discard)
        return entry

    async def _discard(self, part: TreePath) -> bool:
        """Remove a temporary file or an empty temporary folder. Return True if it existed."""
        async with self._control.use() as session:
            return await entries.remove(session, self._root + part.encode(), "", recursive=False)

    async def _discard_path(self, path: bytes) -> None:
        await self._leftovers.discard(TreePath(path[len(self._root) :].decode()))

    async def _publish(self, session: SftpSession, part: TreePath, path: TreePath, size: int, upload: Upload) -> Entry:
        """Give a complete file its name."""
        old, new = self._root + part.encode(), self._locate(path)
        attributes = await set_time_and_check(session, old, path, size, upload)
        if upload.overwrite:
            await entries.replace_file(session, old, new, path, self._discard_path)
        else:
            await entries.rename_file(session, old, new, path, is_proven=await self.can_refuse_existing())
        if upload.durable:
            await sync_folders(session, [self._locate(folder) for folder in path.parent.ancestors()], path)
        return make_entry(path.name, attributes)

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        refuse_part_name(path)
        part = f"{PART}{key}.part"
        try:
            async with self._control.use() as session:
                if self._takes_parts is None:
                    folder = self._locate(path.parent)
                    self._takes_parts = await can_write_into_files(session, folder, self._discard_path)
                if not self._takes_parts:
                    raise NotSupported("the server only accepts whole files")
                attributes = await find(session, self._locate(path), path)
                if attributes is not None and is_folder(attributes):
                    raise EntryExists
                async with session.open_file(self._locate_part(path, part), CREATE, path):
                    pass
        except asyncio.CancelledError:
            await finish_despite_cancel(self._leftovers.discard(path.parent / part))
            raise
        return part

    def _locate_part(self, path: TreePath, token: str) -> bytes:
        if not is_part(token) or "/" in token:
            raise EntryNotFound
        return self._root + (path.parent / token).encode()

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        await self.abort(path, f"{PART}{key}.part")

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        part = self._locate_part(path, token)
        async with self._data.use() as session, session.open_file(part, asyncssh.FXF_WRITE, path) as file:
            await write_blocks(session, file, path, stream(content), offset)
            await sync(session, file, path)  # a part with a receipt is not sent again
        return str(len(content))

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        size = sum(map(int, receipts))
        if size != upload.size:
            raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
        self._locate_part(path, token)
        async with self._data.use() as session:
            return await finish_despite_cancel(self._publish(session, path.parent / token, path, size, upload))

    async def abort(self, path: TreePath, token: str) -> None:
        async with self._control.use() as session:
            await entries.remove_file(session, self._locate_part(path, token), path)

    async def makedirs(self, path: TreePath) -> None:
        refuse_part_name(path)
        missing: list[TreePath] = []
        async with self._control.use() as session:
            for folder in path.ancestors()[:-1]:
                try:
                    await self._make_folder(session, folder)
                    break
                except (EntryNotFound, ServerFailure):  # rclone's answer if the parent is a file
                    missing.append(folder)
            for folder in reversed(missing):
                await self._make_folder(session, folder)

    async def _make_folder(self, session: SftpSession, path: TreePath) -> None:
        try:
            await entries.make_folder(session, self._locate(path), path)
        except EntryExists:
            entry = await self._find(session, path)
            if entry is None or not entry.is_dir:
                raise

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        refuse_part_name(target)
        if "/" in (path, target):
            raise StorageForbidden("the root folder cannot be renamed")
        old, new = self._locate(path), self._locate(target)
        async with self._control.use() as session:
            attributes = await find(session, old, path)
            if attributes is None:
                raise EntryNotFound
            if path == target:
                return
            refuse_inside_itself(path, target)
            if overwrite and not is_folder(attributes):
                await entries.replace_file(session, old, new, target, self._discard_path)
                return
            is_proven = await self.can_refuse_existing()
            rename = entries.rename_folder if is_folder(attributes) else entries.rename_file
            if is_link(attributes):
                rename = entries.rename_link
            await rename(session, old, new, target, is_proven=is_proven)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        try:
            await self.rename(path, target, overwrite=overwrite)
        except ServerFailure as problem:  # another file system below the same root: a task copies it
            raise NotSupported(f"the server cannot move this within the request: {problem.message}") from problem

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        refuse_inside_itself(path, target)
        async with self._data.use() as session:
            if not session.client.supports_remote_copy:
                raise NotSupported
            entry = await self._find(session, path)
        if entry is None:
            raise EntryNotFound
        if entry.is_dir or entry.size is None:
            raise NotSupported
        size = entry.size

        async def store(session: SftpSession, part: bytes, _: AsyncIterator[bytes]) -> int:
            async with (
                session.open_file(self._locate(path), asyncssh.FXF_READ, path) as source,
                session.open_file(part, CREATE, target) as file,
            ):
                await copy_bytes(session, source, file, size, path)
                if durable:
                    await sync(session, file, target)
            return size

        upload = Upload(None, entry.modified, overwrite=overwrite, durable=durable)
        await self._write_whole(target, stream(b""), upload, store)

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        async with self._control.use() as session:
            await entries.remove(session, self._locate(path), path)

    async def remove_empty(self, path: TreePath) -> bool:
        refuse_root_removal(path)
        folder = self._locate(path)
        async with self._control.use() as session:
            attributes = await find(session, folder, path)
            if attributes is None:
                return True
            if not is_folder(attributes):
                raise NotAFolder
            if not await entries.is_empty(session, folder, path):
                return False  # some servers remove a folder that is not empty
            try:
                await entries.remove_empty_folder(session, folder, path)
            except ServerFailure:
                if await entries.is_empty(session, folder, path):
                    raise
                return False
        return True

    async def get_space(self) -> Capacity:
        async with self._control.use() as session:
            space = await session.call(session.client.statvfs(self._locate(ROOT)))
        unit = space.frsize or space.bsize
        return Capacity(space.blocks * unit, space.bavail * unit)
