"""Zip archives: the directory at their end, and the members it names (APPNOTE 6.3, WinZip AE-1 and AE-2)."""

from __future__ import annotations

import asyncio
import stat
import struct
import zlib
from bisect import bisect_left
from calendar import timegm
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

from mangrove.archives import codecs
from mangrove.archives.base import Contents, Limits, Member, Source, Wanted
from mangrove.archives.flows import FAR, Budget, Flow, Ranged, Tape, Unpacked, Window, checked
from mangrove.archives.ledger import Ledger, decoded
from mangrove.archives.zipcrypt import AesLayer, Layer, ZipCryptoLayer
from mangrove.problems import ArchiveTooLarge, BrokenArchive, WrongArchivePassword

TAIL = 22 + 65535  # bytes: the end record with the longest comment
NO_ZIP = "it is not a zip archive"
UNKNOWN = "it is packed in a way that is not known here"
AES = 99
MOST_FIELDS = 100  # extra fields of an entry that are looked at
TRIED = 1 << 16  # bytes of a member that must unpack before a password counts as right
UNIX_SYSTEMS = (3, 19)
_HEAD = struct.Struct("<4sBBHHHHHLLLHHHHHLL")
_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_END = struct.Struct("<4sHHHHLLH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQHHLLQQQQ")


class Record(NamedTuple):
    """One entry of the directory; `offset` of its local header in the file, `external` the attributes."""

    name: bytes
    system: int
    flags: int
    method: int
    modified: float
    crc: int
    packed: int
    size: int
    offset: int
    external: int
    dos_time: int
    extra: bytes

    @property
    def encrypted(self) -> bool:
        return bool(self.flags & 1)


class ZipArchive:
    """An open zip. Its directory is read again by every walk and never held."""

    sequential = False

    def __init__(self, source: Source, password: str, encoding: str, limits: Limits) -> None:
        self._window = Window(source)
        self._data = Window(source)
        self._password = password
        self._encoding = encoding
        self._limits = limits
        self._start = self._stop = self._shift = 0
        self.comment = ""
        self.encrypted = False

    async def open(self) -> None:
        """Find the directory, and try the password on the first member that needs one."""
        self._start, self._stop, self._shift, comment = await _directory(self._window)
        self.comment = decoded(comment, self._encoding)
        if self._stop - self._start <= FAR:
            tape = Tape(Ranged(self._window, self._start, self._stop))
            self._window.hold(self._start, await tape.exactly(self._stop - self._start))
        async with aclosing(self._heads()) as heads:
            async for head, rest in heads:
                if not head[4] & 1 or rest[: head[11]].endswith(b"/"):
                    continue
                record = _record(head, rest, self._shift)
                self.encrypted = True
                if not self._password:
                    raise WrongArchivePassword
                if not _refusal(record):
                    await self._try(record)
                    break

    async def _try(self, record: Record) -> None:
        budget = Budget(Limits(size=0, ratio=0), 0)
        try:
            flow = await self._unpacked(record)
            size = min(record.size, TRIED)
            crc = _crc(record) if size == record.size else None
            async with aclosing(checked(flow, size, crc, budget)) as blocks:
                async for _ in blocks:
                    pass
        except BrokenArchive:
            if record.method != AES:  # there the password has been found right before
                raise WrongArchivePassword from None

    async def _records(self) -> AsyncGenerator[Record, None]:
        async with aclosing(self._heads()) as heads:
            async for head, rest in heads:
                yield _record(head, rest, self._shift)

    async def _heads(self) -> AsyncGenerator[tuple[tuple[Any, ...], bytes], None]:
        """The entries of the directory: their fixed fields; name, extra fields and comment."""
        tape = Tape(Ranged(self._window, self._start, self._stop))
        length = self._stop - self._start
        count = 0
        while tape.position < length:
            head = _HEAD.unpack(await tape.exactly(_HEAD.size))
            if head[0] != b"PK\1\2":
                raise BrokenArchive("the archive's directory is damaged")
            rest = await tape.exactly(head[11] + head[12] + head[13])
            yield head, rest
            count += 1
            if self._limits.members and count > self._limits.members:
                raise ArchiveTooLarge(f"the archive has more than {self._limits.members} entries")
            if count % 256 == 0:
                await asyncio.sleep(0)

    async def _walk(self) -> AsyncGenerator[tuple[Member, Record], None]:
        ledger = Ledger(self._limits)
        apart = _Apart()
        async with aclosing(self._records()) as records:
            async for record in records:
                raw = _name(record, self._encoding)
                refused = _refusal(record) or apart.overlaps(record)
                is_dir = raw.endswith("/")
                member = ledger.admit(raw, record.size, record.packed, record.modified, is_dir, refused)
                if member is not None:
                    yield member, record

    async def members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._walk()) as walk:
            async for member, _ in walk:
                yield member

    async def contents(self, wanted: Wanted) -> Contents:
        budget = Budget(self._limits, self._window.size)
        index = -1
        async with aclosing(self._walk()) as walk:
            async for member, record in walk:
                index += 1
                if member.is_dir or member.refused or not wanted(index, member):
                    continue
                async with aclosing(self._stream(record, budget)) as stream:
                    yield index, member, stream

    async def _stream(self, record: Record, budget: Budget) -> AsyncGenerator[bytes, None]:
        flow = await self._unpacked(record)
        wrong = WrongArchivePassword if record.encrypted and record.method != AES else BrokenArchive
        alone = _method(record) not in (0, 14)  # those two do not know their own end
        async with aclosing(checked(flow, record.size, _crc(record), budget, wrong, alone)) as blocks:
            async for block in blocks:
                yield block

    async def _unpacked(self, record: Record) -> Flow:
        """The member's bytes as they were packed; WrongArchivePassword."""
        tape = Tape(Ranged(self._data, record.offset, self._start))
        local = _LOCAL.unpack(await tape.exactly(_LOCAL.size))
        name = await tape.exactly(local[9])
        if local[0] != b"PK\3\4" or name != record.name:
            raise BrokenArchive("a file in the archive is not where the directory says")
        start = record.offset + _LOCAL.size + local[9] + local[10]
        flow: Flow = Ranged(self._data, start, start + record.packed)
        if start + record.packed > self._start:
            raise BrokenArchive("a file in the archive is cut short")
        if record.encrypted:
            flow = await _layer(record, self._password).over(flow, record.packed)
        method = _method(record)
        if method == 14:
            return await _lzma(flow)
        return Unpacked(flow, METHODS[method]) if method else flow


