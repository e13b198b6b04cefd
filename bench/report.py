"""A table of rows: for each the median of all runs and their range; `!` marks a missed aim."""

from __future__ import annotations

import statistics
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import everyday, service
from bench.load import describe_client
from bench.rows import Row, Workspace
from bench.subjects import PEER, Subject, run_subjects
from bench.tables import Table, describe_machine, format_value, format_values

TABLES = {
    "comparison": ("Everyday work", everyday),
    "service": ("Large folders, small files and a start", service),
}
PROCESSES = (("--processes 1", 1), ("default", None))


def print_report(folder: Path, options: Namespace) -> bool:
    """Print the rows of a module in their order; return True if all were measured."""
    title, module = TABLES[options.table]
    rows = [row for row in vars(module).values() if isinstance(row, Row)]
    with ExitStack() as stack:
        subjects = stack.enter_context(run_subjects(folder, PROCESSES, options.peer))
        workspace = Workspace(folder, stack, options.size_mib << 20, options.seconds)
        note = f"{describe_machine()}; {describe_client()}; large file {options.size_mib:,} MiB; {options.runs} runs in"
        processes = ", ".join(f"{subject.name}: {subject.count_processes()} process(es)" for subject in subjects)
        names = [subject.name for subject in subjects]
        compared = f": {PEER}" if options.peer else ", compared with the aim"
        ratios = [f"{name}{compared}" for name in names if name != PEER]
        table = Table(title, f"{note} turn; {processes}", "", *names, *ratios, "aim")
        chosen = [row for row in rows if options.only.lower() in row.aim.name.lower()]
        is_whole = all([_add_row(table, workspace, subjects, row, options.runs) for row in chosen])
    if options.record:
        table.record()
    return is_whole


def _add_row(table: Table, workspace: Workspace, subjects: Sequence[Subject], row: Row, runs: int) -> bool:
    """Measure all subjects in turn; return True if none failed."""
    values: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    is_whole = True
    for subject in [*subjects] * runs:
        try:
            values[subject.name].append(row.measure(workspace, subject))
        except Exception as error:  # printed, and the exit status is 1; the other rows are measured nevertheless
            is_whole = False
            print(f"{subject.name}: {row.aim.name}: {error!r}", file=sys.stderr, flush=True)
    peer = values.get(PEER, [])
    scores = [_format_score(row, ours, peer) for name, ours in values.items() if name != PEER]
    table.add(row.aim.name, *(format_values(column, row.aim.unit) for column in values.values()), *scores, str(row.aim))
    return is_whole


def _format_score(row: Row, ours: Sequence[float], peer: Sequence[float]) -> str:
    """Return the number that is compared with the aim; nothing if a value is missing."""
    if not ours or not (peer or row.aim.absolute):
        return ""
    score = statistics.median(ours) / (1 if row.aim.absolute else statistics.median(peer))
    return f"{row.aim.mark(score)}{format_value(score)}"
