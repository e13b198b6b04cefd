"""Rows without a comparison: large folders, small files, a start. Their aims are absolute."""

from __future__ import annotations

import statistics
import threading
import time
from uuid import uuid4

from bench.connection import Connection
from bench.processes import MemoryGrowth
from bench.rows import Row, Workspace, row
from bench.subjects import Subject

LARGE_FOLDER, HUGE_FOLDER, PAGE_SIZE = 100_000, 1_000_000, 50
ROUNDS = 20
PING_INTERVAL_SECONDS = 0.005
SMALL_FILES, SMALL_FILE_BYTES = 200, 4096


def _time_page(connection: Connection, path: str, page: int, total: int) -> float:
    """Return the seconds of a page of a folder of at least `total` entries."""
    began = time.perf_counter()
    data = connection.post("/api/fs/list", path=path, page=page, per_page=PAGE_SIZE)
    seconds = time.perf_counter() - began
    assert len(data["content"]) == PAGE_SIZE and data["total"] >= total
    return seconds


@row("middle page of 100,000 entries, warm", "ms", most=5, absolute=True)
def middle_page(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(LARGE_FOLDER))
    with subject.connect() as connection:
        page = LARGE_FOLDER // PAGE_SIZE // 2
        _time_page(connection, path, page, LARGE_FOLDER)
        return statistics.median(_time_page(connection, path, page, LARGE_FOLDER) for _ in range(ROUNDS)) * 1000


@row("first page of 1,000,000 entries, cold", "s", most=4, absolute=True)
def huge_folder_cold(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    subject.restart()
    with subject.connect() as connection:
        return _time_page(connection, path, 1, HUGE_FOLDER)


@row("all of 1,000,000 entries in one list: memory growth", "MB", most=400, absolute=True)
def huge_list_memory(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    with subject.connect() as connection, MemoryGrowth(subject.pid) as growth:
        connection.post_and_drain("/api/fs/list", path=path, page=1, per_page=0)
    return growth.bytes / 1e6


class _Pings:
    """A context in which another client pings; `longest`: seconds until the slowest answer."""

    def __init__(self, connection: Connection) -> None:
        self.longest = 0.0
        self._connection = connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ping, daemon=True)

    def __enter__(self) -> _Pings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ping(self) -> None:
        while not self._ended.wait(PING_INTERVAL_SECONDS):
            began = time.perf_counter()
            self._connection.get("/ping")
            self.longest = max(self.longest, time.perf_counter() - began)


@row("all of 1,000,000 entries in one list: longest ping of another client", "ms", most=50, absolute=True)
def huge_list_ping(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(HUGE_FOLDER))
    with subject.connect() as connection, subject.connect() as other, _Pings(other) as pings:
        connection.post_and_drain("/api/fs/list", path=path, page=1, per_page=0)
    return pings.longest * 1000


def _put_small_files(subject: Subject, durability: str) -> float:
    """Upload files one after the other. Return the files per second."""
    folder = subject.folder / uuid4().hex
    folder.mkdir()
    path = subject.mount_local(folder)
    subject.save_setting("durability", durability)
    with subject.connect() as connection:
        began = time.perf_counter()
        for number in range(SMALL_FILES):
            connection.put(f"{path}/{number}", SMALL_FILE_BYTES)
        seconds = time.perf_counter() - began
    subject.save_setting("durability", "file")
    return SMALL_FILES / seconds


@row("put of small files, durability file", "files/s")
def put_small_durable(workspace: Workspace, subject: Subject) -> float:
    return _put_small_files(subject, "file")


@row("put of small files, durability process", "files/s")
def put_small(workspace: Workspace, subject: Subject) -> float:
    return _put_small_files(subject, "process")


@row("serve to first answer, existing data", "s", most=3, absolute=True)
def start(workspace: Workspace, subject: Subject) -> float:
    subject.stop()
    began = time.perf_counter()
    subject.launch()
    return time.perf_counter() - began


ROWS: tuple[Row, ...] = (
    middle_page, huge_folder_cold, huge_list_memory, huge_list_ping, put_small_durable, put_small, start,
)  # fmt: skip
