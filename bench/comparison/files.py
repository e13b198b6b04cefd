"""A large file in and out, on the Local storage."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.comparison.rows import Place, row
from bench.comparison.subjects import Subject

CLIENTS = 4
NAME = "large.bin"


def _open_folder(subject: Subject) -> tuple[Path, str]:
    """A folder of the subject's own, and where it is mounted."""
    folder = subject.folder / "large"
    folder.mkdir(exist_ok=True)
    return folder, subject.mount_local(folder)


@contextmanager
def _make_large(place: Place, subject: Subject) -> Iterator[str]:
    """The address without host of a file that was just put, for as long as the context lasts."""
    folder, path = _open_folder(subject)
    with subject.connect() as connection:
        connection.put(f"{path}/{NAME}", place.size)
    found = urlsplit(subject.ask("/api/fs/get", path=f"{path}/{NAME}")["raw_url"])
    try:
        yield f"{found.path}?{found.query}"
    finally:
        (folder / NAME).unlink()


@row("put 1 GiB", "MB/s", least=1, worst=True)
def put(place: Place, subject: Subject) -> float:
    folder, path = _open_folder(subject)
    os.sync()
    with subject.connect() as connection:
        began = time.perf_counter()
        connection.put(f"{path}/{NAME}", place.size)
        seconds = time.perf_counter() - began
    assert (folder / NAME).stat().st_size == place.size
    (folder / NAME).unlink()
    return place.size / 1e6 / seconds


def _get(place: Place, subject: Subject, clients: int) -> float:
    with _make_large(place, subject) as address, ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
        connections = [stack.enter_context(subject.connect()) for _ in range(clients)]
        os.sync()
        began = time.perf_counter()
        sizes = list(pool.map(lambda connection: connection.get(address), connections))
        seconds = time.perf_counter() - began
    assert sizes == [place.size] * clients
    return clients * place.size / 1e6 / seconds


@row("get 1 GiB", "MB/s", least=1)
def get(place: Place, subject: Subject) -> float:
    return _get(place, subject, 1)


@row("get 1 GiB, by 4 clients", "MB/s", least=1)
def get_by_many(place: Place, subject: Subject) -> float:
    return _get(place, subject, CLIENTS)
