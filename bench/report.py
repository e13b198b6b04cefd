"""A table of rows: for each the median of all runs and their range; `!` marks a missed aim."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import archives, copies, files, folders, memory, requests, search, service
from bench.growth import print_processes, print_sizes
from bench.load import describe_client
from bench.rows import Row, Workspace
from bench.subjects import Launch, Subject, launch_ours, launch_peer
from bench.tables import Table, describe_machine, format_value

TABLES = {
    "comparison": (
        *memory.FIRST_ROWS, *folders.ROWS, *requests.ROWS, *files.ROWS, *copies.ROWS, *search.ROWS, *memory.LAST_ROWS,
    ),
    "service": (*service.ROWS, *archives.ROWS),
}  # fmt: skip
ONE_PROCESS, DEFAULT, PEER = "--processes 1", "default", "peer"
TITLES = {"comparison": "Everyday work", "service": "Large folders, small files and a start"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a report."""

    only: str  # part of the names of the rows to measure
    runs: int
    seconds: int  # of each measurement of requests per second
    size: int  # bytes of the large file
    peer: Path | None  # another service's binary
    is_recorded: bool  # in the reference


def print_report(folder: Path, plan: Plan, name: str) -> bool:
    """Print the rows of a table, then requests per second against processes; return True if all were measured."""
    rows = [row for row in TABLES[name] if plan.only.lower() in row.name.lower()]
    with ExitStack() as stack:
        workspace = Workspace(folder, stack, plan.size, plan.seconds)
        subjects = _make_subjects(folder, plan.peer)
        for subject in subjects:
            stack.callback(subject.stop)
            subject.start()
        processes = ", ".join(f"{subject.name}: {subject.count_processes()} process(es)" for subject in subjects)
        note = (
            f"{describe_machine()}; {describe_client()}; large file {plan.size >> 20:,} MiB; {plan.runs} runs in turn"
        )
        names = [subject.name for subject in subjects]
        ratios = [
            f"{name} : {PEER}" if plan.peer else f"{name}, compared with the aim" for name in names if name != PEER
        ]
        table = Table(TITLES[name], f"{note}; {processes}", "", *names, *ratios, "aim")
        is_whole = all([_add_row(table, workspace, subjects, row, plan.runs) for row in rows])
        for subject in subjects:
            subject.stop()
    if plan.is_recorded:
        table.record()
    return is_whole


def print_growth(folder: Path, plan: Plan, sizes: Sequence[int]) -> bool:
    """Print the tables of growth; `only` chooses one by its title."""
    with ExitStack() as stack:
        workspace = Workspace(folder, stack, plan.size, plan.seconds)
        peer = _make_peer(folder / "scaling", plan.peer)
        makers: Sequence[Callable[[], Table]] = (
            partial(print_processes, workspace, peer, plan.runs), partial(print_sizes, folder, sizes),
        )  # fmt: skip
        for make, word in zip(makers, ("processes", "sizes"), strict=True):
            if plan.only in word:
                table = make()
                if plan.is_recorded:
                    table.record()
    return True


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


def _add_row(table: Table, workspace: Workspace, subjects: Sequence[Subject], row: Row, runs: int) -> bool:
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
    table.add(row.name, *cells, *scores, row.aim)
    if references:
        table.add(f"  {row.reference_name}", _format_values(references, row.unit), *("" for _ in (*cells, *scores)))
    return is_whole


def _format_score(row: Row, ours: Sequence[float], peer: Sequence[float]) -> str:
    score = row.get_score(ours, peer) if ours else None
    if score is None:
        return ""
    return ("" if row.is_reached(score) else "! ") + f"{score:,.3g}"


def _format_values(values: Sequence[float], unit: str) -> str:
    if not values:
        return "failed"
    lowest, median, highest = (
        f"{format_value(value)}" for value in (min(values), statistics.median(values), max(values))
    )
    return f"{median} {unit}" + (f" ({lowest}-{highest})" if len(values) > 1 else "")
