"""Rows without a comparison: large lists, ZIP files, small files, a start. Their aims are absolute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench.connection import Connection
from bench.rows import print_rows, row
from bench.subjects import Subject
from bench.tables import measure_seconds
from bench.workspace import Workspace
from tests.support.proc import get_family_pss

HUGE_FOLDER = 1_000_000
PACKED_FILES, PUT_FILES, FILE_BYTES = 10_000, 200, 4096
PING_INTERVAL_SECONDS, MEMORY_INTERVAL_SECONDS = 0.005, 0.02


@contextmanager
def _repeat_meanwhile(measure: Callable[[], float], interval: float) -> Iterator[list[float]]:
    """Measure in a thread until the end of the context. Yield the list that gets the values."""
    values = [measure()]
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(interval):
            values.append(measure())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield values
    ended.set()
    thread.join()


def _measure_growth(subject: Subject, work: Callable[[], object]) -> float:
    """Return the MB by which the memory of the service grows meanwhile, at most."""
    with _repeat_meanwhile(partial(get_family_pss, subject.pid), MEMORY_INTERVAL_SECONDS) as sizes:
        work()
    return (max(sizes) - sizes[0]) / 1e6


def _read_huge_list(connection: Connection, path: str) -> None:
    size = sum(connection.drain("/api/fs/list", {"path": path, "page": 1, "per_page": 0}))
    assert size > HUGE_FOLDER * len("file 000000.txt")


@row("all of 1,000,000 entries in one list: memory growth", "MB", most=400, absolute=True)
def huge_list_memory(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    with subject.connect() as connection:
        return _measure_growth(subject, partial(_read_huge_list, connection, path))


@row("all of 1,000,000 entries in one list: longest ping of another client", "ms", most=50, absolute=True)
def huge_list_ping(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    with subject.connect() as connection, subject.connect() as other:
        ping = partial(measure_seconds, partial(other.get, "/ping"))
        with _repeat_meanwhile(ping, PING_INTERVAL_SECONDS) as pings:
            _read_huge_list(connection, path)
    return max(pings) * 1000


@contextmanager
def _find_zip(workspace: Workspace, subject: Subject) -> Iterator[tuple[Connection, str]]:
    folder = workspace.make_files(PACKED_FILES, FILE_BYTES)
    with subject.connect() as connection:
        yield connection, subject.get_target("zip", dir=subject.mount_local(folder))


@row("ZIP of 10,000 small files: first byte", "ms", most=300, absolute=True)
def zip_first_byte(workspace: Workspace, subject: Subject) -> float:
    with _find_zip(workspace, subject) as (connection, target):
        return measure_seconds(lambda: next(connection.drain(target))) * 1000


@row("ZIP of 10,000 small files", "files/s", least=4000, absolute=True)
def zip_speed(workspace: Workspace, subject: Subject) -> float:
    with _find_zip(workspace, subject) as (connection, target):
        return PACKED_FILES / measure_seconds(partial(connection.get, target))


@row("ZIP of 10,000 small files: memory growth", "MB", most=32, absolute=True)
def zip_memory(workspace: Workspace, subject: Subject) -> float:
    with _find_zip(workspace, subject) as (connection, target):
        return _measure_growth(subject, partial(connection.get, target))


def _put_small_files(workspace: Workspace, subject: Subject, durability: str) -> float:
    """Upload files one after the other. Return the files per second."""
    subject.save_setting("durability", durability)
    with subject.make_target() as (_, path), subject.connect() as connection:

        def put_all() -> None:
            for number in range(PUT_FILES):
                connection.put(f"{path}/{number}", FILE_BYTES)

        seconds = measure_seconds(put_all)
    subject.save_setting("durability", "file")
    return PUT_FILES / seconds


put_durable = row("put of small files, durability file", "files/s")(partial(_put_small_files, durability="file"))
put = row("put of small files, durability process", "files/s")(partial(_put_small_files, durability="process"))


@row("serve to first answer, existing data", "s", most=3, absolute=True)
def start(workspace: Workspace, subject: Subject) -> float:
    subject.stop()
    return measure_seconds(subject.launch)


print_tables = partial(print_rows, "Large folders, small files and a start", globals())
