"""The rows of the comparison: what is measured, and what is aimed at beside the peer."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.comparison.subjects import Subject
from bench.environment import fill
from tests.servers import make_bucket, rclone_s3

KEYS, QUARTER, LARGE = 10_000, 4, "large.bin"
BLOCK = 1 << 20


class Place:
    """Files that all subjects have in common below `folder`; `size`: bytes of the large one, `seconds`: of each
    measurement of requests per second."""

    def __init__(self, folder: Path, stack: ExitStack, size: int, seconds: int) -> None:
        self.folder = folder
        self.size = size
        self.seconds = seconds
        self._stack = stack

    def make_files(self, count: int) -> Path:
        """A folder of so many small files, the same for everybody."""
        folder = self.folder / "files" / f"n{count}" / "many"
        if not folder.exists():
            fill(folder, count)
        return folder

    @cached_property
    def buckets(self) -> Buckets:
        """An S3 server that is everybody's."""
        return Buckets(self.folder / "buckets", self.size // QUARTER, self._stack)


class Buckets:
    """An S3 server on a folder, which has `keys` with KEYS small files and `large` with one file LARGE of `size` bytes.

    They are there before it starts: it remembers what a folder holds.
    """

    def __init__(self, folder: Path, size: int, stack: ExitStack) -> None:
        self.folder = folder
        fill(folder / "keys", KEYS)
        fill(folder / "large", 0)
        with (folder / "large" / LARGE).open("wb") as file:
            for _ in range(0, size, BLOCK):
                file.write(os.urandom(min(BLOCK, size)))
        self.endpoint = stack.enter_context(rclone_s3(folder))

    @contextmanager
    def make(self) -> Iterator[Path]:
        """The folder of a new empty bucket of the same name, for as long as the context lasts."""
        folder = self.folder / make_bucket(self.endpoint)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


Measure = Callable[[Place, Subject], float]
Values = Sequence[float]


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `aim` is of the number itself where `is_absolute`, else of what it is for the peer; `worst` of all
    runs is compared rather than the median. `beside` measures another program at the same."""

    name: str
    unit: str
    measure: Measure
    is_less_better: bool
    aim: float
    is_absolute: bool
    worst: bool
    beside: Callable[[Place], float] | None
    beside_name: str

    def judge(self, ours: Values, peer: Values) -> float | None:
        """The number that the aim is about; None where the peer's is missing."""
        value = statistics.median(ours)
        if self.worst:
            value = max(ours) if self.is_less_better else min(ours)
        if self.is_absolute:
            return value
        return value / statistics.median(peer) if peer else None

    def is_reached(self, judged: float) -> bool:
        return judged <= self.aim if self.is_less_better else judged >= self.aim

    @property
    def aim_text(self) -> str:
        text = f"{'<=' if self.is_less_better else '>='} {self.aim:,.10g}"
        return f"{text} {self.unit}" if self.is_absolute else text


rows: list[Row] = []


def row(
    name: str,
    unit: str,
    *,
    least: float | None = None,
    most: float | None = None,
    absolute: bool = False,
    worst: bool = False,
    beside: tuple[str, Callable[[Place], float]] | None = None,
) -> Callable[[Measure], Measure]:
    """Put a measurement, which answers a number of `unit`, into the comparison; its aim is `least` or `most`."""
    aim = most if least is None else least
    assert aim is not None, "a row has an aim"

    def keep(measure: Measure) -> Measure:
        beside_name, by = beside or ("", None)
        rows.append(Row(name, unit, measure, least is None, aim, absolute, worst, by, beside_name))
        return measure

    return keep
