"""The directory at the end of a ZIP archive (APPNOTE 6.3): its position, its entries and their fields."""

from __future__ import annotations

import asyncio
import struct
import zlib
from calendar import timegm
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from mangrove.archives.readers import RangeReader, ReadAhead, RecordReader
from mangrove.archives.validation import decode_name
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive

MAX_END_SIZE = 22 + 65535  # bytes: the end record with the longest comment
MAX_EXTRA_FIELDS = 100  # extra fields of an entry that are read
NOT_A_ZIP = "it is not a zip archive, or its end is missing"
DAMAGED = "the archive's directory is damaged"
AES_METHOD = 99
AES_FIELD, ZIP64_FIELD, TIMESTAMP_FIELD, UNICODE_PATH_FIELD = 0x9901, 1, 0x5455, 0x7075
_HEAD = struct.Struct("<4sBBHHHHHLLLHHHHHLL")
_FLAGS, _NAME_SIZE, _EXTRA_SIZE, _COMMENT_SIZE = 4, 11, 12, 13  # fields of the above
_END = struct.Struct("<4sHHHHLLH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQHHLLQQQQ")


class DirectoryRecord(NamedTuple):
    """One entry of the directory. `offset`: of its local header in the file; `external`: the file attributes."""

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


class RawRecord(NamedTuple):
    """One entry of the directory as it is stored: the fixed fields; name, extra fields and comment."""

    head: tuple[Any, ...]
    rest: bytes

    @property
    def encrypted(self) -> bool:
        return bool(self.head[_FLAGS] & 1)

    @property
    def is_dir(self) -> bool:
        return self.rest[: self.head[_NAME_SIZE]].endswith(b"/")


class Directory(NamedTuple):
    """The position of the directory: from `start` to `stop`. `shift` is added to all offsets."""

    start: int
    stop: int
    shift: int
    comment: bytes


async def find_directory(read_ahead: ReadAhead) -> Directory:
    """Return the directory by the end record. Raise BrokenArchive without one."""
    length = min(read_ahead.size, MAX_END_SIZE)
    tail_start = read_ahead.size - length
    tail = await read_ahead.source.read(tail_start, length)
    read_ahead.preload(tail_start, tail)
    end_start = tail.rfind(b"PK\5\6")
    while end_start >= 0:
        if end_start + _END.size <= len(tail):
            end = _END.unpack_from(tail, end_start)
            if end_start + _END.size + end[7] <= len(tail):
                break
        end_start = tail.rfind(b"PK\5\6", 0, end_start)
    if end_start < 0:
        raise BrokenArchive(NOT_A_ZIP)
    comment = tail[end_start + _END.size : end_start + _END.size + end[7]]
    size, offset, disks, stop = end[5], end[6], end[1] or end[2], tail_start + end_start
    if 0xFFFF in end[1:5] or 0xFFFFFFFF in (size, offset):
        end64 = await _read_end64(read_ahead, stop)
        if end64 is not None:
            stop, size, offset, disks = end64
    if disks:
        raise BrokenArchive("the archive is one of several volumes")
    shift = stop - size - offset
    if shift < 0:
        raise BrokenArchive(DAMAGED)
    return Directory(stop - size, stop, shift, comment)


async def _read_end64(read_ahead: ReadAhead, stop: int) -> tuple[int, int, int, int] | None:
    """Return the position of the zip64 end record, size and offset of the directory, number of this volume; None
    without one.
    """
    if stop < _LOCATOR.size:
        return None
    reader = RecordReader(RangeReader(read_ahead, stop - _LOCATOR.size, stop))
    mark, _, offset, _ = _LOCATOR.unpack(await reader.read_exactly(_LOCATOR.size))
    if mark != b"PK\6\7":
        return None
    for position in (offset, stop - _LOCATOR.size - _END64.size):
        if 0 <= position <= stop - _LOCATOR.size - _END64.size:
            reader = RecordReader(RangeReader(read_ahead, position, stop))
            end = _END64.unpack(await reader.read_exactly(_END64.size))
            if end[0] == b"PK\6\6":
                return position, end[8], end[9], end[4] or end[5]
    raise BrokenArchive(DAMAGED)


