"""Growth of cost: with the number of processes, and with the number of entries, users and tasks."""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench.load import describe_client, measure_rate
from bench.processes import get_family_cpu_seconds
from bench.rows import Workspace, make_empty
from bench.searching import FILES_PER_FOLDER, FIRST_FOLDER, make_names, search, wait_for_index
from bench.subjects import Subject, run_subjects
from bench.tables import Table, describe_machine, format_value, measure_seconds

PROCESSES = (1, 2, 4)
ENTRIES, REPEATS, PAGE_SIZE, FIRST_ID = 1000, 7, 50, 1000
REQUESTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "ping": ("/ping", {}),
    "me": ("/api/me", {}),
    "page of 50, warm": ("/api/fs/list", {"page": 1, "per_page": PAGE_SIZE}),
}
RECORD_DIVISOR = 10  # of the number of entries: a million users and as many tasks take ten minutes to write
BATCH_RECORDS, WRITE_CONCURRENCY = 25, 8  # of one call, and calls
PASSWORD = "a long password"


def print_growth(folder: Path, options: Namespace) -> bool:
    """Print the tables of growth; `only` is `processes` or `sizes` for a single table."""
    makers = {"processes": _print_processes, "sizes": _print_sizes}
    for make in (make for name, make in makers.items() if options.only in name):
        table = make(folder, options)
        if options.record:
            table.record()
    return True


