"""Tar archives, packed or not: ustar, GNU and pax headers one after the other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import NamedTuple

from mangrove.archives.base import Contents, Limits, Member, Source, Wanted
from mangrove.archives.codecs import Decompressor
from mangrove.archives.flows import Budget, Metered, Ranged, Tape, Unpacked, Window, checked
from mangrove.archives.ledger import Ledger, decoded
from mangrove.problems import BrokenArchive

RECORD = 512
LONGEST_HEADER = 1 << 20  # bytes of one pax header or GNU long name
MOST_HEADERS = 20  # pax headers and GNU long names in a row
KEPT = ("path", "size", "mtime")  # of what pax headers say
SPARSE = "GNU.sparse"  # begins what they say of a sparse file
SPARSE_NAME = "GNU.sparse.name"
NO_TAR = "it is not a tar archive"
FILES = (b"0", b"\0", b"7", b"S")
REFUSED = {
    b"1": "it is a hard link",
    b"2": "it is a symbolic link",
    b"3": "it is a device",
    b"4": "it is a device",
    b"6": "it is a fifo",
    b"S": "it is a sparse file",
}
_LENGTH = re.compile(rb"(\d{1,7}) ")


class Header(NamedTuple):
    """One entry; `stop` is where its data, padded, end in the unpacked tar."""

    raw: str
    size: int
    modified: float
    is_dir: bool
    refused: str
    stop: int


class TarArchive:
    """An open tar; `make` unpacks the whole of it, None when it is not packed."""

    comment = ""
    encrypted = False

    def __init__(self, source: Source, make: Callable[[], Decompressor] | None, encoding: str, limits: Limits) -> None:
        self._source = source
        self._make = make
        self._encoding = encoding
        self._limits = limits
        self.sequential = make is not None

    async def open(self) -> None:
        """BrokenArchive unless it begins as a tar does."""
        async with aclosing(_headers(self._tape(), self._encoding)) as headers:
            async for _ in headers:
                break

    def _tape(self) -> Tape:
        packed = Ranged(Window(self._source), 0, self._source.size)
        if self._make is None:
            return Tape(packed)
        return Tape(Metered(Unpacked(packed, self._make, several=True), packed, self._limits))

    async def _walk(self, tape: Tape) -> AsyncGenerator[tuple[Member, Header], None]:
        ledger = Ledger(self._limits)
        async with aclosing(_headers(tape, self._encoding)) as headers:
            async for one in headers:
                member = ledger.admit(one.raw, one.size, -1, one.modified, one.is_dir, one.refused)
                if member is not None:
                    yield member, one

    async def members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._walk(self._tape())) as walk:
            async for member, _ in walk:
                yield member

    async def contents(self, wanted: Wanted) -> Contents:
        tape = self._tape()
        budget = Budget(self._limits, self._source.size)
        index = -1
        async with aclosing(self._walk(tape)) as walk:
            async for member, _ in walk:
                index += 1
                if not member.is_dir and not member.refused and wanted(index, member):
                    async with aclosing(checked(tape, member.size, None, budget)) as stream:
                        yield index, member, stream


async def _headers(tape: Tape, encoding: str) -> AsyncGenerator[Header, None]:
    """The entries; between two of them the data of the first may be read from the tape."""
    general: dict[str, str] = {}
    special: dict[str, str] = {}
    count = extended = 0
    while True:
        block = await _record(tape)
        if block is None:
            await tape.drain()  # what packs it has its checksum at the end
            return
        kind = block[156:157]
        if kind in (b"x", b"X", b"g", b"L", b"K"):
            extended += 1
            if extended > MOST_HEADERS:
                raise BrokenArchive("the archive has too many headers for one entry")
            await _extended(tape, block, general if kind == b"g" else special, encoding)
            continue
        header = await _header(tape, block, general | special, encoding)
        special, extended = {}, 0
        yield header
        await tape.forward(header.stop)
        count += 1
        if count % 256 == 0:
            await asyncio.sleep(0)


async def _record(tape: Tape) -> bytes | None:
    """The next header with its checksum found right; None at the end."""
    first = not tape.position
    block = await tape.read(RECORD)
    if block and len(block) < RECORD:
        block += await _rest(tape, RECORD - len(block))
    if not block and not first:
        return None
    if len(block) < RECORD:
        raise BrokenArchive(NO_TAR if first else "the archive ends too early")
    if not block.strip(b"\0"):
        return None
    rest = block[:148] + b" " * 8 + block[156:]
    wrong = _number(block[148:156]) - sum(rest)
    if wrong and wrong != -256 * sum(byte > 127 for byte in rest):  # some old programs added signed bytes
        raise BrokenArchive(NO_TAR if first else "the archive has damaged data")
    return block


async def _rest(tape: Tape, length: int) -> bytes:
    found = b""
    while len(found) < length:
        block = await tape.read(length - len(found))
        if not block:
            break
        found += block
    return found


async def _extended(tape: Tape, block: bytes, told: dict[str, str], encoding: str) -> None:
    """Take what a pax header or a GNU long name says of the next entry."""
    size = _number(block[124:136])
    if size > LONGEST_HEADER:
        raise BrokenArchive("the archive has a header that is too long")
    text = (await tape.exactly(_padded(size)))[:size]
    kind = block[156:157]
    if kind in (b"L", b"K"):
        told |= {"path": _text(text, encoding)} if kind == b"L" else {}
        return
    for count, (raw, value) in enumerate(_said(text.rstrip(b"\0"))):
        if count % 4096 == 4095:
            await asyncio.sleep(0)
        key = raw.decode(errors="replace")
        if key.startswith(SPARSE):
            told[SPARSE] = ""
        if key in KEPT or key == SPARSE_NAME:
            told[key] = _text(value, encoding)


def _said(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a pax header."""
    at = 0
    while at < len(text):
        found = _LENGTH.match(text, at)
        stop = at + int(found[1]) if found else 0
        if not found or not found.end() < stop <= len(text):
            raise BrokenArchive("the archive has a damaged header")
        key, equal, value = text[found.end() : stop - 1].partition(b"=")
        if not equal:
            raise BrokenArchive("the archive has a damaged header")
        yield key, value
        at = stop


