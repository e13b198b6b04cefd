"""The header of a 7z: its numbers, and what it costs to read one that is meant to be costly."""

from __future__ import annotations

import struct
import time
import zlib

import pytest

from mangrove.archives.seven_zip_header import HeaderReader, parse_files, parse_streams
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive
from tests.unit.archives.packing import CPU, list_members


def seven(header: bytes) -> bytes:
    """A 7z of nothing but this header."""
    start = struct.pack("<QQL", 0, len(header), zlib.crc32(header))
    return b"7z\xbc\xaf\x27\x1c\0\4" + struct.pack("<L", zlib.crc32(start)) + start + header


def number(value: int) -> bytes:
    return b"\xff" + struct.pack("<Q", value)


COPIED = b"\x01\x01\0"  # a folder with one coder that changes nothing
STREAMS = b"\x01\x04\x06\0\0\0\x07\x0b"
COSTLY_HEADERS = {
    "unpacks to itself": b"\x17\x06\0\x01\x09\x14\0\x07\x0b\x01\0" + COPIED + b"\x0c\x14\0\0",
    "says again which files are empty": b"\x01\x05" + number(100_000) + b"\x0f\0" * 20_000 + b"\0\0",
    "divides its folders again": (
        STREAMS + number(50_000) + b"\0" + COPIED * 50_000 + b"\x0c" + b"\1" * 50_000 + b"\0" + b"\x08\0" * 20_000
    ),
    "lists its files again": b"\x01" + b"\x05\0\0" * 100_000,
    "has streams without folders": b"\x01\x04\x06\0" + number(5_000_000) + b"\x09" + bytes(5_000_000) + b"\0\0\0",
    "binds all to all": (
        STREAMS + number(2000) + b"\0" + (b"\x20" + b"\x11\0\x20\x20" * 32 + b"\x80\x01" * 2046) * 2000
    ),
}


@pytest.mark.parametrize("kind", COSTLY_HEADERS)
def test_a_small_7z_header_is_not_worked_at_for_long(kind: str) -> None:
    began = time.process_time()
    with pytest.raises(BrokenArchive):
        list_members("x.7z", seven(COSTLY_HEADERS[kind]))
    assert time.process_time() - began < CPU


def test_several_dictionaries_behind_each_other_are_refused() -> None:
    twice = b"\2" + b"\x21\x21\1\x28" * 2 + b"\0\1"  # the second one takes what the first one gives
    name = "n\0".encode("utf-16-le")
    named = b"\x05\1\x11" + number(len(name) + 1) + b"\0" + name + b"\0"
    header = b"\1\4\6\0\1\x09\0\0\x07\x0b\1\0" + twice + b"\x0c\1\1\0\0" + named + b"\0"
    (member,) = list_members("x.7z", seven(header))
    assert member.refused == "it is packed by an unknown method"


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b"\x7f", 127), (b"\x80\x80", 128), (b"\xbf\xff", 0x3FFF), (b"\xc1\x02\x03", 0x10302),
     (b"\xff" + b"\1" * 8, 0x0101010101010101)],
)  # fmt: skip
def test_a_number_has_one_to_nine_bytes(raw: bytes, value: int) -> None:
    reader = HeaderReader(raw)
    assert (reader.read_number(), reader.remaining) == (value, 0)
    with pytest.raises(BrokenArchive, match="header is damaged"):
        HeaderReader(raw[:-1]).read_number()


def test_a_count_has_a_bound_and_bits_may_be_one_byte() -> None:
    assert HeaderReader(b"\5").read_count(5) == 5
    with pytest.raises(BrokenArchive):
        HeaderReader(b"\6").read_count(5)
    assert HeaderReader(b"\xa0").read_bits(3) == [True, False, True]
    assert HeaderReader(b"\1").read_optional_bits(3) == [True] * 3
    assert HeaderReader(b"\0\x40").read_optional_bits(2) == [False, True]
    assert HeaderReader(b"\0\x40\1\0\0\0").read_digests(2) == [None, 1]


def test_a_property_that_comes_twice_is_damage_but_padding_is_not() -> None:
    assert list(HeaderReader(b"\x19\x05\x19\0").iter_properties()) == [0x19, 0x05, 0x19]
    with pytest.raises(BrokenArchive):
        list(HeaderReader(b"\x05\x05\0").iter_properties())


FOLDER = b"\x06\x0a\1\x09\x07\0" + b"\x07\x0b\1\0" + COPIED + b"\x0c\x07\0"  # 7 bytes at 10, copied


def test_a_folder_says_where_its_bytes_are_and_how_its_files_divide_them() -> None:
    (folder,) = parse_streams(HeaderReader(FOLDER + b"\0"), 0)
    assert (folder.start, folder.packed, folder.size, folder.chain) == (42, 7, 7, [0])
    assert folder.parts == [(7, None)]
    substreams = b"\x08\x0d\2\x09\3\x0a\1" + struct.pack("<LL", 1, 2) + b"\0"
    (folder,) = parse_streams(HeaderReader(FOLDER + substreams + b"\0"), 0)
    assert folder.parts == [(3, 1), (4, 2)]
    with pytest.raises(ArchiveTooLarge, match="more than 1 entries"):
        parse_streams(HeaderReader(FOLDER + substreams + b"\0"), 1)
    with pytest.raises(BrokenArchive):
        parse_streams(HeaderReader(FOLDER + substreams.replace(b"\x09\3", b"\x09\x08") + b"\0"), 0)


def test_files_without_bytes_are_folders_unless_named_empty_files() -> None:
    names = "f\0d\0e\0".encode("utf-16-le")
    raw = b"\3\x11" + bytes([len(names) + 1]) + b"\0" + names + b"\x0e\1\x60" + b"\x0f\1\x40" + b"\0"
    folders = parse_streams(HeaderReader(FOLDER + b"\0"), 0)
    files = parse_files(HeaderReader(raw), folders, 0)
    assert [(file.name, file.size, file.is_dir, file.folder) for file in files] == [
        ("f", 7, False, 0), ("d", 0, True, -1), ("e", 0, False, -1),
    ]  # fmt: skip
    with pytest.raises(BrokenArchive):
        parse_files(HeaderReader(raw), [], 0)
    with pytest.raises(ArchiveTooLarge, match="more than 2 entries"):
        parse_files(HeaderReader(raw), folders, 2)
