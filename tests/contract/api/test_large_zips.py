"""ZIP files of very many files, and of a very large one, over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

from tests.contract.api import fixtures
from tests.support.service import Client, Service

pytestmark = pytest.mark.long
LARGE_BYTES = 5 << 30
FILE_COUNT = 100_000
FILES_PER_FOLDER = 1000
MAX_GROWTH_MIB = 32  # of the service with a large file
READERS = (["unzip", "-tqq"], ["7z", "t"], ["bsdtar", "-xOf"])  # those that are installed


def fetch(admin: Client, folder: str, target: Path) -> None:
    """Store the archive of a folder, with holes for zeros."""
    url = admin.ok("/api/fs/zip", dir=folder)["url"]
    with httpx.stream("GET", url, trust_env=False, timeout=120) as answer, target.open("wb") as file:
        assert answer.status_code == 200
        for block in answer.iter_bytes(1 << 20):
            if block == bytes(len(block)):
                file.seek(len(block), os.SEEK_CUR)
            else:
                file.write(block)
        file.truncate()
    assert target.stat().st_size == int(answer.headers["content-length"])
    for command in READERS:
        if shutil.which(command[0]) is not None:
            subprocess.run([*command, target], check=True, stdout=subprocess.DEVNULL)


def read_peak(pids: list[int]) -> int:
    """The largest memory that the processes had, in MiB."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(text.partition("VmHWM:")[2].split()[0]) for text in texts) >> 10


def test_file_of_five_gigabytes_is_packed_in_flat_memory(
    service: Service, admin: Client, folder: str, tmp_path: Path
) -> None:
    disk = fixtures.disk(service, folder)
    for name in ("a.bin", "z.bin"):
        (disk / name).write_bytes(b"letters")
    with (disk / "m.bin").open("wb") as file:
        file.truncate(LARGE_BYTES)
    before = read_peak(service.list_servers())
    fetch(admin, folder, tmp_path / "x.zip")
    assert read_peak(service.list_servers()) - before < MAX_GROWTH_MIB
    with ZipFile(tmp_path / "x.zip") as archive:
        sizes = {info.filename.rpartition("/")[2]: info.file_size for info in archive.infolist()}
        assert sizes == {"": 0, "a.bin": 7, "m.bin": LARGE_BYTES, "z.bin": 7}
        name = next(name for name in archive.namelist() if name.endswith("z.bin"))
        assert archive.read(name) == b"letters"


def test_folder_of_five_gigabytes_is_read_by_other_programs(
    service: Service, admin: Client, folder: str, tmp_path: Path
) -> None:
    """Some entries begin behind the first 4 GiB, where their offsets need the Zip64 field."""
    disk = fixtures.disk(service, folder)
    expected = {f"d{number % 4}/{number:02}.bin": LARGE_BYTES // 20 + number for number in range(20)}
    for name, size in expected.items():
        (disk / name).parent.mkdir(exist_ok=True)
        with (disk / name).open("wb") as file:
            file.write(name.encode())
            file.truncate(size)
    (disk / "z.txt").write_bytes(b"letters")
    fetch(admin, folder, tmp_path / "x.zip")
    with ZipFile(tmp_path / "x.zip") as archive:
        assert archive.testzip() is None
        infos = {info.filename.partition("/")[2]: info for info in archive.infolist() if not info.is_dir()}
        assert {name: info.file_size for name, info in infos.items()} == expected | {"z.txt": 7}
        assert sum(info.header_offset >= 1 << 32 for info in infos.values()) > 1
        for name in expected:
            with archive.open(infos[name]) as content:
                assert content.read(len(name)) == name.encode()


def test_hundred_thousand_files_are_packed(service: Service, admin: Client, folder: str, tmp_path: Path) -> None:
    disk = fixtures.disk(service, folder)
    for number in range(FILE_COUNT):
        if number % FILES_PER_FOLDER == 0:
            (disk / f"d{number // FILES_PER_FOLDER}").mkdir()
        (disk / f"d{number // FILES_PER_FOLDER}" / f"{number}.txt").write_bytes(b"%d" % number)
    with fixtures.settings(admin, zip_max_files="0"):
        fetch(admin, folder, tmp_path / "x.zip")
    with ZipFile(tmp_path / "x.zip") as archive:
        files = [name for name in archive.namelist() if not name.endswith("/")]
        assert len(files) == FILE_COUNT
        assert all(archive.read(name).decode() == Path(name).stem for name in files[::997])
