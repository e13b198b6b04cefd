"""Every format, made by the tools that people use, read whole and byte by byte the same."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import py7zr
import pytest
import pyzipper
from py7zr.compressor import AESCompressor

from mangrove import archives
from mangrove.core.problems import BrokenArchive, WrongArchivePassword
from tests.unit.archives.packing import FILES, Held, StandardZipCrypto, list_members, read, tarred, zipped

ZSTD = shutil.which("zstd")
SEVEN = shutil.which("7z") or shutil.which("7zz")
NEEDS_ZSTD = pytest.mark.skipif(ZSTD is None, reason="needs the program zstd")
NEEDS_SEVEN = pytest.mark.skipif(SEVEN is None, reason="needs the program 7z")
NEEDS_ZIP = pytest.mark.skipif(shutil.which("zip") is None, reason="needs the program zip")


def by_zstd(content: bytes, *options: str) -> bytes:
    return subprocess.run([str(ZSTD), "-q", "-c", *options], input=content, capture_output=True, check=True).stdout


def write_files(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def seven(password: str = "", headers: bool = False, filters: Any = None, power: int = 6) -> bytes:
    """Pack the files. The key of `password` takes 2^power rounds; 7-Zip makes 2^19, a third of a second of CPU."""
    content = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AESCompressor, "cycles", property(lambda _: power, lambda *_: None), raising=False)
        with py7zr.SevenZipFile(content, "w", password=password or None, filters=filters) as archive:
            if headers:
                archive.set_encrypted_header(True)
            for name, data in FILES.items():
                archive.writestr(data, name)
    return content.getvalue()


def locked(bits: int = 256, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with pyzipper.AESZipFile(content, "w", compression=method, encryption=pyzipper.WZ_AES) as archive:
        archive.setpassword(b"sesame")
        archive.setencryption(pyzipper.WZ_AES, nbits=bits)
        for name, data in FILES.items():
            archive.writestr(name, data)
    return content.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_of_each_common_method_is_read(method: int) -> None:
    result = read("x.zip", zipped(FILES, method, "größer".encode()))
    assert result.files == FILES
    assert (result.comment, result.encrypted, result.sequential) == ("größer", False, False)
    assert {member.modified for member in result.members} == {1_589_710_830.0}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    ("extension", "mode"),
    [(".tar", "w:"), (".tar.gz", "w:gz"), (".TGZ", "w:gz"), (".tar.bz2", "w:bz2"), (".tbz2", "w:bz2"),
     (".tar.xz", "w:xz"), (".txz", "w:xz")],
)  # fmt: skip
def test_a_tar_is_read_however_it_is_packed(extension: str, mode: str, form: int) -> None:
    result = read(f"x{extension}", tarred(FILES, mode, form))
    assert result.files == FILES
    assert result.sequential == (mode != "w:")
    assert {member.modified for member in result.members} == {1_600_000_000.0}


@NEEDS_ZSTD
@pytest.mark.parametrize("extension", [".tar.zst", ".tzst"])
def test_a_tar_packed_by_zstd_is_read(extension: str) -> None:
    assert read(f"x{extension}", by_zstd(tarred(FILES), "--long=28")).files == FILES


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_large_numbers_in_a_tar_are_understood(form: int) -> None:
    name = "folder/" * 40 + "ü" * 110
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        info = tarfile.TarInfo(name)
        info.size, info.mtime = 3, 2**35
        archive.addfile(info, io.BytesIO(b"abc"))
        archive.addfile(tarfile.TarInfo("after"))
    result = read("x.tar", content.getvalue())
    assert result.files == {name: b"abc", "after": b""}
    assert result.members[0].modified == 2**35


PACKERS: dict[str, Any] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("extension", [*PACKERS, pytest.param(".zst", marks=NEEDS_ZSTD)])
def test_a_packed_file_has_one_member_also_when_it_was_packed_in_pieces(extension: str) -> None:
    pack = PACKERS.get(extension, by_zstd)
    content = FILES["big.bin"]
    result = read(f"notes.txt{extension}", pack(content) + pack(b"") + pack(b"the end"))
    assert result.files == {"notes.txt": content + b"the end"}
    assert [member.size for member in result.members] == [None]
    assert read(f"n{extension}", pack(b"")).files == {"n": b""}


def test_zeros_after_a_packed_file_are_padding_and_anything_else_is_damage() -> None:
    assert read("n.gz", gzip.compress(b"abc") + bytes(5000)).files == {"n": b"abc"}
    assert isinstance(read("n.gz", gzip.compress(b"abc") + b"rest").failed["n"], BrokenArchive)


FILTERS: dict[str, Any] = {
    "lzma2": None,
    "lzma": [{"id": py7zr.FILTER_LZMA}],
    "bzip2": [{"id": py7zr.FILTER_BZIP2}],
    "deflate": [{"id": py7zr.FILTER_DEFLATE}],
    "copy": [{"id": py7zr.FILTER_COPY}],
    "zstd": [{"id": py7zr.FILTER_ZSTD, "level": 3}],
    "x86 and lzma": [{"id": py7zr.FILTER_X86}, {"id": py7zr.FILTER_LZMA}],
    "x86 and lzma2": [{"id": py7zr.FILTER_X86}, {"id": py7zr.FILTER_LZMA2, "preset": 6}],
    "delta": [{"id": py7zr.FILTER_DELTA, "dist": 4}, {"id": py7zr.FILTER_LZMA2, "preset": 6}],
}


@pytest.mark.parametrize("kind", FILTERS)
def test_a_7z_of_each_common_method_is_read(kind: str) -> None:
    result = read("x.7z", seven(filters=FILTERS[kind]))
    assert result.files == FILES
    assert (result.encrypted, result.sequential) == (False, True)


def test_a_method_that_is_not_known_is_refused_for_its_entries() -> None:
    result = read("x.7z", seven(filters=[{"id": py7zr.FILTER_PPMD, "order": 6, "mem": 20}]))
    assert set(result.refused) == {name for name, content in FILES.items() if content}
    assert set(result.refused.values()) == {"it is packed by an unknown method"}
    assert result.files == {"empty": b""}


@NEEDS_SEVEN
@pytest.mark.parametrize("kind", ["7z", "zip"])
@pytest.mark.parametrize("method", ["LZMA", "Deflate", "Deflate64", "BZip2", "Copy"])
@pytest.mark.parametrize("password", ["", "sesame"])
def test_what_the_7_zip_program_packs_is_read(tmp_path: Path, kind: str, method: str, password: str) -> None:
    write_files(tmp_path / "in")
    options = [f"-t{kind}", f"-{'m0' if kind == '7z' else 'mm'}={method}", *([f"-p{password}"] if password else [])]
    target = tmp_path / f"x.{kind}"
    subprocess.run([str(SEVEN), "a", *options, str(target), "."], cwd=tmp_path / "in", check=True, capture_output=True)
    result = read(target.name, target.read_bytes(), password)
    assert result.files == FILES
    assert result.encrypted == bool(password)
    assert {"a", "d", "d/e"} <= {member.path for member in result.members if member.is_dir}


@NEEDS_ZIP
def test_what_the_zip_program_encrypts_is_read(tmp_path: Path) -> None:
    write_files(tmp_path)
    subprocess.run(["zip", "-q", "-r", "-P", "sesame", "x.zip", *FILES], cwd=tmp_path, check=True)
    content = (tmp_path / "x.zip").read_bytes()
    result = read("x.zip", content, "sesame")
    assert result.files == FILES
    assert result.encrypted


LOCKED: dict[str, tuple[str, Any]] = {
    "aes 128": ("x.zip", lambda: locked(128)),
    "aes 192": ("x.zip", lambda: locked(192, zipfile.ZIP_LZMA)),
    "aes 256": ("x.zip", lambda: locked(256, zipfile.ZIP_STORED)),
    "7z": ("x.7z", lambda: seven("sesame")),
    "7z with its header": ("x.7z", lambda: seven("sesame", headers=True, power=19)),
}


@pytest.mark.parametrize("kind", LOCKED)
def test_an_encrypted_archive_opens_with_its_password_only(kind: str) -> None:
    name, make = LOCKED[kind]
    content = make()
    result = read(name, content, "sesame")
    assert result.files == FILES
    assert result.encrypted
    for wrong in ("", "Sesame", "sesame ", "sésame"):
        with pytest.raises(WrongArchivePassword, match=r"^wrong archive password$"):
            read(name, content, wrong)


def test_no_wrong_password_of_a_thousand_opens_a_zip_of_old(tmp_path: Path) -> None:
    content = make_zipcrypto_zip("n", b"text " * 2000)
    assert read("x.zip", content, "sesame").files == {"n": b"text " * 2000}

    async def opens(password: str) -> bool:
        try:
            async with archives.open_archive("x.zip", Held(content), password):
                return True
        except WrongArchivePassword:
            return False

    async def some() -> list[int]:
        return [number for number in range(1000) if await opens(str(number))]

    assert asyncio.run(some()) == []


def make_zipcrypto_zip(name: str, data: bytes) -> bytes:
    """A stored member under ZipCrypto, made by the standard library's own keys."""
    import zlib

    crc = zlib.crc32(data)
    keys = StandardZipCrypto(b"sesame")
    body = keys.encrypt(b"elevenbytes" + bytes([crc >> 24]) + data)
    content = bytearray(zipped({name: data}, zipfile.ZIP_STORED))
    directory = content.index(b"PK\1\2")
    start = 30 + len(name)
    tail = content[directory:]
    head = content[:start]
    for offset, block in ((6, head), (8, tail)):
        block[offset] |= 1
    for offset, block in ((18, head), (20, tail)):
        block[offset : offset + 4] = len(body).to_bytes(4, "little")
    end = tail.index(b"PK\5\6")
    tail[end + 16 : end + 20] = (start + len(body)).to_bytes(4, "little")
    return bytes(head + body + tail)


