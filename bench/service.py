"""Rows without a comparison: large lists, ZIP files, small files, a start. Their aims are absolute."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.connection import Connection
from bench.processes import MemoryGrowth
from bench.rows import Row, Workspace, row
from bench.subjects import Subject
from bench.tables import measure_seconds

HUGE_FOLDER = 1_000_000
PACKED_FILES, PUT_FILES, FILE_BYTES = 10_000, 200, 4096
PING_INTERVAL_SECONDS = 0.005


def _read_huge_list(connection: Connection, path: str) -> None:
    size = sum(connection.drain("/api/fs/list", {"path": path, "page": 1, "per_page": 0}))
    assert size > HUGE_FOLDER * len("file 000000.txt")


@row("all of 1,000,000 entries in one list: memory growth", "MB", most=400, absolute=True)
def huge_list_memory(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    with subject.connect() as connection, MemoryGrowth(subject.pid) as growth:
        _read_huge_list(connection, path)
    return growth.bytes / 1e6


@contextmanager
def _ping(connection: Connection) -> Iterator[list[float]]:
    """Ping from another client meanwhile. Yield a list that gets the seconds of each answer."""
    seconds: list[float] = []
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(PING_INTERVAL_SECONDS):
            seconds.append(measure_seconds(partial(connection.get, "/ping")))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield seconds
    ended.set()
    thread.join()


@row("all of 1,000,000 entries in one list: longest ping of another client", "ms", most=50, absolute=True)
def huge_list_ping(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    with subject.connect() as connection, subject.connect() as other, _ping(other) as pings:
        _read_huge_list(connection, path)
    return max(pings) * 1000


def _get_zip_target(workspace: Workspace, subject: Subject) -> str:
    folder = workspace.make_files(PACKED_FILES, FILE_BYTES)
    return subject.get_target("zip", dir=subject.mount_local(folder))


@row("ZIP of 10,000 small files: first byte", "ms", most=300, absolute=True)
def zip_first_byte(workspace: Workspace, subject: Subject) -> float:
    target = _get_zip_target(workspace, subject)
    with subject.connect() as connection:
        return measure_seconds(lambda: next(connection.drain(target))) * 1000


@row("ZIP of 10,000 small files", "files/s", least=4000, absolute=True)
def zip_speed(workspace: Workspace, subject: Subject) -> float:
    target = _get_zip_target(workspace, subject)
    with subject.connect() as connection:
        return PACKED_FILES / measure_seconds(partial(connection.get, target))


@row("ZIP of 10,000 small files: memory growth", "MB", most=32, absolute=True)
def zip_memory(workspace: Workspace, subject: Subject) -> float:
    target = _get_zip_target(workspace, subject)
    with subject.connect() as connection, MemoryGrowth(subject.pid) as growth:
        connection.get(target)
    return growth.bytes / 1e6


def _put_small_files(workspace: Workspace, subject: Subject, durability: str) -> float:
    """Upload files one after the other. Return the files per second."""
    subject.save_setting("durability", durability)
    with subject.make_target() as (_, path), subject.connect() as connection:
        began = time.perf_counter()
        for number in range(PUT_FILES):
            connection.put(f"{path}/{number}", FILE_BYTES)
        seconds = time.perf_counter() - began
    subject.save_setting("durability", "file")
    return PUT_FILES / seconds


put_durable = row("put of small files, durability file", "files/s")(partial(_put_small_files, durability="file"))
put = row("put of small files, durability process", "files/s")(partial(_put_small_files, durability="process"))


@row("serve to first answer, existing data", "s", most=3, absolute=True)
def start(workspace: Workspace, subject: Subject) -> float:
    subject.stop()
    return measure_seconds(subject.launch)


ROWS: tuple[Row, ...] = (
    huge_list_memory, huge_list_ping, zip_first_byte, zip_speed, zip_memory, put_durable, put, start,
)  # fmt: skip
