"""Pages of large folders beyond those of the comparison."""

from __future__ import annotations

import statistics
import threading
import time

from bench.environment import Environment
from bench.memory import Growth
from bench.raw import Connection
from bench.table import work

LOCAL_ENTRIES, MOST_ENTRIES, PAGE = 100_000, 1_000_000, 50
PING_SECONDS = 0.005  # between two pings
WARM_ROUNDS = 100


def _seconds(connection: Connection, path: str, page: int, total: int) -> float:
    """Seconds of a page of a folder that has at least so many entries."""
    began = time.perf_counter()
    data = connection.post("/api/fs/list", path=path, page=page, per_page=PAGE)
    taken = time.perf_counter() - began
    assert len(data["content"]) == PAGE and data["total"] >= total
    return taken


def _warm(env: Environment, page: int) -> float:
    path = env.local(LOCAL_ENTRIES)
    with env.connection() as connection:
        _seconds(connection, path, page, LOCAL_ENTRIES)
        taken = [_seconds(connection, path, page, LOCAL_ENTRIES) for _ in range(WARM_ROUNDS)]
    return statistics.median(taken) * 1000


@work("middle page of 100,000 entries, Local, warm", "ms", most=5, peer="960")
def local_middle(env: Environment) -> float:
    return _warm(env, LOCAL_ENTRIES // PAGE // 2)


class Pings:
    """A context in which another client pings; `longest`: seconds until the slowest answer."""

    def __init__(self, connection: Connection) -> None:
        self.longest = 0.0
        self._connection = connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ping, daemon=True)

    def __enter__(self) -> Pings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ping(self) -> None:
        while not self._ended.wait(PING_SECONDS):
            began = time.perf_counter()
            self._connection.get("/ping")
            self.longest = max(self.longest, time.perf_counter() - began)


def measure_million(env: Environment, path: str) -> dict[str, float]:
    """Seconds of a cold page, a warm one and all rows of MOST_ENTRIES, what memory grew by meanwhile, and the longest
    wait of another client."""
    env.restart()
    growth = Growth(env.service.process.pid)
    with env.connection() as connection, env.connection() as other, growth, Pings(other) as pings:
        cold = _seconds(connection, path, 1, MOST_ENTRIES)
        warm = statistics.median(_seconds(connection, path, 1, MOST_ENTRIES) for _ in range(WARM_ROUNDS))
        began = time.perf_counter()
        connection.post_and_drain("/api/fs/list", path=path, page=1, per_page=0)
        rows = time.perf_counter() - began
    return {"cold": cold, "warm": warm, "rows": rows, "growth": growth.bytes, "ping": pings.longest}


def _million(env: Environment, name: str) -> float:
    if name not in env.kept:
        env.kept |= measure_million(env, env.local(MOST_ENTRIES))
    return env.kept[name]


@work("first page of 1,000,000 entries, Local, cold", "s", most=4)
def million_cold(env: Environment) -> float:
    return _million(env, "cold")


@work("first page of 1,000,000 entries, Local, warm", "ms", most=10)
def million_warm(env: Environment) -> float:
    return _million(env, "warm") * 1000


@work("all of 1,000,000 entries in one list", "s", most=6)
def million_rows(env: Environment) -> float:
    return _million(env, "rows")


@work("memory growth during these lists", "MB", most=400)
def million_growth(env: Environment) -> float:
    return _million(env, "growth") / 1e6


@work("longest wait of another client's ping", "ms", most=50)
def million_ping(env: Environment) -> float:
    return _million(env, "ping") * 1000
