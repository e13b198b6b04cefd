"""Growth of cost: with the number of processes, and with the number of entries, users and tasks."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.comparison import me, page, ping
from bench.rows import Row, describe_client
from bench.subjects import Subject, run_subjects
from bench.tables import Table, describe_machine, format_value, measure_seconds
from bench.workspace import FILES_PER_FOLDER, FIRST_FOLDER, Workspace, make_empty, make_names
from mangrove.standalone.data_directory import DataDirectory
from mangrove.standalone.engine import set_environment
from tests.support.proc import get_family_cpu_seconds
from tests.support.service import ADMIN_PASSWORD, Service

PROCESSES = (1, 2, 4)
REPEATS, PAGE_SIZE = 7, 50
RECORD_DIVISOR = 10  # of the number of entries: a million users and as many tasks take ten minutes to write


def print_tables(folder: Path, options: Namespace) -> Iterator[Table]:
    """Print the tables of growth; `only` is `processes` or `sizes` for a single table."""
    makers = {"processes": _print_processes, "sizes": _print_sizes}
    return (make(folder, options) for name, make in makers.items() if options.only in name)


def _print_processes(folder: Path, options: Namespace) -> Table:
    """Print requests per second for each number of processes, and for the peer."""
    note = f"{describe_machine()}; {describe_client()}; requests/s, medians of {options.runs} runs in turn"
    processes = [(str(count), count) for count in PROCESSES]
    with ExitStack() as stack, run_subjects(folder, processes, options.peer) as subjects:
        workspace = Workspace(folder, stack, 0, options.seconds)
        note += "; in brackets the cores that client and service used"
        table = Table("Growth with processes", note, "", *(subject.name for subject in subjects))
        for row in (ping, me, page):
            cells = [[_measure_cores(workspace, subject, row) for subject in subjects] for _ in range(options.runs)]
            columns = (sorted(column) for column in zip(*cells, strict=True))
            table.add(row.aim.name, *(column[(options.runs - 1) // 2][1] for column in columns))
    return table


def _measure_cores(workspace: Workspace, subject: Subject, row: Row) -> tuple[float, str]:
    """Return the requests per second, and a text with the cores of client and service."""

    def read_clocks() -> tuple[float, float, float]:
        client = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), client.ru_utime + client.ru_stime, get_family_cpu_seconds(subject.pid)

    before = read_clocks()
    rate = row.measure(workspace, subject)
    seconds, client, service = (after - start for after, start in zip(read_clocks(), before, strict=True))
    return rate, f"{rate:,.0f} ({client / seconds:.2f}, {service / seconds:.2f})"


def _print_sizes(folder: Path, options: Namespace) -> Table:
    """Print the milliseconds of each kind of request for each size; `!` marks a cost that grows faster than the size.

    For each size a new service has as many entries in one folder and names in the index, and a tenth as many users and
    finished tasks.
    """
    sizes = [int(text) for text in options.sizes.split(",")]
    columns: list[dict[str, float]] = []
    for size in sizes:
        with run_subjects(folder, [(f"size {size}", 1)]) as (subject,):
            columns.append(dict(_measure_size(subject, size)))
        print(f"{size:,}: {columns[-1]}", file=sys.stderr, flush=True)
    note = f"{describe_machine()}; one process, milliseconds, medians of {REPEATS} requests, cold and first ones once"
    note += ". The columns are numbers of entries and names; there are a tenth as many users and tasks"
    note += ". The last column is the growth of the cost from the smallest size to the largest"
    table = Table("Growth with entries, users and tasks", note, "", *(f"{size:,}" for size in sizes), "growth")
    for name, first in columns[0].items():
        factor = columns[-1][name] / first
        mark = "! " if factor > sizes[-1] / sizes[0] else ""
        table.add(name, *(format_value(column[name]) for column in columns), f"{mark}× {format_value(factor)}")
    return table


def _measure_size(subject: Subject, size: int) -> Iterator[tuple[str, float]]:
    """Yield the name and the milliseconds of each row."""
    make_empty(subject.folder / "entries", (f"file {number:06}.txt" for number in range(size)))
    path = subject.mount_local(subject.folder / "entries")
    subject.restart()
    list_page = partial(subject.list_page, path, size)
    yield "first page of a folder, cold", _time(list_page, repeats=1)
    yield "page of 50, warm", _time(list_page)
    yield "page of 50 in the middle, warm", _time(list_page, size // PAGE_SIZE // 2)
    yield from _measure_search(subject, size, path)
    records = size // RECORD_DIVISOR
    _fill_records(subject.service, records)
    yield "sign-in, one of the users", _time(subject.sign_in, f"user {records // 2}", ADMIN_PASSWORD)
    yield "page of users", _time(subject.ask, f"/api/admin/user/list?page=1&per_page={PAGE_SIZE}")
    yield "page of finished tasks", _time(subject.ask, f"/api/task/copy/done?page=1&per_page={PAGE_SIZE}")
    yield "list of running tasks", _time(subject.ask, "/api/task/copy/undone")


def _measure_search(subject: Subject, size: int, entries: str) -> Iterator[tuple[str, float]]:
    path = subject.mount_local(make_names(subject.folder / "names", size // (FILES_PER_FOLDER + 1)))
    subject.wait_for_index()
    began = time.perf_counter()
    subject.ask("/api/admin/index/build", paths=[path])
    yield "page of 50 while the index is built", _time(subject.list_page, entries, size)
    subject.wait_for_index()
    yield "build of the index", (time.perf_counter() - began) * 1000
    for name, word, hits in (("rare word", "quagga", 1), ("common word", "report", None), ("one letter", "r", None)):
        yield f"search, {name}", _time(subject.search, path, word, hits)
    folder = f"{path}/{FIRST_FOLDER}"
    with subject.connect() as connection:
        connection.put(f"{folder}/okapi.txt", 1)
    yield "first search after a put", _time(subject.search, path, "okapi", 1, repeats=1)
    subject.ask("/api/fs/rename", path=f"{folder}/okapi.txt", name="tapir.txt")
    yield "first search after a rename", _time(subject.search, path, "tapir", 1, repeats=1)
    subject.ask("/api/fs/remove", dir=folder, names=["tapir.txt"])
    yield "first search after a removal", _time(subject.search, path, "tapir", 0, repeats=1)


def _fill_records(service: Service, count: int) -> None:
    """Write users and finished tasks, `count` of each."""
    with patch.dict(os.environ):
        set_environment(DataDirectory(service.data), service.find_records())
        subprocess.run([sys.executable, "-m", "bench.records", str(count)], check=True)


def _time(request: Callable[..., object], *arguments: Any, repeats: int = REPEATS) -> float:
    """Return the median milliseconds of a request."""
    return measure_seconds(partial(request, *arguments), repeats) * 1000
