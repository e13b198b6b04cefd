"""The files that all subjects share."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from tests.servers import make_bucket, rclone_s3

FIRST_FILE = "file 000000.txt"
BUCKET_KEYS, LARGE_BUCKET, LARGE_FILE_DIVISOR = 10_000, "large", 4
BLOCK_BYTES = 1 << 20
FOLDERS, FILES_PER_FOLDER, FIRST_FOLDER = 1_100, 109, "Folder 0000"
NAMES = FOLDERS * (FILES_PER_FOLDER + 1)


def fill(folder: Path, count: int, size: int = 8) -> Path:
    """Make a folder of `count` files of random bytes; the first is FIRST_FILE."""
    folder.mkdir(parents=True)
    for number in range(count):
        with open(f"{folder}/file {number:06}.txt", "xb", buffering=0) as file:
            for start in range(0, size, BLOCK_BYTES):
                file.write(os.urandom(min(size - start, BLOCK_BYTES)))
    return folder


def make_empty(folder: Path, names: Iterable[str]) -> None:
    """Make a folder of empty files, which takes half of the time."""
    folder.mkdir(parents=True)
    for name in names:
        os.mknod(f"{folder}/{name}", 0o644 | stat.S_IFREG)


def make_names(root: Path, folders: int = FOLDERS) -> Path:
    """Return a folder of FILES_PER_FOLDER + 1 names per folder, made at the first call; `quagga` is the rare word."""
    for number in range(0 if root.exists() else folders):
        files = range(number * FILES_PER_FOLDER, (number + 1) * FILES_PER_FOLDER)
        make_empty(root / f"Folder {number:04}", (f"Report {file:06} final.txt" for file in files))
    (root / FIRST_FOLDER / "quagga.txt").touch()
    return root


class Workspace:
    """Files below one folder."""

    def __init__(self, folder: Path, stack: ExitStack, size: int, seconds: int) -> None:
        self.folder = folder
        self.size = size  # bytes of the large file
        self.bucket_size = size // LARGE_FILE_DIVISOR  # bytes of the large file in S3
        self.seconds = seconds  # of each measurement of requests per second
        self._buckets = folder / "buckets"
        self._stack = stack

    def make_files(self, count: int, size: int = 8) -> Path:
        """Return a folder of `count` small files, made at the first call."""
        folder = self.folder / "files" / f"n{count}-{size}" / "many"
        return folder if folder.exists() else fill(folder, count, size)

    @cached_property
    def endpoint(self) -> str:
        """The S3 server of all subjects. It has the buckets `keys`, of BUCKET_KEYS small files, and LARGE_BUCKET.

        The server remembers the content of a folder, so the files are made before it starts.
        """
        fill(self._buckets / "keys", BUCKET_KEYS)
        fill(self._buckets / LARGE_BUCKET, 1, self.bucket_size)
        return self._stack.enter_context(rclone_s3(self._buckets))

    @contextmanager
    def make_bucket(self) -> Iterator[Path]:
        """Make an empty bucket and remove it at the end; its folder has its name."""
        folder = self._buckets / make_bucket(self.endpoint)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
