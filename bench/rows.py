"""A row of a table: its measurement, and the aim."""

from __future__ import annotations

import os
import shutil
import stat
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.subjects import Subject
from tests.servers import make_bucket, rclone_s3

BUCKET_KEYS, LARGE_FILE_DIVISOR, LARGE_FILE = 10_000, 4, "large.bin"
BLOCK_BYTES = 1 << 20


def fill(folder: Path, count: int) -> None:
    """Make a folder of `count` files of a few bytes."""
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        file = os.open(f"file {number:06}.txt", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle)
        os.write(file, b"mangrove")
        os.close(file)
    os.close(handle)


def make_empty(folder: Path, count: int) -> Path:
    """Make a folder of `count` empty files, which takes half of the time."""
    folder.mkdir(parents=True)
    for number in range(count):
        os.mknod(f"{folder}/file {number:06}.txt", 0o644 | stat.S_IFREG)
    return folder


class Workspace:
    """Files that all subjects share, below one folder."""

    def __init__(self, folder: Path, stack: ExitStack, size: int, seconds: int) -> None:
        self.folder = folder
        self.size = size  # bytes of the large file
        self.seconds = seconds  # of each measurement of requests per second
        self._stack = stack

    def make_files(self, count: int) -> Path:
        """Return a folder of `count` small files, made at the first call."""
        folder = self.folder / "files" / f"n{count}" / "many"
        if not folder.exists():
            fill(folder, count)
        return folder

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
        fill(folder / "keys", BUCKET_KEYS)
        fill(folder / "large", 0)
        with (folder / "large" / LARGE_FILE).open("wb") as file:
            for _ in range(0, size, BLOCK_BYTES):
                file.write(os.urandom(min(BLOCK_BYTES, size)))
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
Values = Sequence[float]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    name: str
    unit: str
    measure: Measure
    least: float | None  # the aim: at least this value …
    most: float | None  # … or at most this
    absolute: bool  # the aim is a value, not a ratio to the peer's value
    worst: bool  # compare the worst run, not the median
    reference_name: str  # of another program that does the same work
    reference: Callable[[Workspace], float] | None

    def get_score(self, ours: Values, peer: Values) -> float | None:
        """Return the number that is compared with the aim; None if it needs the values of a missing peer."""
        value = statistics.median(ours)
        if self.worst:
            value = min(ours) if self.most is None else max(ours)
        if self.absolute:
            return value
        return value / statistics.median(peer) if peer else None

    def is_reached(self, score: float) -> bool:
        """Return True if a score is as good as the aim."""
        return (self.least is None or score >= self.least) and (self.most is None or score <= self.most)

    @property
    def aim(self) -> str:
        if self.least is None and self.most is None:
            return ""
        text = f">= {self.least:,.10g}" if self.least is not None else f"<= {self.most:,.10g}"
        return f"{text} {self.unit}" if self.absolute else text


def row(
    name: str,
    unit: str,
    *,
    least: float | None = None,
    most: float | None = None,
    absolute: bool = False,
    worst: bool = False,
    reference: tuple[str, Callable[[Workspace], float]] | None = None,
) -> Callable[[Measure], Row]:
    """Make a row of a measurement that returns a number of `unit`; see `Row` for the options."""
    reference_name, by = reference or ("", None)
    return lambda measure: Row(name, unit, measure, least, most, absolute, worst, reference_name, by)
