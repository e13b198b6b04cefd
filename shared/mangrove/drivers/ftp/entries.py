"""Entries of folders on an FTP server: by MLSD and MLST if the server supports them, otherwise by LIST and CWD;
changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import IO
from unicodedata import normalize

import aioftp

from mangrove.core import deadlines
from mangrove.core.problems import EntryNotFound, NotAFolder, StorageProblem
from mangrove.drivers.ftp.client import FtpConnection
from mangrove.drivers.ftp.lines import (
    EntryKind,
    Line,
    ParseLine,
    format_time,
    is_sendable,
    join,
    make_list_parser,
    parse_facts,
)

PATTERN_LETTERS = frozenset("*?[]{}\\~")  # LIST treats a name with one of these as a pattern
MAX_LINE_BYTES = 16 << 10
REMOVAL_BATCH_ENTRIES = 100  # removed before other callers get their turn with the connection
MAX_PATH_DEPTH = 256
_DOTS = frozenset({b".", b".."})
_FOLDER = Line(b"", EntryKind.FOLDER, None, 0.0)
Connect = Callable[[], AbstractAsyncContextManager[FtpConnection]]


class FolderLines:
    """The lines of a folder that a server sent."""

    def __init__(self, spool: IO[bytes], parse: ParseLine) -> None:
        self._spool = spool
        self._parse = parse

    def close(self) -> None:
        self._spool.close()

    def count(self, limit: int) -> int:
        """Return the number of lines up to `limit`, before the first is read."""
        count = sum(1 for _ in islice(iter(partial(self._spool.readline, MAX_LINE_BYTES), b""), limit))
        self._spool.seek(0)
        return count

    def __iter__(self) -> Iterator[Line]:
        while line := self._spool.readline(MAX_LINE_BYTES):
            entry = self._parse(line.rstrip(b"\r\n"))
            if entry is not None and entry.name not in _DOTS:
                yield entry

    def read_batch(self, limit: int) -> Sequence[Line]:
        """Return the next entries; none at the end."""
        return list(islice(self, limit))


async def is_folder(connection: FtpConnection, path: str) -> bool:
    """True for a folder or a link to one."""
    try:
        await connection.request(f"CWD {path}", "2xx")
    except aioftp.StatusCodeError:
        return False
    return True


async def find_size(connection: FtpConnection, path: str) -> int | None:
    """Return the size of a file in bytes; None if the server does not report it."""
    try:
        (*_, text) = await connection.request(f"SIZE {path}", "213")
    except aioftp.StatusCodeError:
        return None
    return int(text) if text.strip().isdigit() else None


def has_facts(connection: FtpConnection) -> bool:
    """True if the server supports MLSD and MLST. FEAT shows MLST for both."""
    return "MLST" in connection.features


async def find(connection: FtpConnection, path: str, needs_time: bool = True) -> Line | None:
    """Return the entry of a path, without its name and with links followed; None if it does not exist.

    Without MLST, only the listing of its parent shows the time of a folder, and that may be long.
    """
    if has_facts(connection) and path != "/":
        entry = await _request_facts(connection, path)
    elif await is_folder(connection, path):
        line = await _find_in_parent(connection, path) if needs_time else None
        return (line or _FOLDER)._replace(
            kind=EntryKind.FOLDER, is_link=line is not None and line.kind is EntryKind.LINK
        )
    else:
        entry = await _find_in_lists(connection, path)
    if entry is not None and entry.kind is EntryKind.LINK:
        entry = await resolve(connection, path, entry)
    return entry


async def resolve(connection: FtpConnection, path: str, link: Line) -> Line | None:
    """Return a link as its target; None for a link without a target."""
    if await is_folder(connection, path):
        return link._replace(kind=EntryKind.FOLDER, is_link=True)
    size = await find_size(connection, path)
    return None if size is None else link._replace(kind=EntryKind.FILE, size=size, is_link=True)


async def _request_facts(connection: FtpConnection, path: str) -> Line | None:
    try:
        lines = await connection.request(f"MLST {path}", "250")
    except aioftp.StatusCodeError as error:
        if error.received_codes and error.received_codes[-1].matches("5xx"):
            return None
        raise
    facts, _, name = (lines[1] if len(lines) > 2 else "").lstrip(" ").partition(" ")
    _refuse_other_form(path.rpartition("/")[2], name.rpartition("/")[2])
    return parse_facts(f"{facts} {path}".encode("latin-1"))


def _refuse_other_form(requested: str, shown: str) -> None:
    """Raise a StorageProblem if the server does not distinguish Unicode forms of a name: NFC and NFD."""
    if requested == shown or requested.isascii():
        return
    try:
        names = [text.encode("latin-1").decode() for text in (requested, shown)]
    except UnicodeDecodeError:
        return
    if names[0] != names[1] and normalize("NFC", names[0]) == normalize("NFC", names[1]):
        raise StorageProblem(f"{names[0]!r}: the server has the name in another form of Unicode, and holds only one")


async def _find_in_lists(connection: FtpConnection, path: str) -> Line | None:
    """Return a file or link by LIST of its path, or by LIST of its folder if the path may be a pattern."""
    name = path.rpartition("/")[2].encode("latin-1")
    if not PATTERN_LETTERS & set(path):
        lines = await _read_lines(connection, path)
        if lines is None and await find_size(connection, path) is None:
            return None
        if lines is not None and not lines:
            return None
        if lines and len(lines) == 1 and lines[0].name.rpartition(b"/")[2] == name:
            return lines[0]
    return await _find_in_parent(connection, path)


async def _find_in_parent(connection: FtpConnection, path: str) -> Line | None:
    """Return the entry of a path in the LIST of its folder."""
    folder, _, name = path.rpartition("/")
    if not name:
        return None
    try:
        listing = await _fetch_list(connection, folder or "/")
    except aioftp.StatusCodeError:
        if connection.is_answer_pending:
            raise
        return None
    with closing(listing):
        return next((line for line in listing if line.name == name.encode("latin-1")), None)


async def _read_lines(connection: FtpConnection, path: str) -> Sequence[Line] | None:
    """Return the first lines that LIST shows of a path; None if the server refuses."""
    try:
        listing = await _fetch_list(connection, path)
    except aioftp.StatusCodeError:
        if connection.is_answer_pending:
            raise
        return None
    with closing(listing):
        return listing.read_batch(2)


async def _fetch_list(connection: FtpConnection, path: str) -> FolderLines:
    """Return the LIST of a path, or of the current folder for an empty path.

    Names with a leading dot need the option `-a` of Unix, which not every server supports.
    """
    parse = make_list_parser(datetime.now(UTC))
    try:
        listing = FolderLines(await connection.fetch(f"LIST -a {path}" if path else "LIST -a"), parse)
        if listing.count(1):
            return listing
        listing.close()
    except aioftp.StatusCodeError:
        if connection.is_answer_pending:
            raise
    return FolderLines(await connection.fetch(f"LIST {path}" if path else "LIST"), parse)


async def fetch_folder(connection: FtpConnection, path: str, enter: bool) -> FolderLines:
    """Return the entries of a folder, with `enter` after CWD to it. Raise EntryNotFound or NotAFolder."""
    if enter and not await is_folder(connection, path):
        await _refuse_other(connection, path)
    try:
        listing = await _fetch_entries(connection, "" if enter else path)
    except aioftp.StatusCodeError:
        if not connection.is_answer_pending:
            await _refuse_other(connection, path)
        raise
    if not enter and listing.count(2) < 2 and not await is_folder(connection, path):
        listing.close()  # of a file, or empty
        await _refuse_other(connection, path)
        raise EntryNotFound
    return listing


async def _fetch_entries(connection: FtpConnection, path: str) -> FolderLines:
    if not has_facts(connection):
        return await _fetch_list(connection, path)
    return FolderLines(await connection.fetch(f"MLSD {path}" if path else "MLSD"), parse_facts)


async def _refuse_other(connection: FtpConnection, path: str) -> None:
    """Raise EntryNotFound or NotAFolder unless the path is a folder."""
    entry = await find(connection, path, needs_time=False)
    if entry is None:
        raise EntryNotFound
    if entry.kind is not EntryKind.FOLDER:
        raise NotAFolder


async def try_command(connection: FtpConnection, command: str, *expected: str) -> bool:
    """Send a command; False if the server refuses it."""
    try:
        await connection.request(command, *expected)
    except aioftp.StatusCodeError:
        if connection.is_answer_pending:
            raise
        return False
    return True


async def _remove_if_present(connection: FtpConnection, command: str, path: str) -> None:
    if not await try_command(connection, command, "2xx") and await find(connection, path, needs_time=False) is not None:
        await connection.request(command, "2xx")  # raises the server's answer


async def rename(connection: FtpConnection, path: str, target: str) -> None:
    """Rename an entry. Some servers replace a file of the new name, others refuse."""
    await connection.request(f"RNFR {path}", "350")
    await connection.request(f"RNTO {target}", "2xx")


async def set_time(connection: FtpConnection, path: str, modified: float) -> None:
    """Set the time of a file if the server can, by MFMT or by the older use of MDTM."""
    if modified <= 0:
        return
    for feature in ("MFMT", "MDTM"):
        if feature in connection.features:
            await try_command(connection, f"{feature} {format_time(modified)} {path}", "2xx")
            return


async def make_folders(connection: FtpConnection, paths: list[str]) -> Line | None:
    """Make the missing folders of a path and its parents, which `paths` lists from the deepest up.

    Return an entry that has one of the paths.
    """
    missing: list[str] = []
    for path in paths:
        entry = await find(connection, path, needs_time=False)
        if entry is not None:
            if entry.kind is not EntryKind.FOLDER:
                return entry
            break
        missing.append(path)
    for path in reversed(missing):
        try:
            await connection.request(f"MKD {path}", "2xx")
        except aioftp.StatusCodeError:
            entry = None if connection.is_answer_pending else await find(connection, path, needs_time=False)
            if entry is None:
                raise
            if entry.kind is not EntryKind.FOLDER:
                return entry
    return None


class TreeRemover:
    """Remove files and folders with their content. Other callers get the connection between batches of entries."""

    def __init__(self, connect: Connect, enter: bool) -> None:
        self._connect = connect
        self._enter = enter

    async def remove(self, path: str, depth: int = 0) -> None:
        """Remove a path if it exists; of a link only the link.

        A server may show a link to a folder as a folder, so removal as a file is tried first.
        """
        if depth > MAX_PATH_DEPTH:
            raise StorageProblem("the folder is too deep to be removed")
        async with self._connect() as connection:
            if await try_command(connection, f"DELE {path}", "2xx"):
                return
            if await try_command(connection, f"RMD {path}", "2xx"):
                return
            try:
                listing = await fetch_folder(connection, path, self._enter)
            except EntryNotFound:
                return
            except NotAFolder:
                await connection.request(f"DELE {path}", "2xx")  # raises the server's answer
                return
        with closing(listing):
            async for folder in self._remove_files(path, listing):
                await self.remove(folder, depth + 1)
        async with self._connect() as connection:
            await _remove_if_present(connection, f"RMD {path}", path)

    async def _remove_files(self, path: str, listing: FolderLines) -> AsyncIterator[str]:
        """Remove the files of a folder; yield the paths of its folders."""
        while lines := listing.read_batch(REMOVAL_BATCH_ENTRIES):
            folders = []
            async with self._connect() as connection:
                for line in lines:
                    child = join(path, line.name)
                    if b"/" in line.name or not is_sendable(child):
                        continue  # the folder is not removed then
                    if line.kind is EntryKind.FOLDER:
                        folders.append(child)
                    else:
                        await _remove_if_present(connection, f"DELE {child}", child)
            deadlines.check()
            for folder in folders:
                yield folder


async def remove_empty(connection: FtpConnection, path: str, enter: bool) -> bool:
    """Remove an empty folder. Return True if it is removed."""
    with suppress(EntryNotFound, NotAFolder), closing(await fetch_folder(connection, path, enter)) as listing:
        return not listing.read_batch(1) and await try_command(connection, f"RMD {path}", "2xx")
    return False
