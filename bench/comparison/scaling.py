"""Requests per second against the number of processes, and how busy both sides were meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.comparison.requests import measure_me, measure_page, measure_ping
from bench.comparison.rows import Place
from bench.comparison.subjects import Launch, Subject, launch_ours
from bench.cpu import get_family_seconds
from bench.load import Rate

PROCESSES = (1, 2, 4)
MEASURES: dict[str, Callable[[Place, Subject], Rate]] = {
    "ping": measure_ping,
    "me": measure_me,
    "page of 50, warm": measure_page,
}
WIDTHS = (18, 40)


@dataclass(frozen=True, slots=True)
class Busy:
    """Requests per second, and the cores that the client and the service were busy with."""

    per_second: float
    client: float
    service: float

    def __str__(self) -> str:
        return f"{self.per_second:,.0f} (client {self.client:.2f}, service {self.service:.2f})"


def _measure(place: Place, subject: Subject, measure: Callable[[Place, Subject], Rate]) -> Busy:
    began, before = time.perf_counter(), get_family_seconds(subject.pid)
    rate = measure(place, subject)
    service = (get_family_seconds(subject.pid) - before) / (time.perf_counter() - began)
    return Busy(rate.per_second, rate.client_cores, service)


def _get_median(found: list[Busy]) -> Busy:
    """The one whose rate is the median."""
    return sorted(found, key=lambda one: one.per_second)[(len(found) - 1) // 2]


def _make_subjects(folder: Path, peer: Launch | None) -> list[Subject]:
    made = []
    for count in PROCESSES:
        (home := folder / f"processes {count}").mkdir()
        name = f"{count} process{'es' * (count > 1)}"
        made.append(Subject(name, home, partial(launch_ours, home / "data", count)))
    if peer is not None:
        made.append(Subject("peer", folder, peer))
    return made


def print_scaling(place: Place, peer: Launch | None, runs: int) -> None:
    """A table: one column for each number of processes, and the peer's."""
    subjects = _make_subjects(place.folder, peer)
    try:
        for subject in subjects:
            subject.start()
        print("\nrequests/s against processes (medians; in brackets the cores that were busy)")
        print(_format("", [subject.name for subject in subjects]), flush=True)
        for name, measure in MEASURES.items():
            found: dict[str, list[Busy]] = {subject.name: [] for subject in subjects}
            for _ in range(runs):
                for subject in subjects:
                    found[subject.name].append(_measure(place, subject, measure))
            print(_format(name, [str(_get_median(found[subject.name])) for subject in subjects]), flush=True)
    finally:
        for subject in subjects:
            subject.stop()


def _format(name: str, cells: list[str]) -> str:
    head, width = WIDTHS
    return " | ".join([f"{name:<{head}}", *(f"{cell:>{width}}" for cell in cells)])
