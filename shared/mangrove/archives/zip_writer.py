"""The records of a ZIP file that stores files as they are, made while the file is streamed (APPNOTE 6.3, Zip64).

The length of the whole is known before the first byte if all sizes are known. A text replaces a file that cannot be
read, and is never longer than what was measured for the file.
"""

from __future__ import annotations

import struct
import time
import zlib
from dataclasses import dataclass

UTF8, DESCRIPTOR = 0x800, 0x8  # flags
MADE_BY_UNIX = 3 << 8
ZIP64_VERSION, PLAIN_VERSION = 45, 20
MAX_SMALL_NUMBER = 0xFFFFFFFF  # of 32 bits; it says that the Zip64 field has the number
MAX_SMALL_COUNT = 0xFFFF
FILE_MODE, FOLDER_MODE = 0o100644 << 16, (0o040755 << 16) | 0x10
ZIP64_FIELD, TIME_FIELD, PADDING_FIELD = 1, 0x5455, 0xD935  # ids of extra fields
EXTRA_HEAD_BYTES, TIME_BYTES, ZIP64_HEADER_BYTES = 4, 9, 20  # lengths of extra fields
MIN_ENTRY_BYTES = 64  # of content and padding, so that the text of an error fits in the place of any file
EARLIEST, LATEST = 315532800, 4354819199  # the years 1980 to 2107, which DOS times have
ERROR_SUFFIX = b".error.txt"
LOCAL, DIRECTORY, END = struct.Struct("<IHHHHHIIIHH"), struct.Struct("<IHHHHHHIIIHHHHHII"), struct.Struct("<IHHHHIIH")
TIME = struct.Struct("<HHBI")
END64, LOCATOR64 = struct.Struct("<IQHHIIQQQQ"), struct.Struct("<IIQI")


def encode_name(path: str, is_dir: bool) -> bytes:
    """Return the name of an entry: UTF-8, and a slash at the end of a folder. No part of it leads out of a folder."""
    name = path.replace("\\", "_").strip("/").encode(errors="replace")
    return name + b"/" if is_dir else name


