"""Small requests, many at once."""

from __future__ import annotations

import statistics
import time
from typing import Any

from bench.environment import Environment
from bench.load import measure_rate
from bench.table import work
from tests.service import ADMIN_PASSWORD

ENTRIES = 1000
LOGINS = 5


def _measure_rate(env: Environment, path: str, /, **body: Any) -> float:
    client = env.client
    answer = client.post(path, **body) if body else client.get(path)
    assert answer["code"] == 200, answer
    return measure_rate(env.service.address, path, env.token(), body or None, env.seconds, env.folder)


@work("list of 1,000 entries, warm", "req/s", least=1200, peer="146")
def whole_list(env: Environment) -> float:
    return _measure_rate(env, "/api/fs/list", path=env.local(ENTRIES), page=1, per_page=0)


@work("page of 50 out of 1,000 entries, warm", "req/s", least=2000, peer="504")
def page(env: Environment) -> float:
    return _measure_rate(env, "/api/fs/list", path=env.local(ENTRIES), page=1, per_page=50)


@work("get of one entry, warm", "req/s", least=2000, peer="668")
def one(env: Environment) -> float:
    return _measure_rate(env, "/api/fs/get", path=f"{env.local(ENTRIES)}/file 000500.txt")


@work("me", "req/s", least=3000, peer="14,400")
def me(env: Environment) -> float:
    return _measure_rate(env, "/api/me")


@work("login (argon2id: slow on purpose)", "ms")
def login(env: Environment) -> float:
    """One after the other, each with the right password."""
    taken = []
    with env.connection() as connection:
        for _ in range(LOGINS):
            began = time.perf_counter()
            connection.post("/api/auth/login", username="admin", password=ADMIN_PASSWORD)
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000
