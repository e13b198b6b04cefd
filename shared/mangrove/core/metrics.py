"""Metrics of all processes of one machine: counters and histograms in shared memory. Each process writes its column.

Every label has a bounded set of values; another value counts as the last one, OTHER_VALUE.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

OTHER_VALUE = "other"
MICROSECOND = 1e-6
SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Label(NamedTuple):
    """A label and its values."""

    name: str
    values: tuple[str, ...]


ROUTE_GROUPS = Label(
    "group",
    (
        "auth", "dav", "downloads", "files", "mcp", "metas", "search", "settings", "shares", "site", "storages",
        "tasks", "uploads", "users", OTHER_VALUE,
    ),
)  # fmt: skip
STATUSES = Label(
    "status",
    (
        "200", "201", "204", "206", "207", "301", "302", "304", "400", "401", "403", "404", "405", "409", "412", "413",
        "416", "423", "429", "500", "501", "502", "503", "504", "507", OTHER_VALUE,
    ),
)  # fmt: skip
TASK_KINDS = Label(
    "kind",
    (
        "upload", "copy", "move", "offline_download_transfer", "decompress_upload", "offline_download", "decompress",
        "compress", "index", OTHER_VALUE,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A counter, or with `buckets` a histogram."""

    name: str
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds, in ascending order, without infinity."""
    scale: float = 1
    """The unit of the stored sum of a histogram."""

    @property
    def width(self) -> int:
        """The places of one combination of labels: a number, or buckets, the one without a bound, and the sum."""
        return len(self.buckets) + 2 if self.buckets else 1

    @property
    def places(self) -> int:
        """The places of all combinations."""
        places = self.width
        for label in self.labels:
            places *= len(label.values)
        return places

    def find_offset(self, values: Sequence[str]) -> int:
        """Return the first place of a combination within the series."""
        offset = 0
        for label, value in zip(self.labels, values, strict=True):
            index = label.values.index(value) if value in label.values else len(label.values) - 1
            offset = offset * len(label.values) + index
        return offset * self.width


REQUESTS = Series("mangrove_requests_total", "Requests, by the code of the answer.", (ROUTE_GROUPS, STATUSES))
REQUEST_SECONDS = Series(
    "mangrove_request_seconds", "Time from a request to the end of its answer.", (ROUTE_GROUPS,), SECOND_BUCKETS,
    MICROSECOND,
)  # fmt: skip
RECEIVED_BYTES = Series("mangrove_received_bytes_total", "Bytes of bodies of requests.", (ROUTE_GROUPS,))
SENT_BYTES = Series("mangrove_sent_bytes_total", "Bytes of bodies of answers.", (ROUTE_GROUPS,))
TASKS_ENDED = Series(
    "mangrove_tasks_ended_total", "Tasks that ended, by their state.",
    (TASK_KINDS, Label("state", ("succeeded", "canceled", "failed", OTHER_VALUE))),
)  # fmt: skip
LISTINGS = Series(
    "mangrove_listings_total", "Folders that were requested from the cache of listings.",
    (Label("result", ("hit", "miss")),),
)  # fmt: skip
ENGINE_CALLS = Series(
    "mangrove_engine_calls_total", "Calls to the records engine.", (Label("result", ("ok", "failed")),)
)
ENGINE_SECONDS = Series(
    "mangrove_engine_seconds", "Time of calls to the records engine.", (), SECOND_BUCKETS, MICROSECOND
)
LOG_LINES = Series(
    "mangrove_log_lines_total", "Warnings and errors in the log.", (Label("level", ("warning", "error")),)
)
PROCESS_IDS = Series("mangrove_process_id", "The id of a process.")
SERIES = (
    REQUESTS, REQUEST_SECONDS, RECEIVED_BYTES, SENT_BYTES, TASKS_ENDED, LISTINGS, ENGINE_CALLS, ENGINE_SECONDS,
    LOG_LINES, PROCESS_IDS,
)  # fmt: skip
PLACES = sum(series.places for series in SERIES)


class Histogram(NamedTuple):
    """The values of a histogram."""

    counts: Sequence[int]
    """For each bucket, and for values above all."""
    total: float
    """The sum of the values."""


class Metrics:
    """The metrics in `numbers`, which has PLACES places of `processes` numbers; this process writes `column`."""

    def __init__(self, numbers: memoryview, processes: int, column: int) -> None:
        self._numbers = numbers
        self._processes = processes
        self._column = column
        self._writing = threading.Lock()
        self._starts: dict[Series, int] = {}
        self._places: dict[Series, dict[tuple[str, ...], int]] = {}
        """The first place of each combination of labels."""
        start = 0
        for series in SERIES:
            self._starts[series] = start
            combinations = product(*(label.values for label in series.labels))
            self._places[series] = {labels: start + index * series.width for index, labels in enumerate(combinations)}
            start += series.places

    def count(self, series: Series, *labels: str, amount: int = 1) -> None:
        """Add to a counter; from any thread."""
        place = self._find_place(series, labels) * self._processes + self._column
        with self._writing:
            self._numbers[place] += amount

    def observe(self, series: Series, value: float, *labels: str) -> None:
        """Add a value to a histogram; from any thread."""
        start = self._find_place(series, labels)
        bucket = start + bisect_left(series.buckets, value)
        total = start + series.width - 1
        with self._writing:
            self._numbers[bucket * self._processes + self._column] += 1
            self._numbers[total * self._processes + self._column] += max(round(value / series.scale), 0)

    def set(self, series: Series, value: int) -> None:
        """Set the own number of a series without labels."""
        self._numbers[self._starts[series] * self._processes + self._column] = value

    def read_columns(self, series: Series) -> list[int]:
        """Return the numbers of all processes of a series without labels."""
        return self._read(self._starts[series])

    def iterate(self, series: Series) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the labels and the totals of a counter."""
        for labels, place in self._places[series].items():
            yield labels, sum(self._read(place))

    def iterate_histograms(self, series: Series) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        """Yield the labels and the values of a histogram."""
        for labels, start in self._places[series].items():
            *counts, total = (sum(self._read(start + offset)) for offset in range(series.width))
            yield labels, Histogram(counts, total * series.scale)

    def _find_place(self, series: Series, labels: tuple[str, ...]) -> int:
        place = self._places[series].get(labels)
        return self._starts[series] + series.find_offset(labels) if place is None else place

    def _read(self, place: int) -> list[int]:
        return self._numbers[place * self._processes : (place + 1) * self._processes].tolist()