def _print_processes(folder: Path, options: Namespace) -> Table:
    """Print requests per second for each number of processes, and for the peer."""
    note = f"{describe_machine()}; {describe_client()}; requests/s, medians of {options.runs} runs in turn"
    with (
        ExitStack() as stack,
        run_subjects(folder, ((str(count), count) for count in PROCESSES), options.peer) as subjects,
    ):
        workspace = Workspace(folder, stack, 0, options.seconds)
        note += "; in brackets the cores that client and service used"
        table = Table("Growth with processes", note, "", *(subject.name for subject in subjects))
        for name in REQUESTS:
            cells = [[_measure_rate(workspace, subject, name) for subject in subjects] for _ in range(options.runs)]
            columns = (sorted(column) for column in zip(*cells, strict=True))
            table.add(name, *(column[(options.runs - 1) // 2][1] for column in columns))
    return table


def _measure_rate(workspace: Workspace, subject: Subject, name: str) -> tuple[float, str]:
    """Return the requests per second, and a text with the cores of client and service."""
    path, body = REQUESTS[name]
    if body:
        body = body | {"path": subject.mount_local(workspace.make_files(ENTRIES))}
    began, before = time.perf_counter(), get_family_cpu_seconds(subject.pid)
    rate = measure_rate(workspace, subject, path, **body)
    service = (get_family_cpu_seconds(subject.pid) - before) / (time.perf_counter() - began)
    return rate.per_second, f"{rate.per_second:,.0f} ({rate.client_cores:.2f}, {service:.2f})"


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
    for kind in ("users", "tasks"):
        _fill_records(kind, subject, records)
    yield "sign-in, one of the users", _time(subject.sign_in, f"user {FIRST_ID + records // 2}", PASSWORD)
    yield "page of users", _time(subject.ask, f"/api/admin/user/list?page=1&per_page={PAGE_SIZE}")
    yield "page of finished tasks", _time(subject.ask, f"/api/task/copy/done?page=1&per_page={PAGE_SIZE}")
    yield "list of running tasks", _time(subject.ask, "/api/task/copy/undone")


def _measure_search(subject: Subject, size: int, entries: str) -> Iterator[tuple[str, float]]:
    folders = size // (FILES_PER_FOLDER + 1)
    path = subject.mount_local(make_names(subject.folder / "names", folders))
    wait_for_index(subject)
    began = time.perf_counter()
    subject.ask("/api/admin/index/build", paths=[path])
    yield "page of 50 while the index is built", _time(subject.list_page, entries, size)
    wait_for_index(subject)
    yield "build of the index", (time.perf_counter() - began) * 1000
    for name, word, hits in (("rare word", "quagga", 1), ("common word", "report", None), ("one letter", "r", None)):
        yield f"search, {name}", _time(search, subject, path, word, hits)
    folder = f"{path}/{FIRST_FOLDER}"
    with subject.connect() as connection:
        connection.put(f"{folder}/okapi.txt", 1)
    yield "first search after a put", _time(search, subject, path, "okapi", 1, repeats=1)
    subject.ask("/api/fs/rename", path=f"{folder}/okapi.txt", name="tapir.txt")
    yield "first search after a rename", _time(search, subject, path, "tapir", 1, repeats=1)
    subject.ask("/api/fs/remove", dir=folder, names=["tapir.txt"])
    yield "first search after a removal", _time(search, subject, path, "tapir", 0, repeats=1)


def _time(request: Callable[..., object], *arguments: Any, repeats: int = REPEATS) -> float:
    """Return the median milliseconds of a request."""
    return measure_seconds(partial(request, *arguments), repeats) * 1000


def _fill_records(kind: str, subject: Subject, count: int) -> None:
    """Write records into the engine of a running service, in a process of its own."""
    command = [sys.executable, "-m", "bench.growth", kind, str(subject.folder / "data"), str(count)]
    subprocess.run(command, check=True)


def _write_records(kind: str, data: Path, count: int) -> None:
    from mangrove.records.store.endpoints import EngineEndpoint
    from mangrove.standalone.data_directory import DataDirectory
    from mangrove.standalone.engine import set_environment

    directory = DataDirectory(data)
    holder = directory.read_holder()
    assert holder is not None
    set_environment(directory, EngineEndpoint(holder.engine, holder.engine_socket))
    _write_users(count) if kind == "users" else _write_tasks(count)


def _write_users(count: int) -> None:
    """Write users who share a password."""
    from mangrove.identity.passwords import hash_password
    from mangrove.records.store.repository import Claim, make_name
    from mangrove.records.users import KIND, UserRecord

    password_hash = hash_password(PASSWORD)
    ids = range(FIRST_ID, FIRST_ID + count)
    _save(UserRecord(id, username=f"user {id}", password_hash=password_hash) for id in ids)
    _save(Claim(make_name(KIND, f"user {id}"), owner=id) for id in ids)


def _write_tasks(count: int) -> None:
    """Write finished copies of the administrator."""
    from mangrove.records.tasks.model import NewTask, TaskRecord, TaskView, make_record
    from mangrove.records.tasks.ordering import TaskStatus, make_done_order, make_owner_key, make_shard_key

    now = time.time()
    ended = datetime.fromtimestamp(now, UTC).isoformat()

    def make(number: int) -> TaskRecord:
        id = f"task{number:08}"
        view = TaskView(id, f"copy {number}", "admin", 2, 2, "", 100.0, ended, ended, 1, "")
        record = make_record(NewTask("copy", 1, view, {}))
        record.owner_key = make_owner_key(1, "copy", TaskStatus.DONE)
        record.shard_key = make_shard_key(id, "copy", TaskStatus.DONE)
        record.ordered = make_done_order(id, now)
        return record

    _save(map(make, range(count)))


def _save(records: Iterable[Any]) -> None:
    """Save new records of one table. pynamodb's own batches would leave out the MAC."""
    from mangrove.records.store.base import get_connection

    def write(batch: Sequence[Any]) -> None:
        rows = [record.get_save_kwargs_from_instance()["Item"] for record in batch]
        connection, table = get_connection(type(batch[0])), batch[0].Meta.table_name
        while rows:
            answer = connection.batch_write_item(table, put_items=rows)
            rows = [row["PutRequest"]["Item"] for row in answer.get("UnprocessedItems", {}).get(table, ())]

    rest = iter(records)
    batches = iter(lambda: list(islice(rest, BATCH_RECORDS)), [])
    with ThreadPoolExecutor(WRITE_CONCURRENCY) as pool:
        while group := list(islice(batches, WRITE_CONCURRENCY)):
            list(pool.map(write, group))


if __name__ == "__main__":
    _write_records(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
