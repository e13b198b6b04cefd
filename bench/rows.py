"""A row of a table, which is a measurement and its aim, and the files that all subjects share."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.subjects import Subject
from bench.tables import Aim
from tests.servers import make_bucket, rclone_s3

BUCKET_KEYS, LARGE_FILE_DIVISOR, LARGE_FILE = 10_000, 4, "large.bin"
BLOCK_BYTES = 1 << 20


def fill(folder: Path, count: int, size: int = 8, suffix: str = "txt") -> Path:
    """Make a folder of `count` files of random bytes."""
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        file = os.open(f"file {number:06}.{suffix}", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle)
        os.write(file, os.urandom(size))
        os.close(file)
    os.close(handle)
    return folder


def make_empty(folder: Path, names: Iterator[str]) -> None:
    """Make a folder of empty files, which takes half of the time."""
    folder.mkdir(parents=True)
    for name in names:
        os.mknod(f"{folder}/{name}", 0o644 | stat.S_IFREG)


def make_large(folder: Path, size: int) -> Path:
    """Make a folder of one large file."""
    folder.mkdir(parents=True)
    with (folder / LARGE_FILE).open("wb") as file:
        for _ in range(0, size, BLOCK_BYTES):
            file.write(os.urandom(BLOCK_BYTES))
    return folder


class Workspace:
    """Files that all subjects share, below one folder."""

    def __init__(self, folder: Path, stack: ExitStack, size: int, seconds: int) -> None:
        self.folder = folder
        self.size = size  # bytes of the large file
        self.seconds = seconds  # of each measurement of requests per second
        self._stack = stack

    def make_files(self, count: int, size: int = 8) -> Path:
        """Return a folder of `count` small files, made at the first call."""
        folder = self.folder / "files" / f"n{count}-{size}" / "many"
        return folder if folder.exists() else fill(folder, count, size)

    @cached_property
    def buckets(self) -> Buckets:
        """The S3 server of all subjects."""
        return Buckets(self.folder / "buckets", self.size // LARGE_FILE_DIVISOR, self._stack)


class Buckets:
    """An S3 server on a folder, with the buckets `keys` (BUCKET_KEYS small files) and `large` (one large file).

    The server remembers the content of a folder, so the files are made before it starts.
    """

    def __init__(self, folder: Path, size: int, stack: ExitStack) -> None:
        self.folder = folder
        self.large_size = size  # bytes of the large file
        fill(folder / "keys", BUCKET_KEYS)
        make_large(folder / "large", size)
        self.endpoint = stack.enter_context(rclone_s3(folder))

    @contextmanager
    def make(self) -> Iterator[Path]:
        """Make an empty bucket and remove it at the end; its folder has its name."""
        folder = self.folder / make_bucket(self.endpoint)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


Measure = Callable[[Workspace, Subject], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    aim: Aim
    measure: Measure


def row(
    name: str, unit: str, *, least: float | None = None, most: float | None = None, absolute: bool = False
) -> Callable[[Measure], Row]:
    """Make a row of a measurement that returns a number of `unit`; see `Aim` for the options."""
    return lambda measure: Row(Aim(name, unit, least, most, absolute), measure)
