"""What changes names on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, closing, suppress

import aioftp

from mangrove.core import deadlines
from mangrove.core.problems import EntryNotFound, NotAFolder, StorageProblem
from mangrove.drivers.ftp.connection import Connection
from mangrove.drivers.ftp.folders import Listing, fetch_folder, look
from mangrove.drivers.ftp.lines import Kind, Line, format_time
from mangrove.drivers.ftp.names import is_sendable, join

Session = Callable[[], AbstractAsyncContextManager[Connection]]
AT_ONCE = 100  # entries that are removed before others get their turn with the connection
MAX_PATH_DEPTH = 256  # folders in one another


async def try_command(connection: Connection, command: str, *expected: str) -> bool:
    """Whether the server did it; False only for a refusal."""
    try:
        await connection.ask(command, *expected)
    except aioftp.StatusCodeError:
        if connection.owes:
            raise
        return False
    return True


async def _do_unless_gone(connection: Connection, command: str, path: str) -> None:
    if not await try_command(connection, command, "2xx") and await look(connection, path, needs_time=False) is not None:
        await connection.ask(command, "2xx")  # for what the server says about it


async def rename(connection: Connection, path: str, target: str) -> None:
    """Some servers replace a file that has the name, others refuse."""
    await connection.ask(f"RNFR {path}", "350")
    await connection.ask(f"RNTO {target}", "2xx")


async def set_time(connection: Connection, path: str, modified: float) -> None:
    """Give a file its time where the server can, by a command of its own or by the older use of MDTM."""
    if modified <= 0:
        return
    for feature in ("MFMT", "MDTM"):
        if feature in connection.features:
            await try_command(connection, f"{feature} {format_time(modified)} {path}", "2xx")
            return


async def make_folders(connection: Connection, paths: list[str]) -> Line | None:
    """Make the folders that are missing of a path and those above it, the deepest first in the list; what is in the
    way, if anything is."""
    missing: list[str] = []
    for path in paths:
        found = await look(connection, path, needs_time=False)
        if found is not None:
            if found.kind is not Kind.FOLDER:
                return found
            break
        missing.append(path)
    for path in reversed(missing):
        try:
            await connection.ask(f"MKD {path}", "2xx")
        except aioftp.StatusCodeError:
            found = None if connection.owes else await look(connection, path, needs_time=False)
            if found is None:
                raise
            if found.kind is not Kind.FOLDER:
                return found
    return None


class Remover:
    """Removes files and whole folders. A connection is taken for some entries at a time, so that others get theirs."""

    def __init__(self, session: Session, enter: bool) -> None:
        self._session = session
        self._enter = enter

    async def remove(self, path: str, depth: int = 0) -> None:
        """Remove what has this path, if anything has it. A link is removed, never what is behind it.

        A server may show a link to a folder as a folder: what it removes as a file is not looked into.
        """
        if depth > MAX_PATH_DEPTH:
            raise StorageProblem("the folder is too deep to be removed")
        async with self._session() as connection:
            if await self._remove_one(connection, path):
                return
            try:
                listing = await fetch_folder(connection, path, self._enter)
            except EntryNotFound:
                return
            except NotAFolder:
                await connection.ask(f"DELE {path}", "2xx")  # for what the server says about it
                return
        with closing(listing):
            async for folder in self._remove_files(path, listing):
                await self.remove(folder, depth + 1)
        async with self._session() as connection:
            await _do_unless_gone(connection, f"RMD {path}", path)

    async def _remove_one(self, connection: Connection, path: str) -> bool:
        return await try_command(connection, f"DELE {path}", "2xx") or await try_command(
            connection, f"RMD {path}", "2xx"
        )

    async def _remove_files(self, path: str, listing: Listing) -> AsyncIterator[str]:
        """Remove the files of a folder; the paths of its folders."""
        while lines := listing.read_batch(AT_ONCE):
            folders = []
            async with self._session() as connection:
                for line in lines:
                    below = join(path, line.name)
                    if b"/" in line.name or not is_sendable(below):
                        continue  # the folder is not removed then
                    if line.kind is Kind.FOLDER:
                        folders.append(below)
                    else:
                        await _do_unless_gone(connection, f"DELE {below}", below)
            deadlines.check()
            for folder in folders:
                yield folder


async def remove_empty(connection: Connection, path: str, enter: bool) -> bool:
    """Remove a folder that holds nothing at all; whether it is gone."""
    with suppress(EntryNotFound, NotAFolder), closing(await fetch_folder(connection, path, enter)) as listing:
        return not listing.read_batch(1) and await try_command(connection, f"RMD {path}", "2xx")
    return False
