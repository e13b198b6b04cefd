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
from mangrove.drivers.addresses import parse_address
from mangrove.drivers.base import ROOT, Capacity, Driver, DriverConfig, DriverContext, Entry, Upload
from mangrove.drivers.connections import ConnectionPool
from mangrove.drivers.leftovers import Leftovers
from mangrove.drivers.part_names import PART, is_part, refuse_part_name
from mangrove.drivers.refusals import refuse_changed, refuse_inside_itself
from mangrove.drivers.sftp import names, removal
from mangrove.drivers.sftp.credentials import read_credentials
from mangrove.drivers.sftp.errors import Failure
from mangrove.drivers.sftp.host_keys import HostKey
from mangrove.drivers.sftp.listing import find, is_folder, is_link, list_folder, make_entry
from mangrove.drivers.sftp.once import Once
from mangrove.drivers.sftp.options import PORT, SFTPOptions, parse_root
from mangrove.drivers.sftp.session import Session, open_session
from mangrove.drivers.sftp.transfer import Body, write_blocks
from mangrove.drivers.sftp.writing import can_sync, can_write_into, copy_bytes, settle, sync, sync_folders
from mangrove.drivers.whole_files import write_whole

ASKING, QUESTIONS = 2, 100  # connections for what is answered at once, and how many requests share one
MOVING, TRANSFERS = 4, 64  # connections for bytes, beside which nobody else has to wait; files that share one

Store = Callable[[Session, bytes, AsyncIterator[bytes]], Awaitable[int]]