def test_a_password_that_nothing_needs_is_passed_over() -> None:
    for name, content in (("x.zip", zipped(FILES)), ("x.7z", seven()), ("x.tar", tarred(FILES))):
        assert read(name, content, "anything").files == FILES


def test_empty_archives_have_no_members() -> None:
    content = io.BytesIO()
    with py7zr.SevenZipFile(content, "w"):
        pass
    for name, empty in (("x.zip", zipped({})), ("x.tar", tarred({})), ("x.tgz", tarred({}, "w:gz")),
                        ("x.7z", content.getvalue())):  # fmt: skip
        assert read(name, empty).members == [], name


def test_folders_are_members_and_the_root_is_none() -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in (".", "./a", "./a/b"):
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("./a/f"))
    result = read("x.tar", content.getvalue())
    assert [(info.path, info.is_dir) for info in result.members] == [("a", True), ("a/b", True), ("a/f", False)]
    assert result.files == {"a/f": b""}
    assert [(info.path, info.is_dir) for info in list_members("x.zip", zipped({"a/": b"", "a/f": b""}))] == [
        ("a", True), ("a/f", False),
    ]  # fmt: skip


def replace_name(old: bytes, new: bytes, content: bytes) -> bytes:
    assert len(old) == len(new)
    return content.replace(old, new)


