"""Tar archives, compressed or not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import NamedTuple

from mangrove.archives.base import ArchiveLimits, Member, MemberFilter, MemberStreams, Source
from mangrove.archives.codecs import Decompressor
from mangrove.archives.readers import (
    TRUNCATED,
    Budget,
    DecompressReader,
    LimitReader,
    RangeReader,
    ReadAhead,
    RecordReader,
    read_verified,
)
from mangrove.archives.validation import EntryValidator, decode_name
from mangrove.core.problems import BrokenArchive

BLOCK = 512
MAX_HEADER_SIZE = 1 << 20  # bytes of one pax header or GNU long name
MAX_EXTENDED_HEADERS = 20  # consecutive pax headers and GNU long names
PAX_KEYS = ("path", "size", "mtime")  # the fields of pax headers that are used
SPARSE = "GNU.sparse"  # the prefix of their fields about a sparse file
SPARSE_NAME = "GNU.sparse.name"
NOT_A_TAR = "it is not a tar archive"
DAMAGED = "the archive has a damaged header"
HEADER_TOO_LONG = "the archive has a header that is too long"
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
    """One entry. `stop`: the position in the unpacked tar at which its padded data end."""

    name: str
    size: int
    modified: float
    is_dir: bool
    refused: str
    stop: int


async def iter_headers(reader: RecordReader, encoding: str) -> AsyncGenerator[Header, None]:
    """Yield the entries. Before the next one is requested, the data of the current one can be read from `reader`."""
    general: dict[str, str] = {}
    special: dict[str, str] = {}
    count = extended = 0
    while True:
        block = await _read_header_block(reader)
        if block is None:
            await reader.drain()  # the checksum of the compression is at its end
            return
        kind = block[156:157]
        if kind in (b"x", b"X", b"g", b"L", b"K"):
            extended += 1
            if extended > MAX_EXTENDED_HEADERS:
                raise BrokenArchive("the archive has too many headers for one entry")
            await _read_extended_header(reader, block, general if kind == b"g" else special, encoding)
            continue
        header = await _parse_header(reader, block, general | special, encoding)
        special, extended = {}, 0
        yield header
        await reader.skip_to(header.stop)
        count += 1
        if count % 256 == 0:
            await asyncio.sleep(0)


async def _read_header_block(reader: RecordReader) -> bytes | None:
    """Return the next header after verifying its checksum; None at the end."""
    first = not reader.position
    block = await reader.read_up_to(BLOCK)
    if not block and not first:
        return None
    if len(block) < BLOCK:
        raise BrokenArchive(NOT_A_TAR if first else TRUNCATED)
    if not block.strip(b"\0"):
        return None
    rest = block[:148] + b" " * 8 + block[156:]
    difference = _parse_number(block[148:156]) - sum(rest)
    if difference and difference != -256 * sum(byte > 127 for byte in rest):  # some old programs added signed bytes
        raise BrokenArchive(NOT_A_TAR if first else "the archive has damaged data")
    return block


async def _read_extended_header(reader: RecordReader, block: bytes, fields: dict[str, str], encoding: str) -> None:
    """Add the fields of a pax header or a GNU long name to `fields`."""
    size = _parse_number(block[124:136])
    if size > MAX_HEADER_SIZE:
        raise BrokenArchive(HEADER_TOO_LONG)
    text = (await reader.read_exactly(_pad(size)))[:size]
    kind = block[156:157]
    if kind in (b"L", b"K"):
        fields |= {"path": _decode(text, encoding)} if kind == b"L" else {}
        return
    for count, (raw, value) in enumerate(_iter_pax_records(text.rstrip(b"\0"))):
        if count % 4096 == 4095:
            await asyncio.sleep(0)
        key = raw.decode(errors="replace")
        if key.startswith(SPARSE):
            fields[SPARSE] = ""
        if key in PAX_KEYS or key == SPARSE_NAME:
            fields[key] = _decode(value, encoding)


def _iter_pax_records(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a pax header."""
    start = 0
    while start < len(text):
        length = _LENGTH.match(text, start)
        stop = start + int(length[1]) if length else 0
        if not length or not length.end() < stop <= len(text):
            raise BrokenArchive(DAMAGED)
        key, equal, value = text[length.end() : stop - 1].partition(b"=")
        if not equal:
            raise BrokenArchive(DAMAGED)
        yield key, value
        start = stop


