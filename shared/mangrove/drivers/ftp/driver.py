"""FTP: a server's folders over passive connections, plain or with explicit TLS.

Commands and transfers have separate connections, so that slow readers do not delay listings and changes. The time of a
file is always that of the server's listing: to the second by MLSD, to the minute or the day by LIST.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import cached_property, partial
from secrets import token_hex

import aioftp
import httpx

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotSupported,
    Problem,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import BLOCK, ROOT, Capabilities, Driver, DriverContext, DriverProperties, Entry, Upload
from mangrove.drivers.connections import ConnectionPool
from mangrove.drivers.ftp import entries
from mangrove.drivers.ftp.client import Account, FtpConnection
from mangrove.drivers.ftp.errors import Refused, TooManyConnections, translate_errors
from mangrove.drivers.ftp.lines import EntryKind, Line, ServerNames, join
from mangrove.drivers.ftp.options import FTPOptions, parse_encoding, parse_server
from mangrove.drivers.leftovers import Leftovers
from mangrove.drivers.part_names import has_part, refuse_part_name
from mangrove.drivers.refusals import refuse_changed, refuse_existing, refuse_inside_itself, refuse_root_removal
from mangrove.drivers.whole_files import write_whole

MAX_COMMAND_CONNECTIONS = 4
MAX_READ_CONNECTIONS, MAX_WRITE_CONNECTIONS = 32, 16  # separate, since a copy within the storage needs one of each
LISTING_BATCH_ENTRIES = 1000
CONNECTION_WAIT_SECONDS = 10.0  # while a server accepts no further connection and another one of this storage may end
CONNECTION_RETRY_SECONDS = 0.25
MAX_RESTORE_ATTEMPTS = 5  # while other clients create and remove the name


class FTP(Driver):
    name = "FTP"
    Options = FTPOptions
    config = DriverProperties(only_proxy=True, default_root="/")
    capabilities = Capabilities(
        write=True, makedirs=True, rename=True, move=True, remove=True, remove_empty=True, identify=True,
        set_aside=True,
    )  # fmt: skip
    options: FTPOptions

    def __init__(self, options: FTPOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._commands = self._make_pool(MAX_COMMAND_CONNECTIONS)
        self._reads = self._make_pool(MAX_READ_CONNECTIONS)
        self._writes = self._make_pool(MAX_WRITE_CONNECTIONS)
        self._connected_at = -CONNECTION_WAIT_SECONDS  # the last time of a connection, on the clock of the loop
        self._account: Account | None = None
        self._remover = entries.TreeRemover(self._connect_for_commands, options.cwd_list)
        self._leftovers = Leftovers(context.state, self._discard)

    @property
    def _pools(self) -> tuple[ConnectionPool[FtpConnection], ...]:
        return self._commands, self._reads, self._writes

    def _make_pool(self, limit: int) -> ConnectionPool[FtpConnection]:
        return ConnectionPool(
            self._open, FtpConnection.quit, lambda connection: connection.is_open, FtpConnection.check, limit=limit
        )

    @cached_property
    def _names(self) -> ServerNames:
        return ServerNames(parse_encoding(self.options.encoding), TreePath(self.options.root_folder_path))

    async def _open(self) -> FtpConnection:
        if self._account is None:
            self._account = await self._make_account()
        with translate_errors():
            return await FtpConnection.open(self._account)

    async def _make_account(self) -> Account:
        options, tls = self.options, None
        for name in ("username", "password"):
            if not getattr(options, name).isprintable():
                raise StorageProblem(f"{name} has a character that FTP cannot send")
        if options.explicit_tls:
            tls = await asyncio.to_thread(httpx.create_ssl_context, verify=not options.tls_insecure_skip_verify)
        return Account(
            parse_server(options.address),
            self._names.encode_text(options.username, "username"),
            self._names.encode_text(options.password, "password"),
            parse_encoding(options.encoding) == "utf-8",
            tls,
        )

    async def start(self) -> None:
        if not (await self.stat(ROOT)).is_dir:
            raise StorageProblem("root_folder_path is not a folder of the server")
        self._leftovers.start()

    async def stop(self) -> None:
        await self._leftovers.stop()
        for pool in self._pools:
            await pool.close()

    @asynccontextmanager
    async def _connect(self, pool: ConnectionPool[FtpConnection]) -> AsyncIterator[FtpConnection]:
        """Take a connection of a pool.

        If the server accepts no further connection, close unused ones of other pools and try again.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CONNECTION_WAIT_SECONDS
        async with AsyncExitStack() as stack:
            while True:
                try:
                    connection = await stack.enter_async_context(pool.use())
                    self._connected_at = loop.time()
                    break
                except TooManyConnections:
                    for other in self._pools:
                        if other is not pool:
                            other.close_unused()
                    if loop.time() > min(deadline, self._connected_at + CONNECTION_WAIT_SECONDS):
                        raise
                await asyncio.sleep(CONNECTION_RETRY_SECONDS)
            yield connection

    @asynccontextmanager
    async def _connect_for_commands(self) -> AsyncIterator[FtpConnection]:
        async with self._connect(self._commands) as connection:
            with translate_errors():
                yield connection

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        _refuse_hidden(path)
        folder = self._names.encode(path)
        async with self._connect_for_commands() as connection:
            listing = await entries.fetch_folder(connection, folder, self.options.cwd_list)
        with closing(listing):
            while lines := listing.read_batch(LISTING_BATCH_ENTRIES):
                links = [line for line in lines if line.kind is EntryKind.LINK]
                others = [line for line in lines if line.kind in (EntryKind.FILE, EntryKind.FOLDER)]
                batch = self._make_entries(others) + await self._resolve(folder, links)
                if batch:
                    yield batch
                await asyncio.sleep(0)

    def _make_entries(self, lines: Sequence[Line]) -> builtins.list[Entry]:
        return [_make_entry(name, line) for line in lines if (name := self._names.decode(line.name)) is not None]

    async def _resolve(self, folder: str, links: Sequence[Line]) -> builtins.list[Entry]:
        """Return links as their targets, without those that have none."""
        if not links:
            return []
        async with self._connect_for_commands() as connection:
            targets = [await entries.resolve(connection, join(folder, line.name), line) for line in links]
        return self._make_entries([line for line in targets if line is not None])

    async def stat(self, path: TreePath) -> Entry:
        _refuse_hidden(path)
        name = self._names.encode(path)
        async with self._connect_for_commands() as connection:
            line = await entries.find(connection, name)
        if line is None or line.kind is EntryKind.SPECIAL:
            raise EntryNotFound
        if path == "/":
            return Entry("", 0, self.context.modified, line.kind is EntryKind.FOLDER)
        return _make_entry(path.name, line)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        # a file that has to match is compared after it was opened: its entry is of that file or of a newer one
        expected = if_match if if_match is not None and if_match.size is not None else await self.stat(path)
        if expected.is_dir:
            raise NotAFile
        rest = None if expected.size is None else max(expected.size - offset, 0)
        size = rest if length is None or (rest is not None and rest < length) else length
        blocks = self._read_blocks(path, offset, size, is_exact=rest is not None)
        try:
            await anext(blocks)
            if if_match is not None:
                refuse_changed(await self.stat(path), if_match)
        except BaseException as problem:
            await blocks.aclose()
            if isinstance(problem, Refused) and (await self.stat(path)).is_dir:
                raise NotAFile from None
            raise
        return blocks

    async def _read_blocks(
        self, path: TreePath, offset: int, size: int | None, is_exact: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield an empty block once the file is open, then at most `size` of its bytes.

        With `is_exact`, fewer bytes are a failure.
        """
        if size == 0:
            yield b""
            return
        async with self._connect(self._reads) as connection:
            with translate_errors():
                transfer = await connection.begin(f"RETR {self._names.encode(path)}", offset)
            try:
                yield b""
                while size is None or size > 0:
                    with translate_errors():
                        block = await connection.receive(transfer, BLOCK if size is None else min(BLOCK, size))
                    if not block:
                        break
                    size = None if size is None else size - len(block)
                    yield block
                if size != 0 or not is_exact:
                    with translate_errors():
                        await connection.finish(transfer)
                if size and is_exact:
                    raise Unreachable("the file ended too early")
            finally:
                await connection.settle(transfer)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        await refuse_existing(self.stat, path, but_files=upload.overwrite)
        publish = partial(self._publish, path, upload)
        await write_whole(path, body, upload, store=self._store, publish=publish, discard=self._leftovers.discard)
        return await self.stat(path)

    async def _store(self, part: TreePath, body: AsyncIterator[bytes]) -> None:
        name, size = self._names.encode(part), 0
        async with self._explain(part.parent), self._connect(self._writes) as connection:
            with translate_errors():
                transfer = await connection.begin(f"STOR {name}")
            try:
                async for block in body:
                    with translate_errors():
                        await connection.send(transfer, block)
                    size += len(block)
                with translate_errors():
                    await connection.finish(transfer)
            finally:
                await connection.settle(transfer)
            with translate_errors():
                stored = await entries.find_size(connection, name)
            if stored not in (None, size):
                raise Unreachable(f"the server stored {stored} of {size} bytes")

    async def _discard(self, part: TreePath) -> bool:
        """Remove an unfinished file.

        Return False if it does not exist, although a broken connection may still create it.
        """
        name = self._names.encode(part)
        for pause in (0.0, 0.1, 0.4):
            await asyncio.sleep(pause)
            async with self._connect_for_commands() as connection:
                if await entries.try_command(connection, f"DELE {name}", "2xx"):
                    return True
        async with self._connect_for_commands() as connection:
            if await entries.find(connection, name, needs_time=False) is not None:
                raise Unreachable("the server does not remove an unfinished file")
        return False

    async def _publish(self, path: TreePath, upload: Upload, part: TreePath) -> None:
        async with self._connect_for_commands() as connection:
            await entries.set_time(connection, self._names.encode(part), upload.modified)
        await self._rename(part, path, upload.overwrite)

    @asynccontextmanager
    async def _explain(self, folder: TreePath) -> AsyncIterator[None]:
        """Raise EntryNotFound if the server refuses a command because the folder does not exist."""
        try:
            yield
        except Refused:
            if not (await self.stat(folder)).is_dir:
                raise EntryNotFound from None
            raise

    async def _rename(self, path: TreePath, target: TreePath, overwrite: bool) -> None:
        """Rename an entry and replace a file if `overwrite`. Raise EntryExists."""
        source, new = self._names.encode(path), self._names.encode(target)
        async with self._explain(target.parent), self._connect_for_commands() as connection:
            existing = await entries.find(connection, new, needs_time=False)
            if existing is not None and (existing.kind is not EntryKind.FILE or not overwrite):
                raise EntryExists
            try:
                await entries.rename(connection, source, new)
                return
            except aioftp.StatusCodeError:
                if connection.is_answer_pending or existing is None:
                    raise
        await self._replace_in_steps(source, new, self._names.encode(target.parent / make_old_name(target.name)))

    async def _replace_in_steps(self, source: str, target: str, old: str) -> None:
        """Replace a file if the server cannot: the file is renamed to `old` first, and back if the rest fails.

        `old` is visible, so that the file is not lost if this process dies in between.
        """
        await self._rename_on_server(target, old)
        try:
            await self._rename_on_server(source, target)
        except BaseException:
            with suppress(Problem):  # the first failure is the one to raise
                await self._restore(old, target)
            raise
        async with self._connect_for_commands() as connection:
            await entries.try_command(connection, f"DELE {old}", "2xx")

    async def _restore(self, old: str, target: str) -> None:
        """Give a file its name back, or remove it if another file has taken the name."""
        for _ in range(MAX_RESTORE_ATTEMPTS):
            with suppress(Refused):
                await self._rename_on_server(old, target)
                return
            async with self._connect_for_commands() as connection:
                existing = await entries.find(connection, target, needs_time=False)
                if existing is not None and existing.kind is EntryKind.FILE:
                    await entries.try_command(connection, f"DELE {old}", "2xx")
                    return

    async def _rename_on_server(self, source: str, target: str) -> None:
        async with self._connect_for_commands() as connection:
            await entries.rename(connection, source, target)

    async def makedirs(self, path: TreePath) -> None:
        refuse_part_name(path)
        folders = [self._names.encode(folder) for folder in path.ancestors()[:-1]]
        async with self._connect_for_commands() as connection:
            if await entries.make_folders(connection, folders) is not None:
                raise EntryExists

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        try:
            await self._move(path, target, overwrite)
        except Refused as problem:
            if path.parent != target.parent:  # perhaps on another disk of the server: a task copies it
                raise NotSupported(str(problem)) from problem
            raise

    async def _move(self, path: TreePath, target: TreePath, overwrite: bool) -> None:
        if "/" in (path, target):
            raise StorageForbidden("rename root folder is not allowed")
        refuse_part_name(target)
        entry = await self.stat(path)
        if path == target:
            return
        refuse_inside_itself(path, target)
        await finish_despite_cancel(self._rename(path, target, overwrite and not entry.is_dir))

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        refuse_part_name(path)
        await self._remover.remove(self._names.encode(path))

    async def remove_empty(self, path: TreePath) -> bool:
        if path == "/":
            return False
        name = self._names.encode(path)
        async with self._connect_for_commands() as connection:
            return await entries.remove_empty(connection, name, self.options.cwd_list)

    async def identify(self, path: TreePath) -> set[str]:
        address = parse_server(self.options.address)
        return {f"ftp:{self.options.username}@{address.host}:{address.port}{self._names.encode(path)}"}


def _make_entry(name: str, line: Line) -> Entry:
    is_folder = line.kind is EntryKind.FOLDER
    return Entry(name, 0 if is_folder else line.size, line.modified, is_folder, is_link=line.is_link)


def _refuse_hidden(path: TreePath) -> None:
    """Raise EntryNotFound for a path that listings leave out."""
    if has_part(path):
        raise EntryNotFound


def make_old_name(name: str) -> str:
    """Return a name for a file that is about to be replaced."""
    return f"{name[:50]} (replaced {token_hex(4)})"
