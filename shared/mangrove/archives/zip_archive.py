"""ZIP archives: the members that their directory names (APPNOTE 6.3, WinZip AE-1 and AE-2)."""

from __future__ import annotations

import stat
import struct
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from mangrove.archives import codecs
from mangrove.archives.base import ArchiveLimits, Member, MemberFilter, MemberStreams, Source
from mangrove.archives.readers import (
    MAX_READ_AHEAD,
    Budget,
    DecompressReader,
    RangeReader,
    ReadAhead,
    Reader,
    RecordReader,
    read_verified,
)
from mangrove.archives.validation import EntryValidator, decode_name
from mangrove.archives.zip_directory import (
    AES_FIELD,
    AES_METHOD,
    Directory,
    DirectoryRecord,
    decode_record_name,
    find_directory,
    find_extra_field,
    get_crc,
    get_method,
    iter_records,
    parse_record,
)
from mangrove.archives.zipcrypt import open_winzip_aes, open_zipcrypto
from mangrove.core.problems import BrokenArchive, WrongArchivePassword

UNKNOWN_METHOD = "it is packed by an unknown method"
UNKNOWN_ENCRYPTION = "it is encrypted by an unknown method"
PASSWORD_CHECK_SIZE = 1 << 16  # bytes of a member that must unpack before a password counts as right
UNIX_SYSTEMS = (3, 19)
STORED, LZMA = 0, 14
METHODS: dict[int, Callable[[], codecs.Decompressor]] = {
    8: codecs.make_deflate,
    9: codecs.Deflate64Decompressor,
    12: codecs.make_bzip2,
    93: codecs.make_zstd,
    95: codecs.make_xz,
}
_LOCAL = struct.Struct("<4sHHHHHLLLHH")


class ZipArchive:
    """An open ZIP archive. Every iteration reads its directory again; it is not kept in memory."""

    sequential = False

    def __init__(self, source: Source, password: str, encoding: str, limits: ArchiveLimits) -> None:
        self._read_ahead = ReadAhead(source)
        self._data = ReadAhead(source)
        self._password = password
        self._encoding = encoding
        self._limits = limits
        self._directory = Directory(0, 0, 0, b"")
        self.comment = ""
        self.encrypted = False

    async def open(self) -> None:
        """Find the directory, and check the password with the first member that needs one."""
        self._directory = directory = await find_directory(self._read_ahead)
        self.comment = decode_name(directory.comment, self._encoding)
        size = directory.stop - directory.start
        if size <= MAX_READ_AHEAD:
            reader = RecordReader(RangeReader(self._read_ahead, directory.start, directory.stop))
            self._read_ahead.preload(directory.start, await reader.read_exactly(size))
        async with aclosing(iter_records(self._read_ahead, directory, self._limits.members)) as raw_records:
            async for raw in raw_records:
                if not raw.encrypted or raw.is_dir:
                    continue
                record = parse_record(raw, directory.shift)
                self.encrypted = True
                if not self._password:
                    raise WrongArchivePassword
                if not find_refusal(record):
                    await self._check_password(record)
                    break

    async def _check_password(self, record: DirectoryRecord) -> None:
        try:
            reader = await self._open_member(record)
            size = min(record.size, PASSWORD_CHECK_SIZE)
            crc = get_crc(record) if size == record.size else None
            async with aclosing(read_verified(reader, size, crc, Budget.make_unlimited())) as blocks:
                async for _ in blocks:
                    pass
        except BrokenArchive:
            if record.method != AES_METHOD:  # AES has verified the password before
                raise WrongArchivePassword from None

    async def _iter_entries(self) -> AsyncGenerator[tuple[Member, DirectoryRecord], None]:
        validator = EntryValidator(self._limits)
        overlaps = _OverlapDetector()
        async with aclosing(iter_records(self._read_ahead, self._directory, self._limits.members)) as raw_records:
            async for raw in raw_records:
                record = parse_record(raw, self._directory.shift)
                name = decode_record_name(record, self._encoding)
                refused = find_refusal(record) or overlaps.check(record)
                is_dir = name.endswith("/")
                member = validator.validate(name, record.size, record.packed, record.modified, is_dir, refused)
                if member is not None:
                    yield member, record

    async def iter_members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._iter_entries()) as entries:
            async for member, _ in entries:
                yield member

    async def iter_contents(self, is_wanted: MemberFilter) -> MemberStreams:
        budget = Budget(self._limits, self._read_ahead.size)
        index = -1
        async with aclosing(self._iter_entries()) as entries:
            async for member, record in entries:
                index += 1
                if member.is_dir or member.refused or not is_wanted(index, member):
                    continue
                async with aclosing(self._read_member(record, budget)) as stream:
                    yield index, member, stream

    async def _read_member(self, record: DirectoryRecord, budget: Budget) -> AsyncGenerator[bytes, None]:
        reader = await self._open_member(record)
        error_class = WrongArchivePassword if record.encrypted and record.method != AES_METHOD else BrokenArchive
        exclusive = get_method(record) not in (STORED, LZMA)  # those two do not mark their own end
        crc = get_crc(record)
        async with aclosing(read_verified(reader, record.size, crc, budget, error_class, exclusive)) as blocks:
            async for block in blocks:
                yield block

    async def _open_member(self, record: DirectoryRecord) -> Reader:
        """Yield the unpacked bytes of a member. Raise WrongArchivePassword."""
        local_reader = RecordReader(RangeReader(self._data, record.offset, self._directory.start))
        local = _LOCAL.unpack(await local_reader.read_exactly(_LOCAL.size))
        name = await local_reader.read_exactly(local[9])
        if local[0] != b"PK\3\4" or name != record.name:
            raise BrokenArchive("a file in the archive is not where the directory says")
        start = record.offset + _LOCAL.size + local[9] + local[10]
        if start + record.packed > self._directory.start:
            raise BrokenArchive("a file in the archive is cut short")
        reader: Reader = RangeReader(self._data, start, start + record.packed)
        if record.encrypted:
            reader = await _decrypt(record, reader, self._password)
        method = get_method(record)
        if method == LZMA:
            return await _open_lzma(reader)
        return reader if method == STORED else DecompressReader(reader, METHODS[method])


