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


def fetch(admin: Client, folder: str, target: Path) -> None:
    """Store the archive of a folder, with holes for zeros."""
    url = admin.ok("/api/fs/zip", dir=folder)["url"]
    with httpx.stream("GET", url, trust_env=False, timeout=120) as answer, target.open("wb") as file:
        assert answer.status_code == 200
        for block in answer.iter_bytes(1 << 20):
            if any(block):
                file.write(block)
            else:
                file.seek(len(block), os.SEEK_CUR)
        file.truncate()
    assert target.stat().st_size == int(answer.headers["content-length"])
    if shutil.which("unzip") is not None:
        subprocess.run(["unzip", "-tqq", target], check=True)


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
