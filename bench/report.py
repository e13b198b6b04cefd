"""A table of rows: for each the median of all runs and their range; `!` marks a missed aim."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import archives, copies, files, folders, memory, requests, search, service
from bench.load import describe_client
from bench.rows import Row, Workspace
from bench.scaling import print_scaling
from bench.subjects import Launch, Subject, launch_ours, launch_peer

TABLES = {
    "comparison": (
        *memory.FIRST_ROWS, *folders.ROWS, *requests.ROWS, *files.ROWS, *copies.ROWS, *search.ROWS, *memory.LAST_ROWS,
    ),
    "service": (*service.ROWS, *archives.ROWS),
}  # fmt: skip
ONE_PROCESS, DEFAULT, PEER = "--processes 1", "default", "peer"
COLUMN_WIDTHS = (42, 28, 20)


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a report."""

    only: str  # part of the names of the rows to measure
    runs: int
    seconds: int  # of each measurement of requests per second
    size: int  # bytes of the large file
    peer: Path | None  # another service's binary


def describe_machine() -> str:
    """Return processor, cores, Python, kernel and load in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    load = os.getloadavg()[0]
    python = f"Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {python}, kernel {platform.release()}, load before {load:.1f}"


def print_report(folder: Path, plan: Plan, table: str) -> bool:
    """Print the rows of a table, then requests per second against processes; return True if all were measured."""
    rows = [row for row in TABLES[table] if plan.only.lower() in row.name.lower()]
    print(f"{describe_machine()}; {describe_client()}; large file {plan.size >> 20:,} MiB; {plan.runs} runs in turn")
    with ExitStack() as stack:
        workspace = Workspace(folder, stack, plan.size, plan.seconds)
        subjects = _make_subjects(folder, plan.peer)
        for subject in subjects:
            stack.callback(subject.stop)
            subject.start()
            print(f"{subject.name}: {subject.count_processes()} process(es) that answer")
        names = [subject.name for subject in subjects]
        print(_format(["", *names, *(f"{name} : {PEER}" for name in names if name != PEER), "aim"], len(names)))
        is_whole = all([_print_row(workspace, subjects, row, plan.runs) for row in rows])
        for subject in subjects:
            subject.stop()
        if table == "comparison" and plan.only in ("", "processes"):
            print_scaling(workspace, _make_peer(folder / "scaling", plan.peer), plan.runs)
    return is_whole


def _make_peer(folder: Path, binary: Path | None) -> Launch | None:
    if binary is None:
        return None
    folder.mkdir(parents=True)
    return partial(launch_peer, binary, folder / "data")


def _make_subjects(folder: Path, peer: Path | None) -> list[Subject]:
    subjects = []
    for name, count in ((ONE_PROCESS, 1), (DEFAULT, None)):
        (home := folder / f"ours {count}").mkdir()
        subjects.append(Subject(name, home, partial(launch_ours, home / "data", count)))
    if launch := _make_peer(folder / PEER, peer):
        subjects.append(Subject(PEER, folder / PEER, launch))
    return subjects


def _print_row(workspace: Workspace, subjects: Sequence[Subject], row: Row, runs: int) -> bool:
    """Measure all subjects in turn; return True if none failed."""
    values: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    references: list[float] = []
    is_whole = True
    for _ in range(runs):
        for subject in subjects:
            try:
                values[subject.name].append(row.measure(workspace, subject))
            except Exception as error:  # the other rows are measured all the same, and the exit status tells
                is_whole = False
                print(f"{subject.name}: {row.name}: {error!r}", file=sys.stderr, flush=True)
        if row.reference is not None:
            references.append(row.reference(workspace))
    scores = [_format_score(row, values[name], values.get(PEER, [])) for name in values if name != PEER]
    cells = [_format_values(measured, row.unit) for measured in values.values()]
    print(_format([row.name, *cells, *scores, row.aim], len(values)), flush=True)
    if references:
        print(_format([f"  {row.reference_name}", _format_values(references, row.unit)], len(values)), flush=True)
    return is_whole


def _format_score(row: Row, ours: Sequence[float], peer: Sequence[float]) -> str:
    score = row.get_score(ours, peer) if ours else None
    if score is None:
        return ""
    return ("" if row.is_reached(score) else "! ") + f"{score:,.3g}"


def _format_values(values: Sequence[float], unit: str) -> str:
    if not values:
        return "failed"
    lowest, median, highest = (f"{_round(value)}" for value in (min(values), statistics.median(values), max(values)))
    return f"{median} {unit}" + (f" ({lowest}-{highest})" if len(values) > 1 else "")


def _round(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 3}f}"


def _format(cells: Sequence[str], subjects: int) -> str:
    head, wide, narrow = COLUMN_WIDTHS
    widths = [wide] * subjects + [narrow] * (len(cells) - 1 - subjects)
    return " | ".join(
        [f"{cells[0]:<{head}}", *(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths, strict=False))]
    )
