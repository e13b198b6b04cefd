"""The cost of an archive: bytes read for a list, memory, time with a hundred thousand entries, open files."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import subprocess
import sys
import tarfile
import threading
import time
import zipfile

import pytest

from mangrove import archives
from mangrove.archives import ArchiveLimits
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive
from tests.unit.archives.packing import CPU, FILES, Held, list_members, read, tarred, zipped

pytestmark = pytest.mark.long


GIB = 1 << 30


def test_a_list_of_a_large_zip_reads_its_end_only() -> None:
    source = Held(zipped({f"{number}.bin": os.urandom(200_000) for number in range(100)}, zipfile.ZIP_STORED))
    assert len(list_members("x.zip", source)) == 100
    assert source.size > 20_000_000
    assert source.taken <= 70_000


def test_a_list_of_a_zip_with_many_entries_reads_its_directory_once() -> None:
    source = Held(zipped({f"folder/{number:06}": b"" for number in range(20_000)}, zipfile.ZIP_STORED))
    directory = 20_000 * (46 + 13)
    assert len(list_members("x.zip", source)) == 20_000
    assert source.taken <= directory + 70_000


def test_a_list_of_a_tar_jumps_over_the_data() -> None:
    source = Held(tarred({f"{number}": bytes(1_000_000) for number in range(50)}))
    assert len(list_members("x.tar", source)) == 50
    assert source.taken <= 50 * 20_000


def test_one_member_of_a_zip_is_read_without_the_others() -> None:
    files = {f"{number}": os.urandom(500_000) for number in range(20)}
    source = Held(zipped(files, zipfile.ZIP_STORED))

    async def one() -> bytes:
        async with archives.open_archive("x.zip", source) as archive:
            async for _, _, blocks in archive.iter_contents(lambda _, member: member.path == "17"):
                return b"".join([block async for block in blocks])
        return b""

    assert asyncio.run(one()) == files["17"]
    assert source.taken < 1_500_000


def long_tar(count: int) -> bytes:
    """A tar of so many empty files, made by hand as the library takes its time."""
    header = bytearray(tarfile.TarInfo("0000000").tobuf(tarfile.USTAR_FORMAT))
    plain = sum(header[:148]) + sum(header[156:]) + 256 - 7 * ord("0")
    content = bytearray()
    for number in range(count):
        name = b"%07d" % number
        header[:7], header[148:156] = name, b"%06o\0 " % (plain + sum(name))
        content += header
    return bytes(content) + bytes(1024)


def long_zip(count: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for number in range(count):
            packed.writestr(zipfile.ZipInfo(f"{number // 1000}/{number}"), b"")
    return content.getvalue()


@pytest.mark.parametrize("kind", ["x.zip", "x.tar.gz"])
def test_a_hundred_thousand_entries_are_listed(kind: str) -> None:
    content = long_zip(100_000) if kind == "x.zip" else gzip.compress(long_tar(100_000), 1)
    assert len(list_members(kind, content)) == 100_000


PROBE = """
import asyncio, resource, sys, zlib
from mangrove import archives
from mangrove.archives import ArchiveLimits

class File:
    def __init__(self, path):
        import os
        self.file = open(path, "rb")
        self.size = os.path.getsize(path)
    async def read(self, offset, length):
        self.file.seek(offset)
        return self.file.read(length)

async def main(path, name):
    async with archives.open_archive(name, File(path), limits=ArchiveLimits(ratio=0)) as archive:
        total = 0
        async for _, member, blocks in archive.iter_contents(lambda *_: True):
            async for block in blocks:
                if not total:
                    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                total += len(block)
    print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "gz"])
def test_a_member_of_a_gibibyte_needs_no_more_memory_than_a_small_one(tmp_path: object, kind: str) -> None:
    path = os.path.join(str(tmp_path), f"x.{kind}")
    block = os.urandom(1 << 16) + bytes((1 << 20) - (1 << 16))
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            with archive.open("n", "w", force_zip64=True) as file:
                for _ in range(1024):
                    file.write(block)
    else:
        with gzip.open(path, "wb", compresslevel=1) as packed:
            if kind == "tar.gz":
                info = tarfile.TarInfo("n")
                info.size = GIB
                packed.write(info.tobuf())
            for _ in range(1024):
                packed.write(block)
    answer = subprocess.run(
        [sys.executable, "-c", PROBE, path, f"x.{kind}"], capture_output=True, text=True, check=True
    )
    total, grown = map(int, answer.stdout.split())
    assert total == GIB
    assert grown < 64 << 10  # KiB


def test_closing_early_leaves_no_thread_behind() -> None:
    async def some() -> int:
        for name, content in (("x.zip", zipped(FILES)), ("x.tgz", tarred(FILES, "w:gz"))):
            async with archives.open_archive(name, Held(content)) as archive:
                contents = archive.iter_contents(lambda *_: True)
                async for _, member, blocks in contents:
                    if member.path == "big.bin":
                        assert len(await anext(blocks)) > 0
                        break
                await contents.aclose()
                with pytest.raises(StopAsyncIteration):
                    await anext(blocks)
        return threading.active_count()

    before = threading.active_count()
    asyncio.run(some())
    assert threading.active_count() <= before


def test_a_stream_that_is_not_read_to_its_end_does_not_spoil_the_next() -> None:
    async def heads(name: str, content: bytes) -> dict[str, bytes]:
        beginnings = {}
        async with archives.open_archive(name, Held(content), limits=ArchiveLimits(ratio=0)) as archive:
            async for _, member, blocks in archive.iter_contents(lambda _, member: member.path != "big.bin"):
                beginnings[member.path] = (await anext(blocks, b""))[:3]
        return beginnings

    expected = {name: data[:3] for name, data in FILES.items() if name != "big.bin"}
    for name, content in (("x.zip", zipped(FILES)), ("x.tar", tarred(FILES)), ("x.tgz", tarred(FILES, "w:gz"))):
        assert asyncio.run(heads(name, content)) == expected
    assert read("x.tgz", tarred(FILES, "w:gz")).files == FILES


@pytest.mark.parametrize("name", ["x.tgz", "x.gz"])
def test_empty_parts_of_a_packed_file_are_passed_over_but_not_for_ever(name: str) -> None:
    packed = gzip.compress(tarred({"n": b"1"}))
    assert len(list_members(name, gzip.compress(b"") * 500 + packed)) == 1
    with pytest.raises(BrokenArchive, match="empty parts"):
        list_members(name, gzip.compress(b"") * 2000 + packed)


def test_zip_with_many_fields_and_long_names_does_not_block_others() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for value in range(200):
            info = zipfile.ZipInfo(f"{value}")
            info.extra = b"zz\0\0" * 16_000
            packed.writestr(info, b"")
            packed.writestr(zipfile.ZipInfo("a/" * 32_000 + f"{value}"), b"")
    began = time.process_time()
    members = list_members("x.zip", content.getvalue())
    assert [bool(info.refused) for info in members] == [False, True] * 200
    assert time.process_time() - began < CPU


def test_the_directory_of_a_zip_is_not_read_beyond_the_limit() -> None:
    source = Held(long_zip(50_000))
    with pytest.raises(ArchiveTooLarge):
        list_members("x.zip", source, members=100)
    assert source.taken < 4_200_000 + 70_000
