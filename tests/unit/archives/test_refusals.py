"""Attack 35: what an archive must not be let do. Each entry is refused by itself, and the others still work."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import py7zr
import pytest

from mangrove.core.paths import MAX_PATH_DEPTH
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive, Problem, WrongArchivePassword
from tests.unit.archives.packing import FILES, Found, list_members, read, tarred, zipped

EVIL = {
    "../up": "leads out",
    "a/../../up": "leads out",
    "..": "leads out",
    "a/..": "leads out",
    "/etc/passwd": "absolute",
    "//host/share": "absolute",
    "C:/x": "drive",
    "c:x": "drive",
    "a\\b": "backslash",
    "a\\..\\..\\up": "backslash",
    "\\\\host\\x": "backslash",
    "a\nb": "control",
    "\x1b[2Jx": "control",
    "a\x7fb": "control",
    "/".join("d" * (MAX_PATH_DEPTH + 1)): "too deep",
    "n" * 256: "too long",
    "ü" * 128: "too long",
    "dir/" * 1100 + "x": "too long",
}


def make_raw_zip(names: dict[str, bytes]) -> bytes:
    """A zip with names just as they are: the library would clean them."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in names.items():
            info = zipfile.ZipInfo("x")
            info.filename = name
            archive.writestr(info, data)
    return content.getvalue()


def assert_only_middle_refused(result: Found, bad: str, why: str) -> None:
    """Only the middle one of three entries is refused, for that reason."""
    assert [bool(member.refused) for member in result.members] == [False, True, False], result.members
    assert why in result.members[1].refused
    assert result.files == {"before": b"1", "after": b"3"}
    assert not set(result.members[1].path) & {"\0", "\n", "\x1b", "\x7f"}


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, kind: str) -> None:
    files = {"before": b"1", name: b"2", "after": b"3"}
    content = make_raw_zip(files) if kind == "zip" else tarred(files)
    assert_only_middle_refused(read(f"x.{kind}", content), name, EVIL[name])


@pytest.mark.parametrize("name", ["../up", "a\\b", "c:x", "n" * 256])
def test_such_a_name_is_refused_in_a_7z_too(name: str) -> None:
    files = {"before": b"1", "b" * len(name): b"2", "after": b"3"}
    content = io.BytesIO()
    with py7zr.SevenZipFile(content, "w") as archive:
        archive.set_encoded_header_mode(False)
        for info, data in files.items():
            archive.writestr(data, info)
    whole = bytearray(content.getvalue())
    at = whole.index(("b" * len(name)).encode("utf-16-le"))
    whole[at : at + 2 * len(name)] = name.encode("utf-16-le")
    offset, size = struct.unpack_from("<QQ", whole, 12)
    struct.pack_into("<L", whole, 28, zlib.crc32(whole[32 + offset : 32 + offset + size]))
    struct.pack_into("<L", whole, 8, zlib.crc32(whole[12:32]))
    assert_only_middle_refused(read("x.7z", bytes(whole)), name, EVIL[name])


def test_a_nul_in_a_name_is_refused() -> None:
    content = make_raw_zip({"before": b"1", "bad_txt": b"2", "after": b"3"}).replace(b"bad_txt", b"bad\0txt")
    assert_only_middle_refused(read("x.zip", content), "bad\0txt", "control")


def test_text_that_is_no_text_is_shown_but_not_kept() -> None:
    content = zipped({"nn.txt": b"x"}).replace(b"nn.txt", b"\xff\xfe.txt")
    assert read("x.zip", content, encoding="UTF-8").files == {"\N{REPLACEMENT CHARACTER}" * 2 + ".txt": b"x"}


