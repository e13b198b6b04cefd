"""The records engine stalls, with tasks under way and queued: none fails, and none is forgotten."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import find_engine
from tests.support import engine as engines
from tests.support.service import Client, Service, run_service
from tests.support.waiting import wait_until

TASKS = 40
STALL_SECONDS = float(os.environ.get("STALL_SECONDS", "45"))  # longer than all attempts of one call
END_SECONDS = 120.0


@contextmanager
def run_engine_elsewhere(folder: Path) -> Iterator[tuple[str, int]]:
    """An engine without supervision; its address and pid."""
    with engines.run_engine("127.77.7.7", "--db-path", str(folder / "elsewhere.db")) as (address, child):
        yield address, child.pid


def open_tasks(client: Client) -> None:
    for number in range(TASKS):
        assert client.put(f"/files/{number}", f"{number}".encode(), as_task="true")["code"] == 200


def list_tasks(client: Client, which: str) -> list[dict[str, Any]]:
    answer = client.get(f"/api/task/upload/{which}", per_page=0)
    rows: list[dict[str, Any]] = answer["data"] or [] if answer["code"] == 200 else []
    return rows


def check_all_succeed(service: Service, client: Client) -> None:
    wait_until(lambda: len(list_tasks(client, "done")) == TASKS, END_SECONDS)
    assert {(task["state"], task["error"]) for task in list_tasks(client, "done")} == {("succeeded", "")}
    assert sorted(path.name for path in (service.data / "files").iterdir()) == sorted(map(str, range(TASKS)))


@pytest.mark.long
@pytest.mark.parametrize("home", ["own", "elsewhere"])
@pytest.mark.parametrize("when", ["at work", "at the start"])
def test_a_stall_of_the_engine_fails_no_task_and_forgets_none(tmp_path: Path, home: str, when: str) -> None:
    with run_engine_elsewhere(tmp_path) as (address, pid):
        environment = {"MANGROVE_DYNAMODB_ENDPOINT": address} if home == "elsewhere" else {}
        with run_service(tmp_path / "data", **environment) as service:
            client = service.client()
            open_tasks(client)
            if when == "at work":
                stall(service, pid, home)
                check_all_succeed(service, client)
                return
            service.kill()
        with run_service(tmp_path / "data", **environment) as again:
            stall(again, pid, home)
            check_all_succeed(again, Client(again.address, client.token))


def stall(service: Service, elsewhere: int, home: str) -> None:
    """Stop the engine for a while; the service's own is started again by it before that ends."""
    pid = find_engine(service) if home == "own" else elsewhere
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STALL_SECONDS)  # what is tested is that this time passes
    if home == "elsewhere":
        os.kill(pid, signal.SIGCONT)
