"""The ZIP writer: other programs read what it writes, and its length is known before."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from mangrove.archives.zip_writer import MAX_SMALL_COUNT, ZipEntry, ZipMeter, ZipWriter, encode_name

MODIFIED = 1_600_000_000.0
READERS = [
    pytest.param(["unzip", "-t"], id="unzip"),
    pytest.param(["7z", "t"], id="7z"),
    pytest.param(["bsdtar", "-tf"], id="bsdtar"),
]


def write_sample(writer: ZipWriter) -> bytes:
    """Write a folder, a small file, a streamed file, one of unknown size and the text of an error."""
    blocks = [
        writer.add_folder(encode_name("dir", True), MODIFIED),
        writer.add_file(encode_name("dir/é 你.txt", False), MODIFIED, b"small"),
        writer.begin_file(b"streamed.bin", MODIFIED, 6),
        writer.add_block(b"abc"),
        writer.add_block(b"def"),
        writer.end_file(),
        writer.begin_file(b"unknown.bin", 0.0, None),
        writer.add_block(b"ghi"),
        writer.end_file(),
        writer.add_error(b"lost.txt", MODIFIED, "the storage does not answer"),
    ]
    return b"".join([*blocks, *writer.finish()])


def test_sample_is_read_by_python() -> None:
    with ZipFile(BytesIO(write_sample(ZipWriter()))) as file:
        assert file.testzip() is None
        assert file.namelist() == ["dir/", "dir/é 你.txt", "streamed.bin", "unknown.bin", "lost.txt.error.txt"]
        assert file.read("streamed.bin") == b"abcdef"
        assert file.read("lost.txt.error.txt") == b"the storage does not answer\n"
        assert file.getinfo("dir/").is_dir()
        assert file.getinfo("streamed.bin").date_time == (2020, 9, 13, 12, 26, 40)


@pytest.mark.parametrize("command", READERS)
def test_sample_is_read_by_other_programs(command: list[str], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    path = tmp_path / "sample.zip"
    path.write_bytes(write_sample(ZipWriter()))
    done = subprocess.run([*command, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("sizes", [[], [0], [1, 63, 64, 5000], [10] * (MAX_SMALL_COUNT + 5)], ids=len)
def test_length_is_measured_before_the_archive_is_written(sizes: list[int]) -> None:
    meter, writer, blocks = ZipMeter(), ZipWriter(), []
    for number, size in enumerate(sizes):
        name, content = f"{number}.bin".encode(), bytes(size)
        is_streamed = number % 2 == 1
        meter.add(ZipEntry(name, MODIFIED, size, None if is_streamed else 0))
        if is_streamed:
            blocks += [writer.begin_file(name, MODIFIED, size), writer.add_block(content), writer.end_file()]
        else:
            blocks.append(writer.add_file(name, MODIFIED, content))
    whole = b"".join([*blocks, *writer.finish(meter.get_length())])
    assert len(whole) == meter.get_length()
    with ZipFile(BytesIO(whole)) as file:
        assert [info.file_size for info in file.infolist()] == sizes


def read_directory(offset: int, size: int) -> tuple[int, int, int]:
    """Write the directory of a file of `size` bytes that begins at `offset`; return what Python reads, and the length
    of the archive behind the file."""
    writer = ZipWriter(offset)
    header = writer.begin_file(b"big", MODIFIED, size)
    writer.resume_file(ZipEntry(b"big", MODIFIED, size, None, offset), 7, size)
    writer.offset += size
    tail = b"".join([writer.end_file(), *writer.finish()])

    class Sparse(BytesIO):
        """A file that has zeros before `tail`."""

        def seek(self, at: int, whence: int = 0) -> int:
            if whence == 0:
                return super().seek(max(at - start, 0)) + start
            return super().seek(at, whence) + start

        def tell(self) -> int:
            return super().tell() + start

    start = offset + len(header) + size
    with ZipFile(Sparse(tail)) as file:
        (info,) = file.infolist()
        return info.header_offset, info.file_size, len(tail)


@pytest.mark.parametrize(("offset", "size"), [(0, 5 << 30), (5 << 30, 10), ((1 << 32) - 40, 10), (5 << 30, 6 << 30)])
def test_large_numbers_are_in_the_fields_of_zip64(offset: int, size: int) -> None:
    meter = ZipMeter()
    meter.entry_bytes = offset
    meter.add(ZipEntry(b"big", MODIFIED, size, None))
    read_offset, read_size, tail = read_directory(offset, size)
    assert (read_offset, read_size) == (offset, size)
    header = len(ZipEntry(b"big", MODIFIED, size, None, offset).format_header())
    assert meter.get_length() == offset + header + size + tail


def test_writer_goes_on_with_a_file_of_another_writer() -> None:
    first = ZipWriter()
    head = first.add_file(b"a", MODIFIED, b"1") + first.begin_file(b"b", MODIFIED, 6) + first.add_block(b"abc")
    records = first.take_directory()
    entry = ZipEntry(b"b", MODIFIED, 6, None, len(head) - 3 - len(ZipEntry(b"b", MODIFIED, 6, None).format_header()))
    second = ZipWriter(first.offset, first.count)
    second.resume_file(entry, first.checksum, 3)
    tail = second.add_block(b"def") + second.end_file()
    second.directory[:0] = records
    with ZipFile(BytesIO(b"".join([head, tail, *second.finish()]))) as file:
        assert file.testzip() is None
        assert zlib.crc32(b"abcdef") == file.getinfo("b").CRC


def test_file_that_fails_is_replaced_within_the_measured_length() -> None:
    meter, writer = ZipMeter(), ZipWriter()
    for name in (b"a", b"b"):
        meter.add(ZipEntry(name, MODIFIED, 0, 0))
    blocks = [writer.add_error(b"a", MODIFIED, "gone", 30), writer.add_file(b"b", MODIFIED, b"")]
    whole = b"".join([*blocks, *writer.finish(meter.get_length())])
    assert len(whole) == meter.get_length()
    with ZipFile(BytesIO(whole)) as file:
        assert file.namelist() == ["a.error.txt", "b"]


@pytest.mark.parametrize("make_path", [lambda name: f"/{name}", lambda name: name.replace("/", "\\")])
def test_name_does_not_lead_out_of_the_folder(make_path: Callable[[str], str]) -> None:
    name = encode_name(make_path("a/b"), False)
    assert not name.startswith(b"/") and b"\\" not in name