@pytest.mark.parametrize(
    ("encoding", "raw", "text"),
    [
        ("IBM437", b"\x84hre", "ähre"),
        ("GB18030", "中文".encode("gb18030"), "中文"),
        ("Shift_JIS", b"\x82\xa0bc", "あbc"),
        ("windows-1251", "мир".encode("cp1251") + b"x", "мирx"),
        ("IBM437", "ährx".encode(), "ährx"),
        ("nonsense", b"\x84hre", "ähre"),
        ("idna", b"\x84hre", "ähre"),
        ("hex", b"\x84hre", "ähre"),
    ],
)
def test_names_that_are_not_utf_8_are_read_in_the_encoding_that_is_set(encoding: str, raw: bytes, text: str) -> None:
    content = replace_name(b"n" * len(raw), raw, zipped({"n" * len(raw): b"x"}))
    assert read("x.zip", content, encoding=encoding).files == {text: b"x"}


def test_a_name_that_says_it_is_utf_8_is_that_whatever_is_set() -> None:
    assert read("x.zip", zipped({"中文": b"x"}), encoding="GB18030").files == {"中文": b"x"}


def test_a_zip_behind_other_bytes_is_read() -> None:
    assert read("x.zip", b"#!/bin/sh\nexit\n" * 100 + zipped(FILES)).files == FILES


def test_a_zip_whose_sizes_follow_its_data_is_read() -> None:
    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.content = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.content += bytes(data)
            return len(data)

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("n", "w", force_zip64=True) as file:
            file.write(FILES["big.bin"])
    assert read("x.zip", stream.content).files == {"n": FILES["big.bin"]}