METHODS: dict[int, Callable[[], codecs.Decompressor]] = {
    8: codecs.deflate,
    9: codecs.deflate64,
    12: codecs.bzip2,
    93: codecs.zstd,
    95: codecs.xz,
}


async def _lzma(flow: Flow) -> Flow:
    tape = Tape(flow)
    head = await tape.exactly(4)
    properties = await tape.exactly(int.from_bytes(head[2:], "little"))
    return Unpacked(tape, lambda: codecs.lzma1(properties))


class _Apart:
    """Whether members keep to bytes of their own: in a bomb thousands of them share the same."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def overlaps(self, record: Record) -> str:
        start, stop = record.offset, record.offset + _LOCAL.size + len(record.name) + record.packed
        at = bisect_left(self._starts, start)
        before = at and self._stops[at - 1] > start
        after = at < len(self._starts) and self._starts[at] < stop
        if before or after:
            return "it shares its bytes with another entry"
        self._starts.insert(at, start)
        self._stops.insert(at, stop)
        return ""


async def _directory(window: Window) -> tuple[int, int, int, bytes]:
    """Where the directory begins and ends, how far all offsets are off, and the comment."""
    length = min(window.size, TAIL)
    at = window.size - length
    tail = await window.source.read(at, length)
    window.hold(at, tail)
    found = tail.rfind(b"PK\5\6")
    while found >= 0:
        if found + _END.size <= len(tail):
            end = _END.unpack_from(tail, found)
            if found + _END.size + end[7] <= len(tail):
                break
        found = tail.rfind(b"PK\5\6", 0, found)
    if found < 0:
        raise BrokenArchive(NO_ZIP)
    comment = tail[found + _END.size : found + _END.size + end[7]]
    size, offset, disks, stop = end[5], end[6], end[1] or end[2], at + found
    if 0xFFFF in end[1:5] or 0xFFFFFFFF in (size, offset):
        end64 = await _end64(window, stop)
        if end64 is not None:
            stop, size, offset, disks = end64
    if disks:
        raise BrokenArchive("the archive is one of several volumes")
    shift = stop - size - offset
    if shift < 0:
        raise BrokenArchive("the archive's directory is damaged")
    return stop - size, stop, shift, comment


async def _end64(window: Window, stop: int) -> tuple[int, int, int, int] | None:
    """Place of the zip64 end record, size and offset of the directory, number of this volume; None without one."""
    if stop < _LOCATOR.size:
        return None
    tape = Tape(Ranged(window, stop - _LOCATOR.size, stop))
    mark, _, offset, _ = _LOCATOR.unpack(await tape.exactly(_LOCATOR.size))
    if mark != b"PK\6\7":
        return None
    for place in (offset, stop - _LOCATOR.size - _END64.size):
        if 0 <= place <= stop - _LOCATOR.size - _END64.size:
            tape = Tape(Ranged(window, place, stop))
            end = _END64.unpack(await tape.exactly(_END64.size))
            if end[0] == b"PK\6\6":
                return place, end[8], end[9], end[4] or end[5]
    raise BrokenArchive("the archive's directory is damaged")


def _record(head: tuple[Any, ...], rest: bytes, shift: int) -> Record:
    _, _, system, _, flags, method, time, date, crc, packed, size, named, extended, _, _, _, external, offset = head
    name, extra = rest[:named], rest[named : named + extended]
    wide = _extra(extra, 1)
    fields = iter(struct.unpack_from(f"<{len(wide) // 8}Q", wide))
    try:
        size = next(fields) if size == 0xFFFFFFFF else size
        packed = next(fields) if packed == 0xFFFFFFFF else packed
        offset = next(fields) if offset == 0xFFFFFFFF else offset
    except StopIteration:
        raise BrokenArchive("the archive's directory is damaged") from None
    modified = _modified(extra, date, time)
    return Record(name, system, flags, method, modified, crc, packed, size, offset + shift, external, time, extra)


def _extra(extra: bytes, wanted: int) -> bytes:
    """The field with this id; `b""` without one."""
    at = 0
    for _ in range(MOST_FIELDS):
        if at + 4 > len(extra):
            break
        id, length = struct.unpack_from("<HH", extra, at)
        if id == wanted:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def _modified(extra: bytes, date: int, time: int) -> float:
    """Seconds since the epoch, from the extended time stamp; else the DOS time, which knows no zone, as UTC."""
    exact = _extra(extra, 0x5455)
    if len(exact) >= 5 and exact[0] & 1:
        return float(struct.unpack_from("<l", exact, 1)[0])
    if not date:
        return 0.0
    parts = (1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, time % 32 * 2)
    try:
        return float(timegm((*parts, 0, 0, 0)))
    except ValueError:
        return 0.0


def _name(record: Record, encoding: str) -> str:
    if record.flags & 0x800:
        return record.name.decode(errors="replace")
    told = _extra(record.extra, 0x7075)
    if len(told) > 5 and told[0] == 1 and int.from_bytes(told[1:5], "little") == zlib.crc32(record.name):
        return told[5:].decode(errors="replace")
    return decoded(record.name, encoding)


def _refusal(record: Record) -> str:
    """Why a member is never unpacked, whatever its name."""
    mode = record.external >> 16 if record.system in UNIX_SYSTEMS else 0
    if stat.S_ISLNK(mode):
        return "it is a symbolic link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is a device"
    if record.flags & 0x2040:
        return "it is encrypted in a way that is not known here"
    if record.flags & 0x20 or (_method(record) not in METHODS and _method(record) not in (0, 14)):
        return UNKNOWN
    if record.encrypted and record.method == AES and _extra(record.extra, 0x9901)[4:5] not in (b"\1", b"\2", b"\3"):
        return "it is encrypted in a way that is not known here"
    return ""


def _method(record: Record) -> int:
    if record.method != AES:
        return record.method
    return int.from_bytes(_extra(record.extra, 0x9901)[5:7].ljust(2, b"\xff"), "little")


def _crc(record: Record) -> int | None:
    """The CRC-32 of a member; None for AE-2, which has an authentication code instead."""
    is_ae2 = record.method == AES and _extra(record.extra, 0x9901)[:2] == b"\2\0"
    return None if is_ae2 else record.crc


def _layer(record: Record, password: str) -> Layer:
    if not password:
        raise WrongArchivePassword
    if record.method == AES:
        return AesLayer(password.encode(), _extra(record.extra, 0x9901)[4])
    check = record.dos_time >> 8 if record.flags & 8 else record.crc >> 24
    return ZipCryptoLayer(password.encode(), check)
