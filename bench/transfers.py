"""Large files through the service, and what they cost it in memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from bench.memory import Growth
from bench.place import Place
from bench.raw import Connection
from bench.table import work

ROUNDS = 3
MOST_GROWTH = 64  # MiB


def _measured(place: Place, name: str, once: Callable[[Connection], None]) -> float:
    """MB/s, the median of ROUNDS; the growth of memory over all of them is kept for another line."""
    taken = []
    with Growth(place.service.process.pid) as growth:
        for _ in range(ROUNDS):
            os.sync()
            with place.connection() as connection:
                began = time.perf_counter()
                once(connection)
                taken.append(time.perf_counter() - began)
    place.kept[name] = growth.bytes / (1 << 20)
    return place.size / 1e6 / statistics.median(taken)


def _growth(place: Place, name: str, measure: Callable[[Place], float]) -> float:
    if name not in place.kept:
        place.restart()
        measure(place)
    return place.kept[name]


def _put(place: Place, name: str, folder: str) -> float:
    return _measured(place, name, lambda connection: connection.put(f"{folder}/large.bin", place.size))


def _get(place: Place, name: str, folder: str) -> float:
    path = f"{folder}/large.bin"
    if place.client.post("/api/fs/get", path=path)["code"] != 200:
        with place.connection() as connection:
            connection.put(path, place.size)
    found = urlsplit(place.client.ok("/api/fs/get", path=path)["raw_url"])
    assert found.path.startswith("/p/"), found

    def once(connection: Connection) -> None:
        assert connection.get(f"{found.path}?{found.query}") == place.size

    return _measured(place, name, once)


@work("put of a large file, Local", "MB/s", least=350, peer="357")
def put_local(place: Place) -> float:
    return _put(place, "put local", "/files")


@work("memory growth during put, Local", "MiB", most=MOST_GROWTH)
def put_local_memory(place: Place) -> float:
    return _growth(place, "put local", put_local)


@work("get of a large file, Local", "MB/s", least=1500, peer="2,041")
def get_local(place: Place) -> float:
    return _get(place, "get local", "/files")


@work("memory growth during get, Local", "MiB", most=MOST_GROWTH)
def get_local_memory(place: Place) -> float:
    return _growth(place, "get local", get_local)


@work("put of a large file, S3", "MB/s", least=150, peer="107")
def put_s3(place: Place) -> float:
    return _put(place, "put s3", place.s3)


@work("memory growth during put, S3", "MiB", most=MOST_GROWTH)
def put_s3_memory(place: Place) -> float:
    return _growth(place, "put s3", put_s3)


@work("get of a large file, S3, proxied", "MB/s", least=318, peer="318")
def get_s3(place: Place) -> float:
    return _get(place, "get s3", place.s3)


@work("memory growth during get, S3, proxied", "MiB", most=MOST_GROWTH)
def get_s3_memory(place: Place) -> float:
    return _growth(place, "get s3", get_s3)
