"""Folders as ZIP files that are made while they are sent, against a program that stores them in a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZIP_STORED, ZipFile

from bench.processes import MemoryGrowth
from bench.rows import Row, Workspace, row
from bench.subjects import Subject

SMALL_FILES, SMALL_FILE_BYTES = 10_000, 4 << 10
LARGE_FILES, LARGE_FILE_BYTES = 40, 5 << 20
PROGRAM = "zip -0" if shutil.which("zip") else "Python's zipfile"


def _make_folder(workspace: Workspace, count: int, size: int) -> Path:
    """Return a folder of files of random bytes, made at the first call."""
    folder = workspace.folder / "packed" / f"{count} files"
    if not folder.exists():
        folder.mkdir(parents=True)
        for number in range(count):
            (folder / f"file {number:06}.bin").write_bytes(os.urandom(size))
    return folder


def _make_target(subject: Subject, folder: Path) -> str:
    """Return the target of a request for the ZIP file of a folder."""
    url = urlsplit(subject.ask("/api/fs/zip", dir=subject.mount_local(folder))["url"])
    return f"{url.path}?{url.query}"


def _time_program(folder: Path) -> float:
    """Return the seconds in which PROGRAM stores the folder in a file."""
    target = folder.parent / "stored.zip"
    target.unlink(missing_ok=True)
    began = time.perf_counter()
    if PROGRAM == "zip -0":
        subprocess.run(["zip", "-0", "-r", "-q", target, folder.name], cwd=folder.parent, check=True)
    else:
        with ZipFile(target, "w", ZIP_STORED) as file:
            for path in folder.iterdir():
                file.write(path, path.relative_to(folder.parent))
    return time.perf_counter() - began


def _compare_speed(workspace: Workspace, subject: Subject, *, count: int, size: int) -> float:
    folder = _make_folder(workspace, count, size)
    target = _make_target(subject, folder)
    with subject.connect() as connection:
        _, seconds = connection.get_timed(target)
    return _time_program(folder) / seconds


def _measure_first_byte(workspace: Workspace, subject: Subject) -> float:
    target = _make_target(subject, _make_folder(workspace, SMALL_FILES, SMALL_FILE_BYTES))
    with subject.connect() as connection:
        return connection.get_timed(target)[0] * 1000


def _measure_memory(workspace: Workspace, subject: Subject) -> float:
    target = _make_target(subject, _make_folder(workspace, SMALL_FILES, SMALL_FILE_BYTES))
    with subject.connect() as connection, MemoryGrowth(subject.pid) as growth:
        connection.get(target)
    return growth.bytes / 1e6


speed_small = row(f"ZIP of 10,000 small files: speed, {PROGRAM} is 1", "", least=0.7, absolute=True)
speed_large = row(f"ZIP of 40 files of 5 MiB: speed, {PROGRAM} is 1", "", least=0.7, absolute=True)
first_byte = row("ZIP of 10,000 small files: first byte", "ms", most=300, absolute=True)
memory = row("ZIP of 10,000 small files: memory growth", "MB", most=32, absolute=True)

ROWS: tuple[Row, ...] = (
    speed_small(partial(_compare_speed, count=SMALL_FILES, size=SMALL_FILE_BYTES)),
    speed_large(partial(_compare_speed, count=LARGE_FILES, size=LARGE_FILE_BYTES)),
    first_byte(_measure_first_byte),
    memory(_measure_memory),
)
