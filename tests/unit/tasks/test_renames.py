"""A folder of a bucket that is too large for a request is renamed by a task: each file has the old or the new name
and is never lost.
"""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.core.problems import NameConflict, NotSupported
from mangrove.drivers.s3 import driver
from mangrove.drivers.s3.requests import Request
from mangrove.identity.rights import Right
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tasks.core import queue, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.operations import transfers
from tests.support.task_env import ALL_RIGHTS, Bucket, TaskEnv

SUCCEEDED = (State.SUCCEEDED, "")
FILES = {"a": b"a", "b": b"", "deep/c": b"c", "deep/er/d": b"d" * 9000}
WRITES = frozenset({"copy_object", "delete_object", "delete_objects", "put_object"})


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def small_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make folders of three objects too large for a request."""
    monkeypatch.setattr(driver, "MAX_OBJECTS_WITHOUT_TASK", 3)


@pytest.fixture
def bucket(task_env: TaskEnv) -> Bucket:
    bucket = task_env.bucket()
    for key, content in FILES.items():
        bucket.put(f"old/{key}", content)
    bucket.put("other", b"other")
    return bucket


def rename(task_env: TaskEnv, path: str, name: str, overwrite: bool = False) -> Task:
    (task,) = task_env.do(submit.rename(task_env.access(path, Right.RENAME), name, overwrite))
    return task


def place(folder: str) -> dict[str, bytes]:
    return {f"{folder}/{key}": content for key, content in FILES.items()} | {"other": b"other"}


def test_the_task_renames_it_with_the_right_to_rename_alone(task_env: TaskEnv, bucket: Bucket) -> None:
    task_env.may(Right.RENAME)
    task = rename(task_env, f"{bucket.mount}/old", "new")
    assert task.view.name == f"move [{bucket.mount}](/old) to [{bucket.mount}](/)"
    assert TransferSpec.load(task.spec).is_rename and bucket.files() == place("old")
    task_env.run(task)
    assert (task_env.view(task), bucket.files()) == (SUCCEEDED, place("new"))
    left = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix="old").get("Contents", [])
    assert (left, task_env.list_staged()) == ([], [])


def test_who_loses_the_right_does_not_finish(task_env: TaskEnv, bucket: Bucket) -> None:
    task = rename(task_env, f"{bucket.mount}/old", "new")
    task_env.may(ALL_RIGHTS & ~Right.RENAME)
    task_env.run(task)
    assert (task_env.view(task)[0], bucket.files()) == (State.FAILED, place("old"))


def test_what_is_taken_is_refused_before_a_task_is_opened(task_env: TaskEnv, bucket: Bucket) -> None:
    bucket.put("new/x", b"x")
    with pytest.raises(NameConflict):
        rename(task_env, f"{bucket.mount}/old", "new")
    assert task_env.started == []


def test_a_door_without_tasks_is_told_that_it_takes_one(task_env: TaskEnv, bucket: Bucket) -> None:
    with pytest.raises(NotSupported):
        task_env.do(transfers.rename(task_env.access(f"{bucket.mount}/old", Right.RENAME), "new", False))
    assert bucket.files() == place("old")


@pytest.mark.parametrize("calls", [0, 1, 3, 5, 8, 10])
def test_killed_at_any_call_nothing_is_lost_and_the_next_run_ends_it(
    task_env: TaskEnv, bucket: Bucket, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = rename(task_env, f"{bucket.mount}/old", "new")
    kill_at_write(task_env, bucket, calls, monkeypatch)
    with pytest.raises(BaseException, match="Killed"):
        task_env.run(task)
    monkeypatch.undo()
    there = {key.partition("/")[2]: content for key, content in bucket.files().items() if key != "other"}
    assert there == FILES  # each is under the old name, the new one, or both
    monkeypatch.setattr(steps.leases, "LEASE_SECONDS", 0)
    task_env.restart_process()
    task_env.run(task)
    assert (task_env.view(task), bucket.files()) == (SUCCEEDED, place("new"))


def test_cancelled_rename_leaves_valid_names_and_retry_finishes(task_env: TaskEnv, bucket: Bucket) -> None:
    task = rename(task_env, f"{bucket.mount}/old", "new")

    def cancel(name: str, number: int) -> None:
        if name == "Move":
            queue.cancel("move", task.id, task_env.caller())

    task_env.run(task, cancel)
    assert task_env.view(task)[0] == State.CANCELED
    there = {key.partition("/")[2]: content for key, content in bucket.files().items() if key != "other"}
    assert there == FILES
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), bucket.files()) == (SUCCEEDED, place("new"))


def kill_at_write(task_env: TaskEnv, bucket: Bucket, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends instead of the change number `calls` of the bucket; nothing is called after that."""
    api, left = task_env.driver(bucket.mount).call, [calls]
    run = api.run

    async def run_or_die(work: Any, *args: Any) -> Any:
        names = {arg.operation if isinstance(arg, Request) else arg for arg in args if isinstance(arg, Request | str)}
        if names & WRITES:
            if left[0] <= 0:
                raise Killed("Killed")
            left[0] -= 1
        return await run(work, *args)

    monkeypatch.setattr(api, "run", run_or_die)