async def _parse_header(reader: RecordReader, block: bytes, fields: dict[str, str], encoding: str) -> Header:
    kind = block[156:157]
    name = _decode(block[:100], encoding)
    if block[257:263] == b"ustar\0":
        prefix = _decode(block[345:500], encoding)
        name = f"{prefix}/{name}" if prefix else name
    if kind == b"S":
        await _skip_sparse_headers(reader, block)
    size = _parse_decimal(fields["size"]) if "size" in fields else _parse_number(block[124:136])
    name = fields.get(SPARSE_NAME, fields.get("path", name))
    is_dir = kind in (b"5", b"D") or (kind == b"\0" and name.endswith("/"))
    refused = REFUSED.get(kind, "" if is_dir or kind in FILES else "it is of an unknown kind")
    if SPARSE in fields:
        refused = REFUSED[b"S"]
    has_data = kind not in (b"1", b"2", b"3", b"4", b"5", b"6")
    stop = reader.position + (_pad(size) if has_data else 0)
    return Header(name, size, _parse_modified(fields.get("mtime", ""), block), is_dir, refused, stop)


async def _skip_sparse_headers(reader: RecordReader, block: bytes) -> None:
    """Skip the further headers of an old GNU sparse file."""
    more, count = block[482:483] not in (b"\0", b""), 0
    while more:
        more = (await reader.read_exactly(BLOCK))[504:505] != b"\0"
        count += 1
        if count > MAX_HEADER_SIZE // BLOCK:
            raise BrokenArchive(HEADER_TOO_LONG)


def _pad(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _parse_number(field: bytes) -> int:
    """Return an octal or base-256 number. Raise BrokenArchive for anything else, or below zero."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip()
    try:
        number = int(text, 8) if text else 0
    except ValueError:
        number = -1
    if number < 0:
        raise BrokenArchive(DAMAGED)
    return number


def _parse_decimal(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 19:
        raise BrokenArchive(DAMAGED)
    return int(text)


def _parse_modified(pax_time: str, block: bytes) -> float:
    try:
        seconds = float(pax_time) if pax_time else float(_parse_number(block[136:148]))
    except (ValueError, BrokenArchive):
        return 0.0
    return seconds if abs(seconds) < 1e12 else 0.0


def _decode(raw: bytes, encoding: str) -> str:
    raw = raw.partition(b"\0")[0] if raw.endswith(b"\0") or b"\0" in raw[:100] else raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return decode_name(raw, encoding)


class TarArchive:
    """An open tar archive. `make_codec` is for the whole of it, None if it is not compressed."""

    comment = ""
    encrypted = False

    def __init__(
        self, source: Source, make_codec: Callable[[], Decompressor] | None, encoding: str, limits: ArchiveLimits
    ) -> None:
        self._source = source
        self._make_codec = make_codec
        self._encoding = encoding
        self._limits = limits
        self.sequential = make_codec is not None

    async def open(self) -> None:
        """Raise BrokenArchive unless it starts with a header."""
        async with aclosing(iter_headers(self._open_reader(), self._encoding)) as headers:
            async for _ in headers:
                break

    def _open_reader(self) -> RecordReader:
        packed = RangeReader(ReadAhead(self._source), 0, self._source.size)
        if self._make_codec is None:
            return RecordReader(packed)
        unpacked = DecompressReader(packed, self._make_codec, concatenated=True)
        return RecordReader(LimitReader(unpacked, packed, self._limits))

    async def _iter_members(self, reader: RecordReader) -> AsyncGenerator[Member, None]:
        validator = EntryValidator(self._limits)
        async with aclosing(iter_headers(reader, self._encoding)) as headers:
            async for header in headers:
                member = validator.validate(
                    header.name, header.size, None, header.modified, header.is_dir, header.refused
                )
                if member is not None:
                    yield member

    async def iter_members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._iter_members(self._open_reader())) as members:
            async for member in members:
                yield member

    async def iter_contents(self, is_wanted: MemberFilter) -> MemberStreams:
        reader = self._open_reader()
        budget = Budget(self._limits, self._source.size)
        index = -1
        async with aclosing(self._iter_members(reader)) as members:
            async for member in members:
                index += 1
                if not member.is_dir and not member.refused and is_wanted(index, member):
                    async with aclosing(read_verified(reader, member.size, None, budget)) as stream:
                        yield index, member, stream
