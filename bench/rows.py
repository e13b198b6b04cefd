"""Rows, which are measurements and their aims, and a table of them with the median of all runs and their range."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.subjects import PEER, Subject, run_subjects
from bench.tables import Aim, Table, describe_machine, format_value, format_values
from bench.workspace import Workspace

PROCESSES = (("--processes 1", 1), ("default", None))
CONNECTIONS = 8
WARM_UP_SECONDS = 1
CHECK = """
function response(status, headers, body)
  if not body:find('"code":200', 1, true) then io.stderr:write(body, "\\n") wrk.thread:stop() end
end
"""
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


def print_rows(title: str, names: Mapping[str, object], folder: Path, options: Namespace) -> Iterator[Table]:
    """Print the rows among the names of a module, in their order."""
    with ExitStack() as stack:
        subjects = stack.enter_context(run_subjects(folder, PROCESSES, options.peer))
        workspace = Workspace(folder, stack, options.size_mib << 20, options.seconds)
        note = f"{describe_machine()}; {describe_client()}; large file {options.size_mib:,} MiB; {options.runs} runs in"
        processes = ", ".join(f"{subject.name}: {subject.count_processes()} process(es)" for subject in subjects)
        compared = f": {PEER}" if options.peer else ", compared with the aim"
        columns = [subject.name for subject in subjects]
        ratios = [f"{name}{compared}" for name in columns if name != PEER]
        table = Table(title, f"{note} turn; {processes}", "", *columns, *ratios, "aim")
        for value in names.values():
            if isinstance(value, Row) and options.only.lower() in value.aim.name.lower():
                _add_row(table, workspace, subjects, value, options.runs)
    yield table


def _add_row(table: Table, workspace: Workspace, subjects: Sequence[Subject], row: Row, runs: int) -> None:
    """Measure all subjects in turn."""
    values: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for subject in [*subjects] * runs:
        try:
            values[subject.name].append(row.measure(workspace, subject))
        except Exception as error:  # printed, and the exit status is 1; the other rows are measured nevertheless
            table.is_whole = False
            print(f"{subject.name}: {row.aim.name}: {error!r}", file=sys.stderr, flush=True)
    peer = values.get(PEER, [])
    scores = [_format_score(row, ours, peer) for name, ours in values.items() if name != PEER]
    table.add(row.aim.name, *(format_values(column, row.aim.unit) for column in values.values()), *scores, str(row.aim))


def _format_score(row: Row, ours: Sequence[float], peer: Sequence[float]) -> str:
    """Return the number that is compared with the aim; nothing if a value is missing."""
    if not ours or not (peer or row.aim.absolute):
        return ""
    score = statistics.median(ours) / (1 if row.aim.absolute else statistics.median(peer))
    return f"{row.aim.mark(score)}{format_value(score)}"


def describe_client() -> str:
    """Return a description of the client. Raise RuntimeError if it is not installed."""
    if not shutil.which("wrk"):
        raise RuntimeError("requests per second are measured by wrk, which is not installed (Debian's package wrk)")
    return f"wrk, {CONNECTIONS} connections"


def measure_rate(workspace: Workspace, subject: Subject, url: str, is_checked: bool = False, **body: Any) -> float:
    """Repeat a POST to a URL path, or a GET without a body, on CONNECTIONS connections. Return the requests per second.

    Raise RuntimeError for an answer whose status is not 2xx, or, with `is_checked`, whose envelope is not a success.
    """
    if url.startswith("/api/"):
        subject.ask(url, **body)  # which raises unless it succeeds
    lines = [f'wrk.headers["authorization"] = {json.dumps(subject.token)}']
    if body:
        lines += ['wrk.method = "POST"', 'wrk.headers["content-type"] = "application/json"']
        lines.append(f"wrk.body = {json.dumps(json.dumps(body))}")
    script = workspace.folder / "wrk.lua"
    script.write_text("\n".join(lines) + (CHECK if is_checked else "\n"))
    for seconds in (WARM_UP_SECONDS, workspace.seconds):
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), subject.address + url]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", result.stdout)
        if not rate or result.stderr or "Non-2xx" in result.stdout or "Socket errors" in result.stdout:
            raise RuntimeError(result.stdout + result.stderr[:500])
    return float(rate[1])
