"""A large file in and out, on the Local storage."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.rows import Row, Workspace, row
from bench.subjects import Subject

CLIENTS = 4
NAME = "large.bin"


def _open_folder(subject: Subject) -> tuple[Path, str]:
    """Return a folder of the subject and its mount path."""
    folder = subject.folder / "large"
    folder.mkdir(exist_ok=True)
    return folder, subject.mount_local(folder)


@contextmanager
def _make_large(workspace: Workspace, subject: Subject) -> Iterator[str]:
    """Upload the large file, and remove it at the end. Yield the target of a request for it."""
    folder, path = _open_folder(subject)
    with subject.connect() as connection:
        connection.put(f"{path}/{NAME}", workspace.size)
    try:
        yield subject.get_download_target(f"{path}/{NAME}")
    finally:
        (folder / NAME).unlink()


@row("put 1 GiB", "MB/s", least=1, worst=True)
def put(workspace: Workspace, subject: Subject) -> float:
    folder, path = _open_folder(subject)
    os.sync()
    with subject.connect() as connection:
        began = time.perf_counter()
        connection.put(f"{path}/{NAME}", workspace.size)
        seconds = time.perf_counter() - began
    assert (folder / NAME).stat().st_size == workspace.size
    (folder / NAME).unlink()
    return workspace.size / 1e6 / seconds


def _get(workspace: Workspace, subject: Subject, clients: int) -> float:
    with _make_large(workspace, subject) as address, ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
        connections = [stack.enter_context(subject.connect()) for _ in range(clients)]
        os.sync()
        began = time.perf_counter()
        sizes = list(pool.map(lambda connection: connection.get(address), connections))
        seconds = time.perf_counter() - began
    assert sizes == [workspace.size] * clients
    return clients * workspace.size / 1e6 / seconds


@row("get 1 GiB", "MB/s", least=1)
def get(workspace: Workspace, subject: Subject) -> float:
    return _get(workspace, subject, 1)


@row("get 1 GiB, by 4 clients", "MB/s", least=1)
def get_by_many(workspace: Workspace, subject: Subject) -> float:
    return _get(workspace, subject, CLIENTS)


ROWS: tuple[Row, ...] = (put, get, get_by_many)