@dataclass(slots=True)
class ZipEntry:
    """A file or folder of the archive."""

    name: bytes
    modified: float
    """Seconds since the epoch; 0.0 if unknown."""
    size: int | None
    """Bytes; None until the end of a file of unknown size."""
    crc: int | None = 0
    """None until the end of a file whose checksum follows its content."""
    offset: int = 0
    """Bytes before its header."""
    is_error: bool = False
    """It has the text that stands for a file. Its headers have no optional field."""
    is_large: bool = False
    """Its header has room for a size of 64 bits."""
    _times: tuple[int, int, bytes] | None = None

    def __post_init__(self) -> None:
        self.is_large = self.size is None or self.size >= MAX_SMALL_NUMBER

    @property
    def flags(self) -> int:
        return UTF8 | (DESCRIPTOR if self.crc is None else 0)

    def format_header(self) -> bytes:
        """Return the header before the content."""
        dos_time, dos_date, extra = self._format_times()
        version, size = PLAIN_VERSION, self.size or 0
        if not self.is_error and size < MIN_ENTRY_BYTES:
            extra += self._format_padding()
        if self.is_large:
            extra += struct.pack("<HHQQ", ZIP64_FIELD, 16, size, size)
            version, size = ZIP64_VERSION, MAX_SMALL_NUMBER
        name = self.name
        head = LOCAL.pack(
            0x04034B50, version, self.flags, 0, dos_time, dos_date, self.crc or 0, size, size, len(name), len(extra)
        )
        return head + name + extra

    def measure_header(self) -> int:
        """Return the length of `format_header`, without its work."""
        length = LOCAL.size + len(self.name) + (ZIP64_HEADER_BYTES if self.is_large else 0)
        if self.is_error:
            return length
        return length + TIME_BYTES + (len(self._format_padding()) if (self.size or 0) < MIN_ENTRY_BYTES else 0)

    def measure_directory_record(self) -> int:
        """Return the length of `format_directory_record`, without its work."""
        size = self.size or 0
        count = 2 * (size >= MAX_SMALL_NUMBER) + (self.offset >= MAX_SMALL_NUMBER)
        length = DIRECTORY.size + len(self.name) + (0 if self.is_error else TIME_BYTES)
        return length + (EXTRA_HEAD_BYTES + 8 * count if count else 0)

    def format_descriptor(self, crc: int, size: int) -> bytes:
        """Return the record after a content whose checksum was not known before it."""
        return struct.pack("<IIQQ" if self.is_large else "<IIII", 0x08074B50, crc, size, size)

    def format_directory_record(self, flags: int) -> bytes:
        """Return the record in the directory of the archive. `flags`: those of the header."""
        size, is_dir = self.size or 0, self.name.endswith(b"/")
        dos_time, dos_date, extra = self._format_times()
        version, offset, name = ZIP64_VERSION if self.is_large else PLAIN_VERSION, self.offset, self.name
        if size >= MAX_SMALL_NUMBER or offset >= MAX_SMALL_NUMBER:
            large_numbers = [number for number in (size, size, offset) if number >= MAX_SMALL_NUMBER]
            extra += struct.pack(f"<HH{len(large_numbers)}Q", ZIP64_FIELD, 8 * len(large_numbers), *large_numbers)
            version, size, offset = ZIP64_VERSION, min(size, MAX_SMALL_NUMBER), min(offset, MAX_SMALL_NUMBER)
        head = DIRECTORY.pack(
            0x02014B50, MADE_BY_UNIX | version, version, flags, 0, dos_time, dos_date, self.crc or 0, size, size,
            len(name), len(extra), 0, 0, 0, FOLDER_MODE if is_dir else FILE_MODE, offset,
        )  # fmt: skip
        return head + name + extra

    def _format_padding(self) -> bytes:
        if self.size is None or self.size >= MIN_ENTRY_BYTES or self.name.endswith(b"/"):
            return b""
        return struct.pack("<HHH", PADDING_FIELD, 2 + MIN_ENTRY_BYTES, 1) + bytes(MIN_ENTRY_BYTES)

    def _format_times(self) -> tuple[int, int, bytes]:
        """Return the time and the date as DOS has them, and the field of both headers with the time in seconds."""
        if self._times is not None:
            return self._times
        at = time.gmtime(min(max(self.modified, EARLIEST), LATEST))
        date = (at.tm_year - 1980) << 9 | at.tm_mon << 5 | at.tm_mday
        modified = int(self.modified)
        field = TIME.pack(TIME_FIELD, 5, 1, modified if 0 < modified < 1 << 31 else 0)
        self._times = at.tm_hour << 11 | at.tm_min << 5 | at.tm_sec // 2, date, b"" if self.is_error else field
        return self._times


def encode_error(text: str) -> bytes:
    """Return the content of the text that stands for a file."""
    return f"{text}\n".encode(errors="replace")


def make_error_entry(name: bytes, modified: float, content: bytes) -> ZipEntry:
    """Return the entry of the text that stands for the file `name`."""
    return ZipEntry(name + ERROR_SUFFIX, modified, len(content), zlib.crc32(content), is_error=True)


def format_end(count: int, offset: int, size: int, *, is_large: bool = False) -> bytes:
    """Return the end of an archive whose directory has `count` records and `size` bytes, and begins at `offset`.

    `is_large`: have the records of Zip64 also where the numbers are small.
    """
    end = END.pack(
        0x06054B50, 0, 0, min(count, MAX_SMALL_COUNT), min(count, MAX_SMALL_COUNT), min(size, MAX_SMALL_NUMBER),
        min(offset, MAX_SMALL_NUMBER), 0,
    )  # fmt: skip
    if count < MAX_SMALL_COUNT and max(size, offset) < MAX_SMALL_NUMBER and not is_large:
        return end
    end64 = END64.pack(
        0x06064B50, END64.size - 12, MADE_BY_UNIX | ZIP64_VERSION, ZIP64_VERSION, 0, 0, count, count, size, offset
    )
    return end64 + LOCATOR64.pack(0x07064B50, 0, offset + size, 1) + end


class ZipMeter:
    """The length of an archive, measured before it is written."""

    def __init__(self) -> None:
        self.entry_bytes = 0
        """The length of the entries without the directory."""
        self._directory_bytes = 0
        self._count = 0

    def add(self, entry: ZipEntry) -> None:
        """Count an entry."""
        size, is_streamed = entry.size or 0, entry.crc is None
        entry.offset = self.entry_bytes
        self.entry_bytes += entry.measure_header() + size
        self.entry_bytes += len(entry.format_descriptor(0, 0)) if is_streamed else 0
        self._directory_bytes += entry.measure_directory_record()
        self._count += 1

    def get_length(self) -> int:
        """Return the bytes of the whole archive."""
        end = format_end(self._count, self.entry_bytes, self._directory_bytes)
        return self.entry_bytes + self._directory_bytes + len(end)