async def _decrypt(record: DirectoryRecord, reader: Reader, password: str) -> Reader:
    if not password:
        raise WrongArchivePassword
    if record.method == AES_METHOD:
        strength = find_extra_field(record.extra, AES_FIELD)[4]
        return await open_winzip_aes(reader, password.encode(), strength, record.packed)
    check = record.dos_time >> 8 if record.flags & 8 else record.crc >> 24
    return await open_zipcrypto(reader, password.encode(), check)


async def _open_lzma(reader: Reader) -> Reader:
    records = RecordReader(reader)
    head = await records.read_exactly(4)
    properties = await records.read_exactly(int.from_bytes(head[2:], "little"))
    return DecompressReader(records, lambda: codecs.make_lzma1(properties))


def find_refusal(record: DirectoryRecord) -> str:
    """Return the reason why a member is never unpacked, whatever its name; `""` if it may be."""
    mode = record.external >> 16 if record.system in UNIX_SYSTEMS else 0
    if stat.S_ISLNK(mode):
        return "it is a symbolic link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is a device"
    if record.flags & 0x2040:
        return UNKNOWN_ENCRYPTION
    if record.flags & 0x20 or get_method(record) not in (STORED, LZMA, *METHODS):
        return UNKNOWN_METHOD
    if record.encrypted and record.method == AES_METHOD:
        strength = find_extra_field(record.extra, AES_FIELD)[4:5]
        return "" if strength in (b"\1", b"\2", b"\3") else UNKNOWN_ENCRYPTION
    return ""


class _OverlapDetector:
    """A detector of members that share bytes: in a bomb thousands of them name the same ones."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def check(self, record: DirectoryRecord) -> str:
        """Return the reason why a member is refused; `""` if it shares no bytes."""
        start, stop = record.offset, record.offset + _LOCAL.size + len(record.name) + record.packed
        index = bisect_left(self._starts, start)
        overlaps_previous = index and self._stops[index - 1] > start
        overlaps_next = index < len(self._starts) and self._starts[index] < stop
        if overlaps_previous or overlaps_next:
            return "it shares its bytes with another entry"
        self._starts.insert(index, start)
        self._stops.insert(index, stop)
        return ""