class SFTP(Driver):
    name = "SFTP"
    Options = SFTPOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True)
    options: SFTPOptions

    def __init__(self, options: SFTPOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._root = parse_root(options.root_folder_path)
        self._host_key = HostKey(options, context)
        self._credentials = Once(lambda: read_credentials(options))
        self._asking = self._make_pool(ASKING, QUESTIONS)
        self._moving = self._make_pool(MOVING, TRANSFERS)
        self._refuses_existing = Once(self._prove_refusal)
        self._takes_parts: bool | None = None  # not tried yet
        self._syncs = Once(self._try_sync)
        self._leftovers = Leftovers(context.state, self._discard)

    def _make_pool(self, limit: int, sharing: int) -> ConnectionPool[Session]:
        return ConnectionPool(
            self._open, Session.close, lambda session: session.is_open, Session.check, limit=limit, sharing=sharing
        )

    async def _open(self) -> Session:
        return await open_session(self.options, self._host_key, await self._credentials.get())

    def _locate(self, path: TreePath) -> bytes:
        """A path on the server; EntryNotFound for the names of files that are not whole."""
        if is_part(path.name):
            raise EntryNotFound
        return self._root + path.encode() if path != "/" else self._root or b"/"

    async def start(self) -> None:
        parse_address(self.options.address, PORT)
        try:
            async with self._asking.use() as session:
                found = await self._look(session, ROOT)
            if found is None or not found.is_dir:
                raise StorageProblem(f"root folder {self.options.root_folder_path} not exists")
        except BaseException:
            await self.stop()
            raise
        self._leftovers.start()

    async def stop(self) -> None:
        await self._leftovers.stop()
        await asyncio.gather(self._asking.close(), self._moving.close())

    async def can_refuse_existing(self) -> bool:
        try:
            return await self._refuses_existing.get()
        except StorageProblem:
            return False  # not known: where no file can be made now, that is tried again

    async def _prove_refusal(self) -> bool:
        async with self._asking.use() as session:
            return await names.can_keep_existing(session, self._root, self._discard_path)

    async def proves_writes(self) -> bool:
        """SSH authenticates every byte on its way; that none is lost later takes a server that can sync."""
        return await self._syncs.get()

    async def proves_reads(self) -> bool:
        return True  # every byte is authenticated on its way

    async def _try_sync(self) -> bool:
        async with self._asking.use() as session:
            return await can_sync(session, self._locate(ROOT))

    async def _look(self, session: Session, path: TreePath) -> Entry | None:
        """What a path leads to, links followed; None when there is nothing."""
        try:
            return make_entry(path.name, await session.ask(session.client.stat(self._locate(path)), path))
        except EntryNotFound:
            return None

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        folder = self._locate(path)
        async with self._asking.use() as session:
            try:
                listing = list_folder(session, folder, path, skip_broken=self.options.ignore_symlink_error)
                async with aclosing(listing) as batches:
                    async for batch in batches:
                        yield batch
            except (EntryNotFound, Failure):
                found = await self._look(session, path)
                if found is not None and not found.is_dir:
                    raise NotAFolder from None
                raise

    async def stat(self, path: TreePath) -> Entry:
        async with self._asking.use() as session:
            found = await self._look(session, path)
        if found is None:
            raise EntryNotFound
        return found

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        async with AsyncExitStack() as held:
            session = await held.enter_async_context(self._moving.use())
            try:
                opening = session.open_file(self._locate(path), asyncssh.FXF_READ, path)
                file = await held.enter_async_context(opening)
            except Failure:
                found = await self._look(session, path)
                if found is not None and found.is_dir:
                    raise NotAFile from None
                raise
            found = make_entry(path.name, await session.ask(file.stat(), path))
            if found.is_dir:
                raise NotAFile
            refuse_changed(found, if_match)
            end = found.size
            if length is not None:
                end = offset + length if end is None else min(offset + length, end)
            return Body(session, file, path, (offset, end), held.pop_all())

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        async def store(session: Session, part: bytes, blocks: AsyncIterator[bytes]) -> int:
            async with session.open_file(part, names.CREATE, path) as file:
                size = await write_blocks(session, file, path, blocks)
                if upload.durable:
                    await sync(session, file, path)
            return size

        return await self._make_whole(path, body, upload, store)

    async def _make_whole(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload, store: Store) -> Entry:
        """Store a file under another name, then give it its own."""
        entry, size = Entry(path.name, None, 0.0, False), 0

        async def store_part(part: TreePath, blocks: AsyncIterator[bytes]) -> None:
            nonlocal size
            async with self._moving.use() as session:
                size = await store(session, self._root + part.encode(), blocks)

        async def publish(part: TreePath) -> None:
            nonlocal entry
            async with self._moving.use() as session:
                entry = await self._publish(session, part, path, size, upload)

        await write_whole(path, body, upload, store=store_part, publish=publish, discard=self._leftovers.discard)
        return entry

    async def _discard(self, part: TreePath) -> bool:
        """Remove an unfinished file, or a folder of a trial; True if it was there."""
        async with self._asking.use() as session:
            return await names.remove_either(session, self._root + part.encode())

    async def _discard_path(self, path: bytes) -> None:
        await self._leftovers.discard(TreePath(path[len(self._root) :].decode()))

    async def _publish(self, session: Session, part: TreePath, path: TreePath, size: int, upload: Upload) -> Entry:
        """Give a file that is whole its name."""
        old, new = self._root + part.encode(), self._locate(path)
        found = await settle(session, old, path, size, upload)
        if upload.overwrite:
            await names.replace_file(session, old, new, path, self._discard_path)
        else:
            await names.keep_existing(session, old, new, path, is_proven=await self.can_refuse_existing())
        if upload.durable:
            await sync_folders(session, [self._locate(folder) for folder in path.parent.ancestors()], path)
        return make_entry(path.name, found)

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        refuse_part_name(path)
        part = f"{PART}{key}.part"
        try:
            async with self._asking.use() as session:
                if self._takes_parts is None:
                    self._takes_parts = await can_write_into(session, self._locate(path.parent), self._discard_path)
                if not self._takes_parts:
                    raise NotSupported("the server takes a file in one go only")
                found = await find(session, self._locate(path), path)
                if found is not None and is_folder(found):
                    raise EntryExists
                async with session.open_file(self._locate_part(path, part), names.CREATE, path):
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
        async with self._moving.use() as session, session.open_file(part, asyncssh.FXF_WRITE, path) as file:
            await write_blocks(session, file, path, stream(content), offset)
            await sync(session, file, path)  # what has a receipt is not sent again
        return str(len(content))

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        size = sum(map(int, receipts))
        if size != upload.size:
            raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
        self._locate_part(path, token)
        async with self._moving.use() as session:
            return await finish_despite_cancel(self._publish(session, path.parent / token, path, size, upload))

    async def abort(self, path: TreePath, token: str) -> None:
        async with self._asking.use() as session:
            await names.remove_file(session, self._locate_part(path, token), path)

    async def makedirs(self, path: TreePath) -> None:
        refuse_part_name(path)
        missing: list[TreePath] = []
        async with self._asking.use() as session:
            for step in path.ancestors()[:-1]:
                try:
                    await self._make_folder(session, step)
                    break
                except (EntryNotFound, Failure):  # rclone's word for a parent that is a file
                    missing.append(step)
            for step in reversed(missing):
                await self._make_folder(session, step)

    async def _make_folder(self, session: Session, path: TreePath) -> None:
        try:
            await names.make_folder(session, self._locate(path), path)
        except EntryExists:
            found = await self._look(session, path)
            if found is None or not found.is_dir:
                raise

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        refuse_part_name(target)
        if "/" in (path, target):
            raise StorageForbidden("the root folder cannot be renamed")
        old, new = self._locate(path), self._locate(target)
        async with self._asking.use() as session:
            found = await find(session, old, path)
            if found is None:
                raise EntryNotFound
            if path == target:
                return
            refuse_inside_itself(path, target)
            if overwrite and not is_folder(found):
                await names.replace_file(session, old, new, target, self._discard_path)
                return
            is_proven = await self.can_refuse_existing()
            keep = names.keep_existing_folder if is_folder(found) else names.keep_existing
            if is_link(found):
                keep = names.keep_existing_link
            await keep(session, old, new, target, is_proven=is_proven)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        try:
            await self.rename(path, target, overwrite=overwrite)
        except Failure as problem:  # another file system below one root: that is for a task
            raise NotSupported(f"the server does not move this at once: {problem.message}") from problem

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        refuse_inside_itself(path, target)
        async with self._moving.use() as session:
            if not session.client.supports_remote_copy:
                raise NotSupported
            found = await self._look(session, path)
        if found is None:
            raise EntryNotFound
        if found.is_dir or found.size is None:
            raise NotSupported
        size = found.size

        async def store(session: Session, part: bytes, _: AsyncIterator[bytes]) -> int:
            async with (
                session.open_file(self._locate(path), asyncssh.FXF_READ, path) as source,
                session.open_file(part, names.CREATE, target) as file,
            ):
                await copy_bytes(session, source, file, size, path)
                if durable:
                    await sync(session, file, target)
            return size

        upload = Upload(None, found.modified, overwrite=overwrite, durable=durable)
        await self._make_whole(target, stream(b""), upload, store)

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise StorageForbidden("delete root folder is not allowed")
        async with self._asking.use() as session:
            await removal.remove(session, self._locate(path), path)

    async def remove_empty(self, path: TreePath) -> bool:
        if path == "/":
            raise StorageForbidden("delete root folder is not allowed")
        storage_path = self._locate(path)
        async with self._asking.use() as session:
            found = await find(session, storage_path, path)
            if found is None:
                return True
            if not is_folder(found):
                raise NotAFolder
            if not await removal.is_empty(session, storage_path, path):
                return False  # some servers remove what is not empty
            try:
                await removal.remove_folder(session, storage_path, path)
            except Failure:
                if await removal.is_empty(session, storage_path, path):
                    raise
                return False
        return True

    async def get_space(self) -> Capacity:
        async with self._asking.use() as session:
            space = await session.ask(session.client.statvfs(self._locate(ROOT)))
        unit = space.frsize or space.bsize
        return Capacity(space.blocks * unit, space.bavail * unit)
