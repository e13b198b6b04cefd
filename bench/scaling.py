"""Requests per second against the number of processes, and the load of client and service."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.load import Rate
from bench.processes import get_family_cpu_seconds
from bench.requests import measure_me, measure_page, measure_ping
from bench.rows import Workspace
from bench.subjects import Launch, Subject, launch_ours

PROCESSES = (1, 2, 4)
MEASURES: dict[str, Callable[[Workspace, Subject], Rate]] = {
    "ping": measure_ping,
    "me": measure_me,
    "page of 50, warm": measure_page,
}
COLUMN_WIDTHS = (18, 40)


@dataclass(frozen=True, slots=True)
class Busy:
    """Requests per second, and the cores that the client and the service used."""

    per_second: float
    client: float
    service: float

    def __str__(self) -> str:
        return f"{self.per_second:,.0f} (client {self.client:.2f}, service {self.service:.2f})"


def _measure(workspace: Workspace, subject: Subject, measure: Callable[[Workspace, Subject], Rate]) -> Busy:
    began, before = time.perf_counter(), get_family_cpu_seconds(subject.pid)
    rate = measure(workspace, subject)
    service = (get_family_cpu_seconds(subject.pid) - before) / (time.perf_counter() - began)
    return Busy(rate.per_second, rate.client_cores, service)


def _get_median(rates: list[Busy]) -> Busy:
    """Return the median by rate."""
    return sorted(rates, key=lambda rate: rate.per_second)[(len(rates) - 1) // 2]


def _make_subjects(folder: Path, peer: Launch | None) -> list[Subject]:
    subjects = []
    for count in PROCESSES:
        (home := folder / f"processes {count}").mkdir()
        name = f"{count} process{'es' * (count > 1)}"
        subjects.append(Subject(name, home, partial(launch_ours, home / "data", count)))
    if peer is not None:
        subjects.append(Subject("peer", folder, peer))
    return subjects


def print_scaling(workspace: Workspace, peer: Launch | None, runs: int) -> None:
    """Print a table with a column for each number of processes, and one for the peer."""
    subjects = _make_subjects(workspace.folder, peer)
    try:
        for subject in subjects:
            subject.start()
        print("\nrequests/s against processes (medians; in brackets the cores that were busy)")
        print(_format("", [subject.name for subject in subjects]), flush=True)
        for name, measure in MEASURES.items():
            measured: dict[str, list[Busy]] = {subject.name: [] for subject in subjects}
            for _ in range(runs):
                for subject in subjects:
                    measured[subject.name].append(_measure(workspace, subject, measure))
            print(_format(name, [str(_get_median(measured[subject.name])) for subject in subjects]), flush=True)
    finally:
        for subject in subjects:
            subject.stop()


def _format(name: str, cells: list[str]) -> str:
    head, width = COLUMN_WIDTHS
    return " | ".join([f"{name:<{head}}", *(f"{cell:>{width}}" for cell in cells)])