class ZipWriter:
    """The bytes of an archive, entry by entry; the directory is held until the end.

    A writer goes on in another process with the `offset` and `count` of this one, and the records taken so far.
    """

    def __init__(self, offset: int = 0, count: int = 0) -> None:
        self.offset = offset
        """Bytes that were returned."""
        self.count = count
        """Entries that were added."""
        self.directory = bytearray()
        """The records of the entries, without those that were taken."""
        self._file: ZipEntry | None = None
        self._crc = 0
        self._size = 0

    def add_folder(self, name: bytes, modified: float) -> bytes:
        """Add a folder, whose name ends in a slash."""
        return self._add(ZipEntry(name, modified, 0), b"")

    def add_file(self, name: bytes, modified: float, content: bytes) -> bytes:
        """Add a file that is in memory."""
        return self._add(ZipEntry(name, modified, len(content), zlib.crc32(content)), content)

    def add_error(self, name: bytes, modified: float, text: str, max_bytes: int | None = None) -> bytes:
        """Add the text that stands for a file, of at most `max_bytes`."""
        content = encode_error(text)[:max_bytes].decode(errors="ignore").encode()
        return self._add(make_error_entry(name, modified, content), content)

    @staticmethod
    def measure_error(name: bytes) -> int:
        """Return the bytes of an entry of `add_error` without its text."""
        return LOCAL.size + len(name) + len(ERROR_SUFFIX)

    def add_padding(self, count: int) -> bytes:
        """Add zeros that belong to no entry."""
        return self._advance(bytes(count))

    def _add(self, entry: ZipEntry, content: bytes) -> bytes:
        entry.offset = self.offset
        self._record(entry, entry.flags)
        return self._advance(entry.format_header() + content)

    def _record(self, entry: ZipEntry, flags: int) -> None:
        self.directory += entry.format_directory_record(flags)
        self.count += 1

    def _advance(self, content: bytes) -> bytes:
        self.offset += len(content)
        return content

    def begin_file(self, name: bytes, modified: float, size: int | None) -> bytes:
        """Begin a file whose content comes in blocks."""
        self._file = ZipEntry(name, modified, size, None, self.offset)
        self._crc = self._size = 0
        return self._advance(self._file.format_header())

    def resume_file(self, entry: ZipEntry, crc: int, size: int) -> None:
        """Go on with a file of which another writer has returned `size` bytes."""
        self._file, self._crc, self._size = entry, crc, size

    @property
    def checksum(self) -> int:
        """The checksum of the blocks of the present file."""
        return self._crc

    def add_block(self, block: bytes) -> bytes:
        """Add a block of the file."""
        self._crc = zlib.crc32(block, self._crc)
        self._size += len(block)
        return self._advance(block)

    def end_file(self) -> bytes:
        """End the file."""
        entry, self._file = self._file, None
        assert entry is not None
        flags = entry.flags
        entry.crc, entry.size = self._crc, self._size
        self._record(entry, flags)
        return self._advance(entry.format_descriptor(self._crc, self._size))

    def abandon_file(self) -> None:
        """Leave the file out of the directory. Its bytes stay where they are, and belong to no entry."""
        self._file = None

    def take_directory(self) -> bytes:
        """Return the records that were made since the last call. The caller keeps them for `finish`."""
        records, self.directory = bytes(self.directory), bytearray()
        return records

    def finish(self, length: int | None = None) -> list[bytes]:
        """Return the directory and the end. `length`: of the whole archive, which zeros before the directory fill."""
        offset, size = self.offset, len(self.directory)
        if length is None:
            return [bytes(self.directory), format_end(self.count, offset, size)]
        is_large = len(format_end(self.count, length - size - END.size, size)) > END.size
        begin = length - size - len(format_end(self.count, 0, 0, is_large=is_large))
        end = format_end(self.count, begin, size, is_large=is_large)
        return [bytes(begin - offset), bytes(self.directory), end]
