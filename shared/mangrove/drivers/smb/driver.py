"""SMB: a folder of a share, over SMB 2.1 and 3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar, TypeVarTuple, Unpack

from mangrove.core import deadlines
from mangrove.core.chunked import split_chunks, stream
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, InUse, NotAFolder, StorageForbidden, StorageProblem
from mangrove.drivers.base import BLOCK, Capabilities, Capacity, Driver, DriverContext, DriverProperties, Entry, Upload
from mangrove.drivers.connections import ConnectionPool
from mangrove.drivers.part_names import PART, refuse_part_name
from mangrove.drivers.refusals import refuse_inside_itself, refuse_root_removal
from mangrove.drivers.smb import changes, messages
from mangrove.drivers.smb.client import Share, StorageRoot
from mangrove.drivers.smb.connection import probe_server
from mangrove.drivers.smb.errors import translate_errors
from mangrove.drivers.smb.files import FileReader, FolderQuery, RemoteFile, make_entries, make_entry
from mangrove.drivers.smb.options import SMBOptions, parse_share_address
from mangrove.drivers.threads import StorageThreads, allow_long_wait
from mangrove.drivers.whole_files import write_whole

MAX_CONCURRENT_OPERATIONS = 8  # of a connection
MAX_REMOVAL_PASSES = 3  # through a folder into which other clients store files meanwhile
Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
Fill = Callable[[str, RemoteFile, AsyncIterator[bytes]], Awaitable[None]]  # the name is for the message of a problem


def run_work(name: str, work: Callable[[Share, Unpack[Arguments]], Result], share: Share, *args: *Arguments) -> Result:
    """Run a blocking call on a share.

    An answer may be late while the server answers other requests; `SmbConnection` limits the time.
    """
    with allow_long_wait(), translate_errors(name):
        return work(share, *args)


class SMB(Driver):
    """A folder of a share.

    Calls run in threads over one connection, each for one block or one change, so that a reader that pauses does not
    delay others.
    """

    name = "SMB"
    Options = SMBOptions
    config = DriverProperties(only_proxy=True, no_cache=True, default_root=".")
    capabilities = Capabilities(
        write=True, parts=True, makedirs=True, rename=True, move=True, copy=True, remove=True, remove_unchanged=True,
        remove_empty=True, get_space=True, set_aside=True,
    )  # fmt: skip
    options: SMBOptions

    def __init__(self, options: SMBOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        target = parse_share_address(options)
        self._target = target
        self._root = StorageRoot(TreePath(options.root_folder_path))
        self._threads = StorageThreads(f"smb {context.mount_path}", lambda: probe_server(target.host, target.port))
        self._pool = ConnectionPool[Share](
            self._open,
            self._close,
            lambda share: share.is_open,
            self._check,
            limit=1,
            sharing=MAX_CONCURRENT_OPERATIONS,
        )

    async def start(self) -> None:
        try:
            status = await self._call("", Share.get_status, self._root.find(TreePath("/")))
        except EntryNotFound:
            raise StorageProblem(f"root folder {self.options.root_folder_path} not exists") from None
        if not status.is_dir:
            raise NotAFolder

    async def stop(self) -> None:
        await self._pool.close()

    async def can_refuse_existing(self) -> bool:
        return True

    async def _open(self) -> Share:
        share = Share(self._target, self._root.depth)
        try:
            await self._threads.run(run_work, "", Share.connect, share)
        except BaseException:
            share.close()
            raise
        return share

    async def _close(self, share: Share) -> None:
        share.close()

    async def _check(self, share: Share) -> bool:
        await self._threads.run(run_work, "", Share.echo, share)
        return True

    async def _call(self, name: str, work: Callable[[Share, Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        """Return the result of a blocking call on the share, run in a thread; `name` is for the message of a
        problem.
        """
        async with self._pool.use() as share:
            return await self._threads.run(run_work, name, work, share, *args)

    async def _change(self, name: str, work: Callable[[Share, Unpack[Arguments]], Result], *args: *Arguments) -> Result:
        """Call as `_call`, for a change of the share: a cancellation waits for its end."""
        return await finish_despite_cancel(self._call(name, work, *args))

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        scan = await self._call(path.name, FolderQuery, self._root.find(path), self._threads)
        try:
            while files := await self._call(path.name, scan.read_batch):
                yield make_entries(files)
                await asyncio.sleep(0)
        finally:
            scan.close()

    async def stat(self, path: TreePath) -> Entry:
        return make_entry(path.name, await self._call(path.name, Share.get_status, self._root.find(path)))

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        reader = await self._call(path.name, FileReader, self._root.find(path), self._threads, if_match)
        return self._read_blocks(path.name, reader, offset, length)

    async def _read_blocks(
        self, name: str, reader: FileReader, offset: int, length: int | None
    ) -> AsyncIterator[bytes]:
        end = None if length is None else offset + length
        try:
            while end is None or offset < end:
                block = await self._call(name, reader.read, offset, BLOCK if end is None else min(BLOCK, end - offset))
                if not block:
                    return
                offset += len(block)
                yield block
        finally:
            reader.close()

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        return await self._store(path, body, upload, self._write_blocks)

    async def _store(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload, fill: Fill) -> Entry:
        """Make a file of the bytes that `fill` writes, completely or not at all."""
        target = self._root.make(path)
        opened: list[RemoteFile] = []
        stored: list[Entry] = []

        async def store(part: TreePath, counted: AsyncIterator[bytes]) -> None:
            name = self._root.make(part)
            if upload.size is None or upload.size > BLOCK:
                await self._call(path.name, changes.refuse_folder, target)
            opened.append(await self._change(path.name, changes.create_part, name, self._threads))
            await fill(path.name, opened[0], counted)

        async def publish(part: TreePath) -> None:
            name = self._root.make(part)
            stored.append(await self._call(path.name, changes.publish_file, opened[0], name, target, upload))

        async def discard(part: TreePath) -> None:
            for file in opened:
                file.close()
            with suppress(EntryNotFound):
                await self._call(path.name, changes.discard_part, self._root.make(part))

        await write_whole(path, body, upload, store=store, publish=publish, discard=discard)
        return stored[0]

    async def _write_blocks(self, name: str, file: RemoteFile, body: AsyncIterator[bytes]) -> None:
        """Write a body; receive the next block while one is written."""
        offset, writing = 0, None
        try:
            async for block in split_chunks(body, BLOCK):
                if writing is not None:
                    await asyncio.shield(writing)
                writing = asyncio.ensure_future(self._call(name, file.write, offset, block))
                offset += len(block)
        finally:
            if writing is not None:
                await asyncio.wait([writing])
        if writing is not None:
            await writing

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        refuse_part_name(path)
        part = f"{PART}{key}.part"
        target = self._root.make(path)
        await self._change(path.name, changes.begin_parts, self._root.make(path.parent / part), target, self._threads)
        return part

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        await self.abort(path, f"{PART}{key}.part")

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        await self._change(path.name, changes.write_part, self._root.make(path.parent / token), offset, content)
        return str(len(content))

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        part, target, size = self._root.make(path.parent / token), self._root.make(path), sum(map(int, receipts))
        return await self._change(path.name, changes.finish_parts, part, target, size, upload)

    async def abort(self, path: TreePath, token: str) -> None:
        with suppress(EntryNotFound):
            await self._change(path.name, changes.discard_part, self._root.make(path.parent / token))

    async def makedirs(self, path: TreePath) -> None:
        refuse_part_name(path)
        names = [self._root.make(step) for step in reversed(path.ancestors()[:-1])]
        await self._change(path.name, changes.make_folders, names)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path == "/":
            raise StorageForbidden("renaming the root folder is not allowed")
        refuse_part_name(target)
        if path == target:
            await self.stat(path)
            return
        refuse_inside_itself(path, target)
        old, new = self._root.find(path), self._root.make(target)
        await self._change(target.name, changes.move, old, new, overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        source = await self._call(path.name, changes.open_source, self._root.find(path), self._threads)

        async def fill(name: str, copied: RemoteFile, _: AsyncIterator[bytes]) -> None:
            offset = 0
            while offset < source.status.size:
                offset = await self._change(name, changes.copy_file_range, source, copied, offset)

        modified = messages.to_seconds(source.status.modified)
        try:
            await self._store(target, stream(b""), Upload(None, modified, overwrite=overwrite, durable=durable), fill)
        finally:
            source.close()

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        with suppress(EntryNotFound):
            name = self._root.find(path)
            status = await self._call(path.name, Share.get_status, name, messages.CreateOptions.REPARSE_POINT)
            if status.is_dir:
                await self._remove_folder(name)
            else:
                await self._change(path.name, changes.remove_file, name)

    async def _remove_folder(self, name: str) -> None:
        for _ in range(MAX_REMOVAL_PASSES):
            if await self._change(name, changes.remove_folder, name):
                return
            scan = await self._call(name, FolderQuery, name, self._threads)
            try:
                while files := await self._call(name, scan.read_batch):
                    for folder in await self._change(name, changes.remove_files, name, files):
                        with suppress(EntryNotFound):
                            await self._remove_folder(folder)
                    deadlines.check()
            finally:
                scan.close()
        if not await self._change(name, changes.remove_folder, name):
            raise InUse(f"the folder {name} is not empty: others use it, or the server does not show all that it holds")

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        with suppress(EntryNotFound):
            await self._change(path.name, changes.remove_unchanged, self._root.find(path), entry)

    async def remove_empty(self, path: TreePath) -> bool:
        refuse_root_removal(path)
        return await self._change(path.name, changes.remove_folder, self._root.find(path))

    async def get_space(self) -> Capacity:
        return Capacity(*await self._call("", Share.get_space, self._root.find(TreePath("/"))))
