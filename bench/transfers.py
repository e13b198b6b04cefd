"""Large files through the service, and what they cost it in memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from bench.environment import Environment
from bench.memory import Growth
from bench.raw import Connection
from bench.table import work

ROUNDS = 3
MOST_GROWTH = 64  # MiB
SMALL_FILES = 200
SMALL = 4096  # bytes


def _measure(env: Environment, name: str, once: Callable[[Connection], None]) -> float:
    """MB/s, the median of ROUNDS; the growth of memory over all of them is kept for another line."""
    taken = []
    with Growth(env.service.process.pid) as growth:
        for _ in range(ROUNDS):
            os.sync()
            with env.connection() as connection:
                began = time.perf_counter()
                once(connection)
                taken.append(time.perf_counter() - began)
    env.kept[name] = growth.bytes / (1 << 20)
    return env.size / 1e6 / statistics.median(taken)


def _growth(env: Environment, name: str, measure: Callable[[Environment], float]) -> float:
    if name not in env.kept:
        env.restart()
        measure(env)
    return env.kept[name]


def _put(env: Environment, name: str, folder: str) -> float:
    return _measure(env, name, lambda connection: connection.put(f"{folder}/large.bin", env.size))


def _get(env: Environment, name: str, folder: str) -> float:
    path = f"{folder}/large.bin"
    if env.client.post("/api/fs/get", path=path)["code"] != 200:
        with env.connection() as connection:
            connection.put(path, env.size)
    found = urlsplit(env.client.ok("/api/fs/get", path=path)["raw_url"])
    assert found.path.startswith("/p/"), found

    def once(connection: Connection) -> None:
        assert connection.get(f"{found.path}?{found.query}") == env.size

    return _measure(env, name, once)


@work("put of a large file, Local", "MB/s", least=350, peer="357")
def put_local(env: Environment) -> float:
    return _put(env, "put local", "/files")


def _put_small(env: Environment, durability: str) -> float:
    """Files/s, one after the other."""
    _set_durability(env, durability)
    with env.connection() as connection:
        connection.put(f"/files/small {durability}/first", SMALL)
        began = time.perf_counter()
        for number in range(SMALL_FILES):
            connection.put(f"/files/small {durability}/{number}", SMALL)
        taken = time.perf_counter() - began
    _set_durability(env, "file")
    return SMALL_FILES / taken


def _set_durability(env: Environment, value: str) -> None:
    rows = [{"key": "durability", "value": value}]
    assert env.client.http.post("/api/admin/setting/save", json=rows).json()["code"] == 200


@work("put of 200 small files, durability process", "files/s")
def put_small_for_the_process(env: Environment) -> float:
    return _put_small(env, "process")


@work("put of 200 small files, durability file", "files/s")
def put_small_durably(env: Environment) -> float:
    return _put_small(env, "file")


@work("memory growth during put, Local", "MiB", most=MOST_GROWTH)
def put_local_memory(env: Environment) -> float:
    return _growth(env, "put local", put_local)


@work("get of a large file, Local", "MB/s", least=1500, peer="2,041")
def get_local(env: Environment) -> float:
    return _get(env, "get local", "/files")


@work("memory growth during get, Local", "MiB", most=MOST_GROWTH)
def get_local_memory(env: Environment) -> float:
    return _growth(env, "get local", get_local)


@work("put of a large file, S3", "MB/s", least=150, peer="107")
def put_s3(env: Environment) -> float:
    return _put(env, "put s3", env.s3)


@work("memory growth during put, S3", "MiB", most=MOST_GROWTH)
def put_s3_memory(env: Environment) -> float:
    return _growth(env, "put s3", put_s3)


@work("get of a large file, S3, proxied", "MB/s", least=318, peer="318")
def get_s3(env: Environment) -> float:
    return _get(env, "get s3", env.s3)


@work("memory growth during get, S3, proxied", "MiB", most=MOST_GROWTH)
def get_s3_memory(env: Environment) -> float:
    return _growth(env, "get s3", get_s3)
