"""FTP: a server's folders over passive connections, plain or with explicit TLS.

Commands and transfers have connections of their own: however slowly files are read, listings and changes go on. A
file's time is what the server's listing says, to the second by MLSD, to the minute or the day by LIST, everywhere.
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
from mangrove.drivers.base import BLOCK, ROOT, Driver, DriverConfig, DriverContext, Entry, Upload
from mangrove.drivers.connections import ConnectionPool
from mangrove.drivers.ftp import changes, folders
from mangrove.drivers.ftp.connection import Account, Connection
from mangrove.drivers.ftp.errors import Refused, TooManyConnections, translate_errors
from mangrove.drivers.ftp.lines import Kind, Line
from mangrove.drivers.ftp.names import Names, join
from mangrove.drivers.ftp.options import FTPOptions, parse_encoding, parse_server
from mangrove.drivers.leftovers import Leftovers
from mangrove.drivers.part_names import is_part, refuse_part_name
from mangrove.drivers.refusals import refuse_changed, refuse_existing, refuse_inside_itself
from mangrove.drivers.whole_files import write_whole

COMMANDS = 4  # connections for what is short
READS, WRITES = 32, 16  # connections for bytes of files: apart, since a copy within the storage takes one of each
BATCH = 1000  # entries
ROOM_SECONDS = 10.0  # that a server which takes no further connection is asked again, while others of ours may end
ASK_AGAIN_SECONDS = 0.25
PUT_BACK_TRIES = 5  # while others take the name and give it up again


class FTP(Driver):
    name = "FTP"
    Options = FTPOptions
    config = DriverConfig(only_proxy=True, default_root="/")
    options: FTPOptions

    def __init__(self, options: FTPOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._commands = self._make_pool(COMMANDS)
        self._reads = self._make_pool(READS)
        self._writes = self._make_pool(WRITES)
        self._connected_at = -ROOM_SECONDS  # when there was a connection of ours, on the clock of the loop
        self._account: Account | None = None
        self._remover = changes.Remover(self._session, options.cwd_list)
        self._leftovers = Leftovers(context.state, self._discard)

    @property
    def _pools(self) -> tuple[ConnectionPool[Connection], ...]:
        return self._commands, self._reads, self._writes

    def _make_pool(self, limit: int) -> ConnectionPool[Connection]:
        return ConnectionPool(self._open, Connection.leave, lambda one: one.is_open, Connection.answers, limit=limit)

    @cached_property
    def _names(self) -> Names:
        return Names(parse_encoding(self.options.encoding), TreePath(self.options.root_folder_path))

    async def _open(self) -> Connection:
        if self._account is None:
            self._account = await self._make_account()
        with translate_errors():
            return await Connection.open(self._account)

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
    async def _connect(self, pool: ConnectionPool[Connection]) -> AsyncIterator[Connection]:
        """A connection; while the server takes no further one, those that nobody uses are closed and one of ours that
        ends is waited for."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ROOM_SECONDS
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
                    if loop.time() > min(until, self._connected_at + ROOM_SECONDS):
                        raise
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            yield connection

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        """A connection for commands."""
        async with self._connect(self._commands) as connection:
            with translate_errors():
                yield connection

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        _refuse_hidden(path)
        folder = self._names.encode(path)
        async with self._session() as connection:
            listing = await folders.fetch_folder(connection, folder, self.options.cwd_list)
        with closing(listing):
            while lines := listing.read_batch(BATCH):
                links = [line for line in lines if line.kind is Kind.LINK]
                found = [line for line in lines if line.kind in (Kind.FILE, Kind.FOLDER)]
                entries = self._make_entries(found) + await self._resolve(folder, links)
                if entries:
                    yield entries
                await asyncio.sleep(0)

    def _make_entries(self, lines: Sequence[Line]) -> builtins.list[Entry]:
        return [_make_entry(name, line) for line in lines if (name := self._names.decode(line.name)) is not None]

    async def _resolve(self, folder: str, links: Sequence[Line]) -> builtins.list[Entry]:
        """Links as what they lead to; those that lead nowhere are left out."""
        if not links:
            return []
        async with self._session() as connection:
            found = [await folders.resolve(connection, join(folder, line.name), line) for line in links]
        return self._make_entries([line for line in found if line is not None])

    async def stat(self, path: TreePath) -> Entry:
        _refuse_hidden(path)
        name = self._names.encode(path)
        async with self._session() as connection:
            found = await folders.look(connection, name)
        if found is None or found.kind is Kind.OTHER:
            raise EntryNotFound
        if path == "/":
            return Entry("", 0, self.context.modified, found.kind is Kind.FOLDER)
        return _make_entry(path.name, found)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        """What has the path is looked at when it is open, where it has to be a certain file: what is seen then can
        only be that file or a newer one."""
        expected = if_match if if_match is not None and if_match.size is not None else await self.stat(path)
        if expected.is_dir:
            raise NotAFile
        left = None if expected.size is None else max(expected.size - offset, 0)
        most = left if length is None or (left is not None and left < length) else length
        blocks = self._read_blocks(path, offset, most, is_known=left is not None)
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
        self, path: TreePath, offset: int, most: int | None, is_known: bool
    ) -> AsyncGenerator[bytes, None]:
        """An empty block once the file is open, then its bytes: `most` of them, fewer only if its size is unknown."""
        if most == 0:
            yield b""
            return
        async with self._connect(self._reads) as connection:
            with translate_errors():
                transfer = await connection.begin(f"RETR {self._names.encode(path)}", offset)
            try:
                yield b""
                while most is None or most > 0:
                    with translate_errors():
                        block = await connection.receive(transfer, BLOCK if most is None else min(BLOCK, most))
                    if not block:
                        break
                    most = None if most is None else most - len(block)
                    yield block
                if most != 0 or not is_known:
                    with translate_errors():
                        await connection.finish(transfer)
                if most and is_known:
                    raise Unreachable("the file ended before its end")
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
                stored = await folders.find_size(connection, name)
            if stored not in (None, size):
                raise Unreachable(f"the server stored {stored} of {size} bytes")

    async def _discard(self, part: TreePath) -> bool:
        """Remove a file under way; True if it was there. Else a broken connection may still have it made."""
        name = self._names.encode(part)
        for pause in (0.0, 0.1, 0.4):
            await asyncio.sleep(pause)
            async with self._session() as connection:
                if await changes.try_command(connection, f"DELE {name}", "2xx"):
                    return True
        async with self._session() as connection:
            if await folders.look(connection, name, needs_time=False) is not None:
                raise Unreachable("the server does not remove an unfinished file")
        return False

    async def _publish(self, path: TreePath, upload: Upload, part: TreePath) -> None:
        async with self._session() as connection:
            await changes.set_time(connection, self._names.encode(part), upload.modified)
        await self._give_name(part, path, upload.overwrite)

    @asynccontextmanager
    async def _explain(self, folder: TreePath) -> AsyncIterator[None]:
        """What is refused in a folder that is not there is EntryNotFound."""
        try:
            yield
        except Refused:
            if not (await self.stat(folder)).is_dir:
                raise EntryNotFound from None
            raise

    async def _give_name(self, path: TreePath, target: TreePath, overwrite: bool) -> None:
        """Rename, over a file where `overwrite` allows it; EntryExists."""
        source, wanted = self._names.encode(path), self._names.encode(target)
        async with self._explain(target.parent), self._session() as connection:
            found = await folders.look(connection, wanted, needs_time=False)
            if found is not None and (found.kind is not Kind.FILE or not overwrite):
                raise EntryExists
            try:
                await changes.rename(connection, source, wanted)
                return
            except aioftp.StatusCodeError:
                if connection.owes or found is None:
                    raise
        await self._exchange(source, wanted, self._names.encode(target.parent / make_old_name(target.name)))

    async def _exchange(self, source: str, wanted: str, old: str) -> None:
        """Rename over a file of a server that replaces none: the file gets another name first, and its own back when
        the rest fails. That name can be seen, so that it is not lost to anybody when this process ends in between."""
        await self._rename(wanted, old)
        try:
            await self._rename(source, wanted)
        except BaseException:
            with suppress(Problem):  # the reason for the end is what counts
                await self._put_back(old, wanted)
            raise
        async with self._session() as connection:
            await changes.try_command(connection, f"DELE {old}", "2xx")

    async def _put_back(self, old: str, wanted: str) -> None:
        """Give a file its name again, unless another file has taken it, which replaces it then."""
        for _ in range(PUT_BACK_TRIES):
            with suppress(Refused):
                await self._rename(old, wanted)
                return
            async with self._session() as connection:
                found = await folders.look(connection, wanted, needs_time=False)
                if found is not None and found.kind is Kind.FILE:
                    await changes.try_command(connection, f"DELE {old}", "2xx")
                    return

    async def _rename(self, source: str, target: str) -> None:
        async with self._session() as connection:
            await changes.rename(connection, source, target)

    async def makedirs(self, path: TreePath) -> None:
        refuse_part_name(path)
        steps = [self._names.encode(step) for step in path.ancestors()[:-1]]
        async with self._session() as connection:
            if await changes.make_folders(connection, steps) is not None:
                raise EntryExists

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self._move(path, target, overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        try:
            await self._move(path, target, overwrite)
        except Refused as problem:
            if path.parent != target.parent:  # perhaps on another disk of the server: a task copies
                raise NotSupported(str(problem)) from problem
            raise

    async def _move(self, path: TreePath, target: TreePath, overwrite: bool) -> None:
        if "/" in (path, target):
            raise StorageForbidden("rename root folder is not allowed")
        refuse_part_name(target)
        found = await self.stat(path)
        if path == target:
            return
        refuse_inside_itself(path, target)
        await finish_despite_cancel(self._give_name(path, target, overwrite and not found.is_dir))

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise StorageForbidden("delete root folder is not allowed")
        refuse_part_name(path)
        await self._remover.remove(self._names.encode(path))

    async def remove_empty(self, path: TreePath) -> bool:
        if path == "/":
            return False
        name = self._names.encode(path)
        async with self._session() as connection:
            return await changes.remove_empty(connection, name, self.options.cwd_list)

    async def identify(self, path: TreePath) -> set[str]:
        address = parse_server(self.options.address)
        return {f"ftp:{self.options.username}@{address.host}:{address.port}{self._names.encode(path)}"}


def _make_entry(name: str, line: Line) -> Entry:
    is_folder = line.kind is Kind.FOLDER
    return Entry(name, 0 if is_folder else line.size, line.modified, is_folder, is_link=line.is_link)


def _refuse_hidden(path: TreePath) -> None:
    """EntryNotFound for what listings leave out."""
    if any(is_part(name) for name in path.split("/")):
        raise EntryNotFound


def make_old_name(name: str) -> str:
    """A name for a file that is about to be replaced."""
    return f"{name[:50]} (replaced {token_hex(4)})"
