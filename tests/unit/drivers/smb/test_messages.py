"""Requests and answers as bytes."""

from __future__ import annotations

import struct

import pytest

from mangrove.drivers.smb import messages
from mangrove.drivers.smb.files import make_entries, make_entry
from mangrove.drivers.smb.messages import MOUNT_POINT, SYMLINK, FileStatus


def pack_entries(*entries: tuple[bytes, int, int, int]) -> bytes:
    """Name, attributes, size and tag of each."""
    page = b""
    for number, (name, attributes, size, tag) in enumerate(entries, 1):
        fixed = struct.pack("<6qIIII4xQ"[:-1], 1, 2, 3, 4, size, 0, attributes, len(name), tag, 0)
        record = fixed[:60] + struct.pack("<4xQ", number) + name
        record += bytes(-(len(record) + 8) % 8)
        following = 0 if number == len(entries) else len(record) + 8
        page += struct.pack("<II", following, 0) + record
    return page


def test_a_page_is_taken_in_batches() -> None:
    names = [".", "..", "a", "日本 🌳", "b"]
    page = pack_entries(*((name.encode("utf-16-le"), 0x80, 7, 0) for name in names))
    first, at = messages.parse_entries(page, 0, 2)
    rest, end = messages.parse_entries(page, at, 2)
    assert [name for name, _ in first + rest] == ["a", "日本 🌳", "b"]
    assert end == -1
    assert first[0][1] == FileStatus(1, 3, 4, 7, 0x80, 3, 0)


def test_a_name_that_is_no_text_is_left_out() -> None:
    page = pack_entries((b"\x00\xd8", 0x80, 1, 0), ("ok".encode("utf-16-le"), 0x80, 1, 0))
    assert [name for name, _ in messages.parse_entries(page, 0, 9)[0]] == ["ok"]


def test_a_page_that_is_torn_is_an_error() -> None:
    page = pack_entries(("name".encode("utf-16-le"), 0x80, 1, 0))
    with pytest.raises(struct.error):
        messages.parse_entries(page[:50], 0, 9)


def test_links_and_unfinished_files_are_not_shown() -> None:
    files = [
        ("folder", FileStatus(0, 0, 0, 0, 0x10)),
        ("junction", FileStatus(0, 0, 0, 0, 0x410, 0, MOUNT_POINT)),
        ("symlink", FileStatus(0, 0, 0, 0, 0x400, 0, SYMLINK)),
        ("deduplicated", FileStatus(0, 0, 0, 5, 0x400, 0, 0x80000013)),
        (".mangrove-1.part", FileStatus(0, 0, 0, 5, 0x80)),
    ]
    assert [entry.name for entry in make_entries(files)] == ["folder", "deduplicated"]


def test_times_are_seconds_since_the_epoch() -> None:
    assert messages.to_seconds(0) == 0.0
    assert messages.to_seconds(messages.from_seconds(1.7e9 + 0.25)) == 1.7e9 + 0.25
    assert messages.from_seconds(-1e18) == 1
    assert make_entry("f", FileStatus(0, 0, 0, 3, 0)).modified == 0.0


def test_an_answer_to_an_opening_has_handle_and_number() -> None:
    context = struct.pack("<IHHHHI4s4xQ24x", 0, 16, 4, 0, 24, 32, b"QFid", 77)
    other = struct.pack("<IHHHHI4s4x8x", 32, 16, 4, 0, 24, 8, b"MxAc")
    fixed = struct.pack(
        "<HBBI6qII16sII", 89, 0, 0, 1, 1, 2, 3, 4, 5, 6, 0x80, 0, b"h" * 16, 64 + 88, len(other + context)
    )
    assert messages.parse_created(fixed + other + context) == (b"h" * 16, FileStatus(1, 3, 4, 6, 0x80, 77))
    bare = fixed[:-8] + bytes(8)
    assert messages.parse_created(bare)[1].number == 0


def test_a_request_costs_what_it_moves() -> None:
    assert messages.read(b"h" * 16, 0, 1 << 20).payload == 1 << 20
    assert messages.write(b"h" * 16, 0, b"x" * 70_000).payload == 70_000
    assert messages.close(b"h" * 16).payload == 1
    assert len(messages.create("", 1)) % 8 == 0  # the context behind the name begins where it may
