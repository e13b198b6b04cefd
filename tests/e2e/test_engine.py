"""The records engine dies or hangs alone: the service continues."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.e2e.processes import (
    END_SECONDS,
    end_with,
    find_engine,
    find_engines,
    find_helpers,
)
from tests.support.proc import is_gone, read_if_there
from tests.support.service import Client, Service, run_service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    with run_service(tmp_path / "data") as service:
        yield service


def is_replaced(service: Service, engine: int) -> bool:
    return find_engines(service) not in ([], [engine])


def create_user(client: Client) -> str:
    """The name of a new user, which was acknowledged."""
    name = uuid4().hex
    client.ok("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
    return name


def list_users(client: Client) -> set[str]:
    return {row["username"] for row in client.get("/api/admin/user/list")["data"]["content"]}


Find = Callable[[Service], list[int]]


@pytest.mark.parametrize("killed", [[find_engines], [find_engines, find_helpers]], ids=["the engine", "and its helper"])
def test_an_engine_that_dies_is_not_felt_by_those_who_read_and_write(own: Service, killed: list[Find]) -> None:
    client = own.client()
    users = [create_user(client)]
    with keep_creating(own, users):
        for _ in range(3):
            before, known = [(find, pid) for find in killed for pid in find(own)], len(users)
            for _, pid in before:
                os.kill(pid, signal.SIGKILL)
            for find, pid in before:
                wait_until(partial(has_another, own, find, pid))
            assert httpx.get(f"{own.address}/ping", timeout=60).text == "pong"
            wait_until(partial(has_more_than, users, known + 2))
    assert set(users) <= list_users(client)
    assert own.client().get("/api/me")["code"] == 200


@contextmanager
def keep_creating(service: Service, users: list[str]) -> Iterator[None]:
    """Create users meanwhile, and collect who was acknowledged."""
    ends, client = threading.Event(), service.client()

    def create() -> None:
        while not ends.is_set():
            name = uuid4().hex
            body = {"username": name, "password": "pw", "base_path": "/", "role": 0}
            if client.post("/api/admin/user/create", **body)["code"] == 200:
                users.append(name)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_an_engine_that_hangs_is_replaced_and_loses_nothing(own: Service) -> None:
    client = own.client()
    users = {create_user(client) for _ in range(3)}
    engine = find_engine(own)
    os.kill(engine, signal.SIGSTOP)
    assert httpx.get(f"{own.address}/ping", timeout=60).text == "pong"
    wait_until(lambda: is_replaced(own, engine))
    users.add(create_user(client))
    assert users <= list_users(client)


def test_health_reports_hung_engine_and_its_recovery(own: Service) -> None:
    assert ask_health(own) == (200, {"status": "ok"})
    os.kill(find_engine(own), signal.SIGSTOP)
    began = time.monotonic()
    wait_until(lambda: ask_health(own)[0] == 503)
    status, body = ask_health(own)
    assert (status, body) == (503, {"status": "failing", "reasons": ["the records do not answer"]})
    assert time.monotonic() - began < 9
    assert httpx.head(f"{own.address}/health", timeout=60).status_code == 503
    assert httpx.get(f"{own.address}/ping", timeout=60).text == "pong"
    wait_until(lambda: ask_health(own) == (200, {"status": "ok"}))
    assert httpx.get(f"{own.address}/openlist/health", timeout=60).status_code == 200


def ask_health(service: Service) -> tuple[int, Any]:
    answer = httpx.get(f"{service.address}/health", timeout=60)
    return answer.status_code, answer.json()


def test_a_termination_while_the_engine_is_away_ends_the_service_properly(own: Service) -> None:
    engine = find_engine(own)
    os.kill(engine, signal.SIGKILL)
    status, seconds = end_with(own, signal.SIGTERM)
    assert status == 0
    assert seconds < END_SECONDS
    assert find_processes(own.data) == []


def test_an_engine_that_was_started_again_ends_with_its_service(own: Service) -> None:
    first = find_engine(own)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: is_replaced(own, first))
    second = find_engine(own)
    own.kill()
    wait_until(lambda: is_gone(second))
    wait_until(lambda: find_processes(own.data) == [])


def has_another(service: Service, find: Find, pid: int) -> bool:
    """Return True if a process took the place of `pid`."""
    return find(service) not in ([], [pid])


def has_more_than(users: Sequence[str], count: int) -> bool:
    return len(users) > count


def find_processes(data: Path) -> list[str]:
    """The engines that run on a data directory."""
    lines = Path("/proc").glob("[0-9]*/cmdline")
    return [line.parent.name for line in lines if f"{data}/records.db".encode() in read_if_there(line)]
