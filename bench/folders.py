"""The first answer about a large folder, and the following ones."""

from __future__ import annotations

import statistics
import time

from bench.environment import Environment
from bench.raw import Connection
from bench.table import work

LOCAL_ENTRIES, S3_KEYS, PAGE = 100_000, 10_000, 50
COLD_ROUNDS, WARM_ROUNDS = 3, 100


def _seconds(connection: Connection, path: str, page: int, total: int) -> float:
    began = time.perf_counter()
    data = connection.post("/api/fs/list", path=path, page=page, per_page=PAGE)
    taken = time.perf_counter() - began
    assert (len(data["content"]), data["total"]) == (PAGE, total)
    return taken


def _cold(env: Environment, path: str, total: int) -> float:
    """Each time the first request after a start of the service."""
    taken = []
    for _ in range(COLD_ROUNDS):
        env.restart()
        with env.connection() as connection:
            taken.append(_seconds(connection, path, 1, total))
    return statistics.median(taken)


def _warm(env: Environment, page: int) -> float:
    path = env.local(LOCAL_ENTRIES)
    with env.connection() as connection:
        _seconds(connection, path, page, LOCAL_ENTRIES)
        taken = [_seconds(connection, path, page, LOCAL_ENTRIES) for _ in range(WARM_ROUNDS)]
    return statistics.median(taken) * 1000


@work("first page of 100,000 entries, Local, cold", "ms", most=600, peer="1,170")
def local_cold(env: Environment) -> float:
    return _cold(env, env.local(LOCAL_ENTRIES), LOCAL_ENTRIES) * 1000


@work("first page of 100,000 entries, Local, warm", "ms", most=5, peer="970")
def local_warm(env: Environment) -> float:
    return _warm(env, 1)


@work("middle page of 100,000 entries, Local, warm", "ms", most=5, peer="960")
def local_middle(env: Environment) -> float:
    return _warm(env, LOCAL_ENTRIES // PAGE // 2)


@work("first page of 10,000 keys, S3, cold", "s", most=0.9, peer="1.1")
def s3_cold(env: Environment) -> float:
    return _cold(env, env.mount_s3(S3_KEYS), S3_KEYS)