KINDS = {
    "link": (tarfile.SYMTYPE, "symbolic link"), "hard link": (tarfile.LNKTYPE, "hard link"),
    "char": (tarfile.CHRTYPE, "device"), "block": (tarfile.BLKTYPE, "device"), "fifo": (tarfile.FIFOTYPE, "fifo"),
    "sparse": (b"S", "sparse"), "unknown": (b"Z", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_neither_file_nor_folder_in_a_tar_is_refused(kind: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in ("before", "bad", "after"):
            info = tarfile.TarInfo(name)
            data = {"before": b"1", "bad": b"", "after": b"3"}[name]
            info.size = len(data)
            if name == "bad":
                info.type, info.linkname = KINDS[kind][0], "/etc/passwd"
            archive.addfile(info, io.BytesIO(data))
    assert_only_middle_refused(read("x.tar", content.getvalue()), "bad", KINDS[kind][1])


@pytest.mark.parametrize(("mode", "why"), [(stat.S_IFLNK, "symbolic link"), (stat.S_IFCHR, "device"),
                                           (stat.S_IFIFO, "device"), (stat.S_IFSOCK, "device")])  # fmt: skip
def test_what_is_neither_file_nor_folder_in_a_zip_is_refused(mode: int, why: str) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("before", b"1")
        info = zipfile.ZipInfo("bad")
        info.create_system, info.external_attr = 3, (mode | 0o777) << 16
        archive.writestr(info, b"/etc/passwd")
        archive.writestr("after", b"3")
    assert_only_middle_refused(read("x.zip", content.getvalue()), "bad", why)


def test_a_link_in_a_7z_is_refused(tmp_path: Any) -> None:
    for name, data in (("before", "1"), ("later", "3")):
        (tmp_path / name).write_text(data)
    os.symlink("/etc/passwd", tmp_path / "bad")
    content = io.BytesIO()
    with py7zr.SevenZipFile(content, "w") as archive:
        for name in ("before", "bad", "later"):
            archive.write(tmp_path / name, name)
    result = read("x.7z", content.getvalue())
    assert result.refused == {"bad": "it is a symbolic link"}
    assert result.files == {"before": b"1", "later": b"3"}


def test_of_entries_with_the_same_path_only_the_first_is_unpacked() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name, data in (("a", b"1"), ("./a", b"2"), ("a", b"3"), ("d/f", b"4"), ("d", b"5"), ("a/x", b"6"),
                               ("d/", b""), ("d/f/g/h", b"7"), ("a/", b"")):  # fmt: skip
                archive.writestr(name, data)
    result = read("x.zip", content.getvalue())
    assert result.files == {"a": b"1", "d/f": b"4"}
    assert result.paths == ["a", "d/f", "d"]
    assert [member.refused for member in result.members if member.path in ("a/x", "d/f/g/h")] == [
        "an earlier file has the path of its folder"
    ] * 2


def test_an_archive_of_too_many_entries_is_refused_as_soon_as_it_is_seen() -> None:
    many = {str(number): b"" for number in range(60)}
    for name, content in (("x.zip", zipped(many)), ("x.tar", tarred(many)), ("x.tgz", tarred(many, "w:gz"))):
        assert len(read(name, content, members=60).files) == 60
        with pytest.raises(ArchiveTooLarge, match="more than 59 entries"):
            read(name, content, members=59)
    with pytest.raises(ArchiveTooLarge):
        read("x.7z", make_7z(many), members=59)


def test_folders_that_are_only_in_paths_count_too() -> None:
    deep = {f"{number}/" + "d/" * 100 + "f": b"" for number in range(50)}
    with pytest.raises(ArchiveTooLarge):
        read("x.zip", zipped(deep), members=60)


def make_7z(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with py7zr.SevenZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(data, name)
    return content.getvalue()


def test_member_over_limits_is_refused_and_others_are_not() -> None:
    files = {"small": b"s", "zeros": bytes(20_000_000), "noise": os.urandom(2_000_000)}
    result = read("x.zip", zipped(files), ratio=500)
    assert result.refused == {"zeros": "it unpacks to more than 500 times its size"}
    assert set(result.files) == {"small", "noise"}
    result = read("x.zip", zipped(files), size=5_000_000, ratio=0)
    assert result.refused == {"zeros": "it is too large"}
    assert set(result.files) == {"small", "noise"}
    assert read("x.zip", zipped(files), size=0, ratio=0).files == files


@pytest.mark.parametrize("name", ["x.tgz", "x.gz", "x.7z"])
def test_a_bomb_whose_size_only_shows_while_unpacking_is_cut_off(name: str) -> None:
    zeros = bytes(30_000_000)
    content = {"x.tgz": lambda: tarred({"zeros": zeros}, "w:gz"), "x.gz": lambda: gzip.compress(zeros),
               "x.7z": lambda: make_7z({"zeros": zeros})}[name]()  # fmt: skip
    for limits in ({"ratio": 100}, {"size": 10_000_000, "ratio": 0}):
        try:
            result = read(name, content, **limits)
        except ArchiveTooLarge:
            continue
        assert not result.files
        assert result.refused or all(isinstance(error, ArchiveTooLarge) for error in result.failed.values())
    assert sum(map(len, read(name, content, ratio=0).files.values())) == 30_000_000


def test_all_files_together_do_not_unpack_to_more_than_the_limit() -> None:
    result = read("x.zip", zipped({str(number): os.urandom(1_000_000) for number in range(8)}), size=5_000_000)
    assert len(result.files) == 5
    assert len(result.failed) == 3
    assert all(isinstance(error, ArchiveTooLarge) for error in result.failed.values())


def overlapping(count: int, kernel: int = 1 << 20) -> bytes:
    """Fifield's bomb: all directory entries name the same packed bytes."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(bytes(kernel)) + body.flush()
    crc = zlib.crc32(bytes(kernel))
    local = struct.pack("<4sHHHHHLLLHH", b"PK\3\4", 20, 0, 8, 0, 33, crc, len(packed), kernel, 1, 0) + b"k" + packed
    entry = struct.pack(
        "<4sBBHHHHHLLLHHHHHLL", b"PK\1\2", 20, 0, 20, 0, 8, 0, 33, crc, len(packed), kernel, 1, 0, 0, 0, 0, 0, 0
    )
    directory = (entry + b"k") * count
    end = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, count, count, len(directory), len(local), 0)
    return local + directory + end


def test_entries_that_share_their_bytes_are_refused_but_the_first() -> None:
    result = read("x.zip", overlapping(1000))
    assert result.files == {"k": bytes(1 << 20)}
    assert len(result.refused) == 1
    assert [bool(member.refused) for member in result.members] == [False] + [True] * 999
    assert result.members[1].refused == "it shares its bytes with another entry"


def test_archives_in_archives_are_files() -> None:
    inner = zipped({"zeros": bytes(5_000_000)})
    for _ in range(4):
        inner = zipped({str(number): inner for number in range(16)})
    result = read("42.zip", inner)
    assert len(result.files) == 16
    assert sum(map(len, result.files.values())) < 10 * len(inner) * 16


def test_a_dictionary_larger_than_memory_is_refused() -> None:
    content = bytearray(make_plain_7z({"n": b"x" * 1000}))
    at = content.index(b"\x21\x21\x01")  # one property of LZMA2 in the header
    content[at + 3] = 39
    offset, size = struct.unpack_from("<QQ", content, 12)
    struct.pack_into("<L", content, 28, zlib.crc32(content[32 + offset : 32 + offset + size]))
    struct.pack_into("<L", content, 8, zlib.crc32(content[12:32]))
    result = read("x.7z", bytes(content))
    assert "256 MiB of memory" in str(result.failed["n"])


def make_plain_7z(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with py7zr.SevenZipFile(content, "w") as archive:
        archive.set_encoded_header_mode(False)
        for name, data in files.items():
            archive.writestr(data, name)
    return content.getvalue()


MAKERS: dict[str, Callable[[], bytes]] = {
    "x.zip": lambda: zipped(FILES), "x.7z": lambda: make_7z(FILES), "x.tar": lambda: tarred(FILES),
    "x.tgz": lambda: tarred(FILES, "w:gz"), "x.tar.xz": lambda: tarred(FILES, "w:xz"),
    "x.tbz2": lambda: tarred(FILES, "w:bz2"), "x.gz": lambda: gzip.compress(FILES["big.bin"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_a_cut_off_archive_gives_right_bytes_or_a_problem_never_wrong_ones(name: str) -> None:
    content = MAKERS[name]()
    whole = read(name, content).files
    for part in (0, 1, 5, 22, 31, 100, 513, len(content) // 2, len(content) - 30, len(content) - 1):
        try:
            result = read(name, content[:part])
        except BrokenArchive as problem:
            assert problem.message
            continue
        assert name in ("x.tar", "x.tgz", "x.tar.xz", "x.tbz2", "x.gz"), (name, part)
        assert all(isinstance(error, BrokenArchive) for error in result.failed.values())
        assert result.files.items() <= whole.items() or name == "x.gz"


@pytest.mark.parametrize("name", MAKERS)
def test_a_damaged_archive_gives_problems_and_nothing_else(name: str) -> None:
    content = MAKERS[name]()
    whole = read(name, content).files
    for seed in range(60):
        damaged = bytearray(content)
        offset = (seed * 7919 + 13) * 104729 % len(content) if seed % 2 else len(content) - 1 - seed * 3
        damaged[offset] ^= 1 + seed * 37 % 255
        try:
            result = read(name, bytes(damaged))
        except Problem:
            continue
        assert all(isinstance(error, Problem) for error in result.failed.values()), result.failed
        if name != "x.tar":  # which has no checksum of its data
            assert all(data in whole.values() for data in result.files.values()), seed


@pytest.mark.parametrize("name", ["x.zip", "x.7z", "x.tar", "x.tgz", "x.gz", "x.bz2", "x.xz", "x.zst", "x.txz"])
def test_what_is_no_archive_is_said_to_be_none(name: str) -> None:
    for content in (b"", b"\0", b"PK", b"hello " * 1000, os.urandom(4096), bytes(range(256)) * 20):
        with pytest.raises((BrokenArchive, WrongArchivePassword)):
            result = read(name, content)
            assert result.failed
            raise next(iter(result.failed.values()))


def test_a_file_longer_than_announced_is_not_let_through() -> None:
    content = bytearray(zipped({"n": b"x" * 1000}))
    for offset in (22, content.index(b"PK\1\2") + 24):
        content[offset : offset + 4] = (500).to_bytes(4, "little")
    result = read("x.zip", bytes(content))
    assert isinstance(result.failed["n"], BrokenArchive)


def test_a_local_header_with_another_name_is_not_believed() -> None:
    content = zipped({"name-1": b"x"})
    result = read("x.zip", content.replace(b"name-1", b"name-2", 1))
    assert isinstance(result.failed["name-1"], BrokenArchive)


def test_a_changed_byte_under_aes_is_noticed_although_no_checksum_is_kept() -> None:
    from tests.unit.archives.test_formats import locked

    content = bytearray(locked())
    content[content.index(b"big.bin") + 60] ^= 1
    result = read("x.zip", bytes(content), "sesame")
    assert isinstance(result.failed["big.bin"], BrokenArchive)
    assert set(result.files) == set(FILES) - {"big.bin"}


def test_a_sparse_file_does_not_bring_the_headers_behind_it_out_of_step() -> None:
    header = tarfile.TarInfo("s")
    header.type, header.size = b"S", 512
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:512]) + 256)
    content = bytes(block) + bytes(512) + b"d" * 512 + tarred({"after": b"3"})
    result = read("x.tar", content)
    assert result.refused == {"s": "it is a sparse file"}
    assert result.files == {"after": b"3"}


def test_numbers_in_headers_that_no_file_can_have_are_problems() -> None:
    info = tarfile.TarInfo("n")
    info.size = 1 << 60
    for content in (
        info.tobuf(tarfile.GNU_FORMAT),
        info.tobuf(tarfile.PAX_FORMAT),
        info.tobuf().replace(b"0000", b"-001"),
    ):
        try:
            result = read("x.tar", content + bytes(2048), size=0)
        except BrokenArchive:
            continue
        assert result.failed


def test_listing_only_says_what_is_refused() -> None:
    members = list_members("x.zip", make_raw_zip({"../up": b"", "fine": b"1"}))
    assert [(member.path, bool(member.refused)) for member in members] == [("../up", True), ("fine", False)]