def parse_record(raw: RawRecord, shift: int) -> DirectoryRecord:
    """Return the entry with its 64-bit sizes if it has them."""
    (
        _,
        _,
        system,
        _,
        flags,
        method,
        time,
        date,
        crc,
        packed,
        size,
        name_size,
        extra_size,
        _,
        _,
        _,
        external,
        offset,
    ) = raw.head
    name, extra = raw.rest[:name_size], raw.rest[name_size : name_size + extra_size]
    wide = find_extra_field(extra, ZIP64_FIELD)
    fields = iter(struct.unpack_from(f"<{len(wide) // 8}Q", wide))
    try:
        size = next(fields) if size == 0xFFFFFFFF else size
        packed = next(fields) if packed == 0xFFFFFFFF else packed
        offset = next(fields) if offset == 0xFFFFFFFF else offset
    except StopIteration:
        raise BrokenArchive(DAMAGED) from None
    modified = _parse_modified(extra, date, time)
    return DirectoryRecord(
        name, system, flags, method, modified, crc, packed, size, offset + shift, external, time, extra
    )


def find_extra_field(extra: bytes, field_id: int) -> bytes:
    """Return the field with this id; `b""` if it is missing."""
    offset = 0
    for _ in range(MAX_EXTRA_FIELDS):
        if offset + 4 > len(extra):
            break
        id, length = struct.unpack_from("<HH", extra, offset)
        if id == field_id:
            return extra[offset + 4 : offset + 4 + length]
        offset += 4 + length
    return b""


def _parse_modified(extra: bytes, date: int, time: int) -> float:
    """Return seconds since the epoch, from the extended time stamp; otherwise the DOS time, which has no time zone,
    as UTC.
    """
    exact = find_extra_field(extra, TIMESTAMP_FIELD)
    if len(exact) >= 5 and exact[0] & 1:
        return float(struct.unpack_from("<l", exact, 1)[0])
    if not date:
        return 0.0
    parts = (1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, time % 32 * 2)
    try:
        return float(timegm((*parts, 0, 0, 0)))
    except ValueError:
        return 0.0


async def iter_records(
    read_ahead: ReadAhead, directory: Directory, max_entries: int
) -> AsyncGenerator[RawRecord, None]:
    """Yield the entries of the directory. Raise ArchiveTooLarge if there are more than `max_entries` (0: no limit)."""
    reader = RecordReader(RangeReader(read_ahead, directory.start, directory.stop))
    length = directory.stop - directory.start
    count = 0
    while reader.position < length:
        head = _HEAD.unpack(await reader.read_exactly(_HEAD.size))
        if head[0] != b"PK\1\2":
            raise BrokenArchive(DAMAGED)
        yield RawRecord(head, await reader.read_exactly(head[_NAME_SIZE] + head[_EXTRA_SIZE] + head[_COMMENT_SIZE]))
        count += 1
        if max_entries and count > max_entries:
            raise ArchiveTooLarge(f"the archive has more than {max_entries} entries")
        if count % 256 == 0:
            await asyncio.sleep(0)


def decode_record_name(record: DirectoryRecord, encoding: str) -> str:
    """Return the name as text: UTF-8 by its flag, the Unicode path field, or `encoding`."""
    if record.flags & 0x800:
        return record.name.decode(errors="replace")
    unicode_path = find_extra_field(record.extra, UNICODE_PATH_FIELD)
    if (
        len(unicode_path) > 5
        and unicode_path[0] == 1
        and int.from_bytes(unicode_path[1:5], "little") == zlib.crc32(record.name)
    ):
        return unicode_path[5:].decode(errors="replace")
    return decode_name(record.name, encoding)


def get_method(record: DirectoryRecord) -> int:
    """Return the compression method, also of a member under AES."""
    if record.method != AES_METHOD:
        return record.method
    return int.from_bytes(find_extra_field(record.extra, AES_FIELD)[5:7].ljust(2, b"\xff"), "little")


def get_crc(record: DirectoryRecord) -> int | None:
    """Return the CRC-32 of a member; None for AE-2, which has an authentication code instead."""
    is_ae2 = record.method == AES_METHOD and find_extra_field(record.extra, AES_FIELD)[:2] == b"\2\0"
    return None if is_ae2 else record.crc
