"""What a server shows of its folders: by MLSD and MLST where it offers them, else by LIST and CWD."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import IO
from unicodedata import normalize

import aioftp

from mangrove.core.problems import EntryNotFound, NotAFolder, StorageProblem
from mangrove.drivers.ftp.connection import Connection
from mangrove.drivers.ftp.lines import Kind, Line, ParseLine, make_list_parser, parse_facts

PATTERN = frozenset("*?[]{}\\~")  # LIST takes a name with one of these for many
LONGEST_LINE = 16 << 10  # bytes; more is no entry
ITSELF = frozenset({b".", b".."})
NAMELESS = Line(b"", Kind.FOLDER, None, 0.0)


class Listing:
    """What a server sent of a folder."""

    def __init__(self, spool: IO[bytes], parse: ParseLine) -> None:
        self._spool = spool
        self._parse = parse

    def close(self) -> None:
        self._spool.close()

    def count(self, most: int) -> int:
        """How many lines there are, `most` if there are more; before the first is read."""
        count = sum(1 for _ in islice(iter(partial(self._spool.readline, LONGEST_LINE), b""), most))
        self._spool.seek(0)
        return count

    def __iter__(self) -> Iterator[Line]:
        while line := self._spool.readline(LONGEST_LINE):
            found = self._parse(line.rstrip(b"\r\n"))
            if found is not None and found.name not in ITSELF:
                yield found

    def read_batch(self, most: int) -> Sequence[Line]:
        """The next entries; none at the end."""
        return list(islice(self, most))


async def is_folder(connection: Connection, path: str) -> bool:
    """Whether there is a folder, or a link to one."""
    try:
        await connection.ask(f"CWD {path}", "2xx")
    except aioftp.StatusCodeError:
        return False
    return True


async def find_size(connection: Connection, path: str) -> int | None:
    """Bytes of a file; None when the server does not tell."""
    try:
        (*_, text) = await connection.ask(f"SIZE {path}", "213")
    except aioftp.StatusCodeError:
        return None
    return int(text) if text.strip().isdigit() else None


def has_facts(connection: Connection) -> bool:
    """Whether the server offers MLSD and MLST, which FEAT shows by the one word."""
    return "MLST" in connection.features


async def look(connection: Connection, path: str, needs_time: bool = True) -> Line | None:
    """What has this path, behind a link too; None for nothing. Its name is of no meaning.

    Without MLST the time of a folder stands in the list of the folder above alone, which may be long.
    """
    if has_facts(connection) and path != "/":
        found = await _ask_facts(connection, path)
    elif await is_folder(connection, path):
        line = await _find_in_parent(connection, path) if needs_time else None
        return (line or NAMELESS)._replace(kind=Kind.FOLDER, is_link=line is not None and line.kind is Kind.LINK)
    else:
        found = await _find_in_lists(connection, path)
    if found is not None and found.kind is Kind.LINK:
        found = await resolve(connection, path, found)
    return found


async def resolve(connection: Connection, path: str, link: Line) -> Line | None:
    """A link as what it leads to; None when that is nothing."""
    if await is_folder(connection, path):
        return link._replace(kind=Kind.FOLDER, is_link=True)
    size = await find_size(connection, path)
    return None if size is None else link._replace(kind=Kind.FILE, size=size, is_link=True)


async def _ask_facts(connection: Connection, path: str) -> Line | None:
    try:
        lines = await connection.ask(f"MLST {path}", "250")
    except aioftp.StatusCodeError as error:
        if error.received_codes and error.received_codes[-1].matches("5xx"):
            return None
        raise
    facts, _, name = (lines[1] if len(lines) > 2 else "").lstrip(" ").partition(" ")
    _refuse_other_form(path.rpartition("/")[2], name.rpartition("/")[2])
    return parse_facts(f"{facts} {path}".encode("latin-1"))


def _refuse_other_form(asked: str, found: str) -> None:
    """StorageProblem when the server takes a name for another one that looks the same: NFC for NFD or the reverse."""
    if asked == found or asked.isascii():
        return
    try:
        names = [text.encode("latin-1").decode() for text in (asked, found)]
    except UnicodeDecodeError:
        return
    if names[0] != names[1] and normalize("NFC", names[0]) == normalize("NFC", names[1]):
        raise StorageProblem(f"{names[0]!r}: the server has the name in another form of Unicode, and holds only one")


async def _find_in_lists(connection: Connection, path: str) -> Line | None:
    """A file or a link, by LIST of it; by LIST of its folder where that may mean something else."""
    name = path.rpartition("/")[2].encode("latin-1")
    if not PATTERN & set(path):
        lines = await _read_lines(connection, path)
        if lines is None and await find_size(connection, path) is None:
            return None
        if lines is not None and not lines:
            return None
        if lines and len(lines) == 1 and lines[0].name.rpartition(b"/")[2] == name:
            return lines[0]
    return await _find_in_parent(connection, path)


async def _find_in_parent(connection: Connection, path: str) -> Line | None:
    """What LIST shows of a path in the list of its folder."""
    folder, _, name = path.rpartition("/")
    if not name:
        return None
    try:
        listing = await _fetch_list(connection, folder or "/")
    except aioftp.StatusCodeError:
        if connection.owes:
            raise
        return None
    with closing(listing):
        return next((line for line in listing if line.name == name.encode("latin-1")), None)


async def _read_lines(connection: Connection, path: str) -> Sequence[Line] | None:
    """The first lines that LIST shows of a path; None when the server refuses."""
    try:
        listing = await _fetch_list(connection, path)
    except aioftp.StatusCodeError:
        if connection.owes:
            raise
        return None
    with closing(listing):
        return listing.read_batch(2)


async def _fetch_list(connection: Connection, path: str) -> Listing:
    """What LIST shows of a path, or of the folder that was entered when it is empty.

    Names with a dot in front are asked for in the way of Unix, which not every server knows.
    """
    parse = make_list_parser(datetime.now(UTC))
    try:
        listing = Listing(await connection.fetch(f"LIST -a {path}" if path else "LIST -a"), parse)
        if listing.count(1):
            return listing
        listing.close()
    except aioftp.StatusCodeError:
        if connection.owes:
            raise
    return Listing(await connection.fetch(f"LIST {path}" if path else "LIST"), parse)


async def fetch_folder(connection: Connection, path: str, enter: bool) -> Listing:
    """The entries of a folder; EntryNotFound, NotAFolder. `enter`: by going there first."""
    if enter and not await is_folder(connection, path):
        await _refuse_other(connection, path)
    try:
        listing = await _fetch_entries(connection, "" if enter else path)
    except aioftp.StatusCodeError:
        if not connection.owes:
            await _refuse_other(connection, path)
        raise
    if not enter and listing.count(2) < 2 and not await is_folder(connection, path):
        listing.close()  # of a file, or of nothing
        await _refuse_other(connection, path)
        raise EntryNotFound
    return listing


async def _fetch_entries(connection: Connection, path: str) -> Listing:
    if not has_facts(connection):
        return await _fetch_list(connection, path)
    return Listing(await connection.fetch(f"MLSD {path}" if path else "MLSD"), parse_facts)


async def _refuse_other(connection: Connection, path: str) -> None:
    """EntryNotFound or NotAFolder unless there is a folder."""
    found = await look(connection, path, needs_time=False)
    if found is None:
        raise EntryNotFound
    if found.kind is not Kind.FOLDER:
        raise NotAFolder
