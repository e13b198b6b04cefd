"""The directory of a zip archive, read by itself."""

from __future__ import annotations

import asyncio
import struct
import zlib

import pytest

from mangrove.archives.readers import ReadAhead
from mangrove.archives.zip_directory import (
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
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive
from tests.unit.archives.packing import Held, zipped

CONTENT = zipped({"a": b"1", "d/": b""}, comment=b"PK\5\6 in a comment")


def record(name: bytes = b"n", flags: int = 0, method: int = 8, extra: bytes = b"") -> DirectoryRecord:
    return DirectoryRecord(name, 3, flags, method, 0.0, 7, 1, 1, 0, 0, 0, extra)


def field(number: int, content: bytes) -> bytes:
    return struct.pack("<HH", number, len(content)) + content


async def read(content: bytes, max_entries: int = 0) -> tuple[Directory, list[DirectoryRecord]]:
    ahead = ReadAhead(Held(content))
    directory = await find_directory(ahead)
    return directory, [parse_record(raw, directory.shift) async for raw in iter_records(ahead, directory, max_entries)]


def test_the_directory_is_found_behind_a_comment_and_other_bytes_in_front() -> None:
    directory, records = asyncio.run(read(CONTENT))
    assert (directory.comment, directory.shift) == (b"PK\5\6 in a comment", 0)
    assert [(record.name, record.offset) for record in records] == [(b"a", 0), (b"d/", 34)]
    directory, records = asyncio.run(read(b"x" * 1000 + CONTENT))
    assert directory.shift == 1000
    assert [record.offset for record in records] == [1000, 1034]


def test_more_entries_than_allowed_end_the_reading() -> None:
    assert len(asyncio.run(read(CONTENT, 2))[1]) == 2
    with pytest.raises(ArchiveTooLarge, match="more than 1 entries"):
        asyncio.run(read(CONTENT, 1))


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [(4, 1, "several volumes"), (6, 1, "several volumes"), (16, 1 << 20, "damaged"), (12, 1 << 20, "damaged")],
)
def test_an_end_record_that_cannot_be_is_told(offset: int, value: int, message: str) -> None:
    content = bytearray(zipped({"a": b"1"}))
    struct.pack_into("<L" if offset > 9 else "<H", content, len(content) - 22 + offset, value)
    with pytest.raises(BrokenArchive, match=message):
        asyncio.run(read(bytes(content)))


def test_extra_fields_are_found_by_their_id_and_not_without_end() -> None:
    extra = field(5, b"five") + field(1, b"one")
    assert find_extra_field(extra, 1) == b"one"
    assert find_extra_field(extra, 2) == b""
    assert find_extra_field(field(5, b"") * 200 + field(1, b"late"), 1) == b""
    assert find_extra_field(b"\1\0\xff", 1) == b""


def test_a_name_is_utf_8_by_its_flag_or_by_the_field_that_fits_it() -> None:
    assert decode_record_name(record("ä".encode(), flags=0x800), "GB18030") == "ä"
    path = field(0x7075, b"\1" + struct.pack("<L", zlib.crc32(b"n")) + "ä".encode())
    assert decode_record_name(record(b"n", extra=path), "IBM437") == "ä"
    assert decode_record_name(record(b"m", extra=path), "IBM437") == "m", "the field is of another name"


def test_under_aes_the_field_has_the_method_and_version_2_has_no_checksum() -> None:
    assert (get_method(record()), get_crc(record())) == (8, 7)
    for version, crc in ((1, 7), (2, None)):
        aes = record(method=99, extra=field(0x9901, struct.pack("<H2sBH", version, b"AE", 3, 12)))
        assert (get_method(aes), get_crc(aes)) == (12, crc)
    assert get_method(record(method=99)) == 0xFFFF