async def _header(tape: Tape, block: bytes, told: dict[str, str], encoding: str) -> Header:
    kind = block[156:157]
    name = _text(block[:100], encoding)
    if block[257:263] == b"ustar\0":
        prefix = _text(block[345:500], encoding)
        name = f"{prefix}/{name}" if prefix else name
    if kind == b"S":
        await _sparse(tape, block)
    size = _whole(told["size"]) if "size" in told else _number(block[124:136])
    name = told.get(SPARSE_NAME, told.get("path", name))
    is_dir = kind in (b"5", b"D") or (kind == b"\0" and name.endswith("/"))
    refused = REFUSED.get(kind, "" if is_dir or kind in FILES else "it is of an unknown kind")
    if SPARSE in told:
        refused = REFUSED[b"S"]
    has_data = kind not in (b"1", b"2", b"3", b"4", b"5", b"6")
    stop = tape.position + (_padded(size) if has_data else 0)
    return Header(name, size, _seconds(told.get("mtime", ""), block), is_dir, refused, stop)


async def _sparse(tape: Tape, block: bytes) -> None:
    """Pass over the further headers of an old GNU sparse file."""
    more, count = block[482:483] not in (b"\0", b""), 0
    while more:
        more = (await tape.exactly(RECORD))[504:505] != b"\0"
        count += 1
        if count > LONGEST_HEADER // RECORD:
            raise BrokenArchive("the archive has a header that is too long")


def _padded(size: int) -> int:
    return -(-size // RECORD) * RECORD


def _number(field: bytes) -> int:
    """An octal or base-256 number; BrokenArchive for neither, or below zero."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip()
    try:
        found = int(text, 8) if text else 0
    except ValueError:
        found = -1
    if found < 0:
        raise BrokenArchive("the archive has a damaged header")
    return found


def _whole(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 19:
        raise BrokenArchive("the archive has a damaged header")
    return int(text)


def _seconds(told: str, block: bytes) -> float:
    try:
        found = float(told) if told else float(_number(block[136:148]))
    except (ValueError, BrokenArchive):
        return 0.0
    return found if abs(found) < 1e12 else 0.0


def _text(raw: bytes, encoding: str) -> str:
    raw = raw.partition(b"\0")[0] if raw.endswith(b"\0") or b"\0" in raw[:100] else raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return decoded(raw, encoding)
