"""The runner outlives whatever happens to the records engine: a stall at the start or in the middle loses no task."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.standalone import machines, runner
from mangrove.tasks.core.leases import Busy
from mangrove.tasks.core.model import State
from mangrove.tasks.core.workers import StateHandler
from mangrove.tasks.enqueue import MAX_SINGLE_TASKS
from tests.e2e.processes import find_engine
from tests.support.service import Client, Service, run_forked
from tests.support.task_env import Disk, TaskEnv
from tests.unit.standalone.test_runner import Machinery, copies, done, ends, poll_often, start, wait

pytestmark = pytest.mark.long


__all__ = ["ends", "poll_often", "start"]


@pytest.fixture(autouse=True)
def again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FIRST_RETRY_DELAY_SECONDS", 0.02)


@pytest.mark.parametrize("error", [RecordsUnavailable(), AttributeError("a mistake of a library"), Exception()])
def test_unfinished_tasks_that_cannot_be_read_at_the_start_are_read_again(
    task_env: TaskEnv,
    ends: tuple[Disk, Disk],
    start: Callable[[], Machinery],
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks, keep, left = copies(task_env, ends, 3), task_lists.list_unfinished, [6]

    def fail(*args: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return keep(*args)

    monkeypatch.setattr(task_lists, "list_unfinished", fail)
    start()
    for task in tasks:
        wait(done(task_env, task))
        assert task_env.view(task) == (State.SUCCEEDED, "")


@pytest.mark.parametrize("error", [RecordsUnavailable(), Busy(), KeyError("a mistake")])
@pytest.mark.parametrize("name", ["Plan", "Settle"])
def test_a_task_whose_execution_could_not_settle_it_is_started_again_later(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[..., Machinery], name: str, error: Exception
) -> None:
    if isinstance(error, KeyError) and name == "Plan":
        return  # a mistake in the work itself fails the task
    (task,) = copies(task_env, ends, 1)
    loaded = machines.load_machines()
    machine, handlers = loaded["transfer"]
    for state in machine.states.values():
        for rule in state.get("Retry", []):
            rule["IntervalSeconds"] = 0
    keep, left = handlers[name], [30]

    async def fail(event: dict[str, Any], context: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return await keep.work(event, context)

    handlers[name] = StateHandler(fail)
    start(loaded)
    wait(done(task_env, task))
    assert task_env.view(task) == (State.SUCCEEDED, "")
    assert ends[1].files() == {"f0": b"0"}


def test_what_cannot_be_read_ahead_is_read_by_the_worker(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RecordsUnavailable

    monkeypatch.setattr(task_batches, "read", fail)
    start()
    tasks = copies(task_env, ends, 8)  # more than can run concurrently; they need not be read
    for task in tasks:
        wait(done(task_env, task))
        assert task_env.view(task) == (State.SUCCEEDED, "")


def test_a_runner_whose_settings_cannot_be_read_goes_on(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [0]

    async def fail() -> Any:
        looks[0] += 1
        raise ValueError("a mistake")

    start()
    monkeypatch.setattr(runner.configuration, "get", fail)
    wait(lambda: looks[0] > 2)
    monkeypatch.undo()
    (task,) = copies(task_env, ends, 1)
    wait(done(task_env, task))


STALL_SECONDS = 12.0
FILE_COUNT = 40


def stall_engine(service: Service) -> None:
    """Stop the records engine for STALL_SECONDS; it may be replaced in that time."""
    engine = find_engine(service)
    os.kill(engine, signal.SIGSTOP)
    time.sleep(STALL_SECONDS)
    with suppress(ProcessLookupError):
        os.kill(engine, signal.SIGCONT)


def prepare(service: Service) -> tuple[Client, list[str], Path]:
    """A second storage, and names of files to be copied into it, for which no worker may run yet."""
    client, root, source = service.client(), service.data.parent / "second", service.data / "files" / "many"
    for folder in (root, source):
        folder.mkdir()
    addition = json.dumps({"root_folder_path": str(root)})
    client.ok("/api/admin/storage/create", mount_path="/second", driver="Local", addition=addition)
    set_workers(client, 0)
    for number in range(FILE_COUNT):
        (source / f"f{number}").write_bytes(b"x" * 100)
    return client, [f"f{number}" for number in range(FILE_COUNT)], root


def open_copies(client: Client, names: list[str]) -> None:
    """A task for each: of more in one request there would be one for all."""
    for first in range(0, len(names), MAX_SINGLE_TASKS):
        client.ok(
            "/api/fs/copy", src_dir="/files/many", dst_dir="/second", names=names[first : first + MAX_SINGLE_TASKS]
        )


def set_workers(client: Client, count: int) -> None:
    answer = client.http.post("/api/admin/setting/save", json=[{"key": "copy_task_threads_num", "value": str(count)}])
    assert answer.json()["code"] == 200


def expect_all(service: Service, root: Path) -> None:
    """All tasks succeed, sooner or later."""
    end = time.monotonic() + 120
    while len(list(root.iterdir())) < FILE_COUNT:
        assert time.monotonic() < end
        time.sleep(0.1)
    client = service.client()
    while client.get("/api/task/copy/undone")["data"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    states = [row["state"] for row in client.get("/api/task/copy/done")["data"]]
    assert states == ["succeeded"] * FILE_COUNT


def test_an_engine_that_stalls_in_the_middle_fails_no_task_and_loses_none(tmp_path: Path) -> None:
    with run_forked(tmp_path / "data") as service:
        client, names, root = prepare(service)
        open_copies(client, names)
        set_workers(client, 2)
        wait(lambda: len(list(root.iterdir())) > 3)
        stall_engine(service)
        expect_all(service, root)


def test_an_engine_that_stalls_at_the_start_loses_none_of_the_queued_tasks(tmp_path: Path) -> None:
    with run_forked(tmp_path / "data") as service:
        client, names, root = prepare(service)
        open_copies(client, names)
        set_workers(client, 2)
        service.kill()
    with run_forked(tmp_path / "data") as service:
        stall_engine(service)
        expect_all(service, root)
