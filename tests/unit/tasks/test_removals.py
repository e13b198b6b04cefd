"""Removals and gatherings that take longer than a request become a task: with the owner's rights, to the end."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.core import deadlines
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageForbidden
from mangrove.drivers.local.driver import Local
from mangrove.drivers.s3 import driver as s3
from mangrove.identity.rights import Right
from mangrove.records import metas
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tasks.core import leases, queue, workers
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer import worker
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.operations import transfers
from tests.support.task_env import ALL_RIGHTS, Disk, TaskEnv

SUCCEEDED = (State.SUCCEEDED, "")
NAMES = [f"f{number:02}" for number in range(30)]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give requests no time for any work."""
    monkeypatch.setattr(deadlines, "REQUEST_WORK_SECONDS", 0)
    monkeypatch.setattr(deadlines.TimeBudget, "covers", lambda *_: False)
    monkeypatch.setattr(deadlines.TimeBudget, "get_seconds", lambda _: 0.0)


@pytest.fixture
def disk(task_env: TaskEnv) -> Disk:
    disk = task_env.disk()
    for name in NAMES:
        disk.put(f"d/{name}", name.encode())
    disk.put("d/deep/er/x", b"x")
    disk.put("other", b"other")
    return disk


def remove(task_env: TaskEnv, folder: str, *names: str) -> list[Task]:
    return task_env.do(submit.remove(task_env.access(folder, Right.DELETE), names))


def remove_empty(task_env: TaskEnv, folder: str) -> list[Task]:
    return task_env.do(submit.remove_empty(task_env.access(folder, Right.DELETE)))


def move_files(task_env: TaskEnv, source: str, target: str, policy: str = "cancel") -> tuple[int, list[Task]]:
    ends = task_env.access(source, Right.MOVE), task_env.access(target, Right.MOVE)
    return task_env.do(submit.move_files(*ends, policy))


def list_folders(disk: Disk) -> set[str]:
    return {str(folder.relative_to(disk.root)) for folder in disk.root.rglob("*") if folder.is_dir()}


def test_what_there_is_time_for_is_removed_at_once(task_env: TaskEnv, disk: Disk) -> None:
    assert remove(task_env, f"{disk.mount}/d", *NAMES, "deep") == []
    (disk.root / "d/a/b").mkdir(parents=True)
    assert remove_empty(task_env, f"{disk.mount}/") == []
    assert (disk.files(), list_folders(disk)) == ({"other": b"other"}, set())


@pytest.mark.usefixtures("no_time")
def test_the_rest_is_one_task_with_the_right_to_remove_alone(task_env: TaskEnv, disk: Disk) -> None:
    task_env.may(Right.DELETE)
    (task,) = remove(task_env, f"{disk.mount}/d", *NAMES, "deep", "missing")
    assert (task.kind, task.view.name) == ("move", f"remove [{disk.mount}](/d/f00 and 31 more)")
    assert len(disk.files()) == 32
    task_env.run(task)
    assert (task_env.view(task), disk.files()) == (SUCCEEDED, {"other": b"other"})
    assert task_env.list_staged() == []


@pytest.mark.usefixtures("no_time")
def test_names_are_authorised_in_turn_and_retry_does_the_rest(task_env: TaskEnv, disk: Disk) -> None:
    (task,) = remove(task_env, f"{disk.mount}/d", *NAMES)
    rule = metas.create(path=f"{disk.mount}/d/f07", write_users=[0])
    task_env.run(task)
    state, error = task_env.view(task)
    assert state == State.FAILED and error.startswith("1 of 30 items failed: f07: ")
    assert set(disk.files()) == {"d/f07", "d/deep/er/x", "other"}
    metas.delete(rule.id)
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), set(disk.files())) == (SUCCEEDED, {"d/deep/er/x", "other"})


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("verb", ["remove", "remove_empty"])
def test_who_loses_the_right_removes_nothing_more(task_env: TaskEnv, disk: Disk, verb: str) -> None:
    (disk.root / "d/empty").mkdir()
    (task,) = remove(task_env, f"{disk.mount}/d", "f00") if verb == "remove" else remove_empty(task_env, disk.mount)
    task_env.may(ALL_RIGHTS & ~Right.DELETE)
    task_env.run(task)
    assert (task_env.view(task)[0], len(disk.files())) == (State.FAILED, 32)
    assert (disk.root / "d/empty").exists()


@pytest.mark.usefixtures("no_time")
def test_what_may_not_be_removed_is_refused_before_a_task_is_opened(task_env: TaskEnv, disk: Disk) -> None:
    task_env.rule(f"{disk.mount}/d/f29", write_users=[0])
    with pytest.raises(StorageForbidden):
        remove(task_env, f"{disk.mount}/d", *NAMES)
    assert task_env.started == []


@pytest.mark.usefixtures("no_time")
def test_a_folder_of_a_bucket_is_removed_over_many_slices(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "MAX_OBJECTS_WITHOUT_TASK", 2)
    bucket = task_env.bucket()
    for number in range(7):
        bucket.put(f"d/{number}", b"x")
    bucket.put("other", b"x")
    (task,) = remove(task_env, bucket.mount, "d")
    monkeypatch.setattr(workers, "STEP_SECONDS", 0)
    with monkeypatch.context() as patched:
        patched.setattr(workers, "get_seconds", lambda *_: 0.001)
        visited = task_env.run(task)
    assert (task_env.view(task), set(bucket.files())) == (SUCCEEDED, {"other"})
    assert visited.count("Remove") > 2


@pytest.fixture
def nested(task_env: TaskEnv, disk: Disk) -> Disk:
    for path in ("e/1/2/3", "e/1/4", "d/deep/none", "kept/below"):
        (disk.root / path).mkdir(parents=True)
    return disk


@pytest.mark.usefixtures("no_time")
def test_empty_folders_are_removed_by_a_task_from_the_deepest_on(task_env: TaskEnv, nested: Disk) -> None:
    task_env.rule(f"{nested.mount}/kept", write_users=[0], write_users_sub=True)
    (task,) = remove_empty(task_env, nested.mount)
    assert task.view.name == f"remove_empty_directory [{nested.mount}](/)"
    files = nested.files()
    task_env.run(task)
    assert (task_env.view(task), nested.files()) == (SUCCEEDED, files)
    assert list_folders(nested) == {"d", "d/deep", "d/deep/er", "kept", "kept/below"}
    assert task_env.list_staged() == []


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_removal_that_is_killed_goes_on(
    task_env: TaskEnv, nested: Disk, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pruning,) = remove_empty(task_env, f"{nested.mount}/e")
    (removal,) = remove(task_env, f"{nested.mount}/d", *NAMES)
    for task, verb in ((pruning, "remove_empty"), (removal, "remove")):
        with monkeypatch.context() as patched:
            kill_after(patched, verb, calls)
            with pytest.raises(BaseException, match="Killed"):
                task_env.run(task)
        with monkeypatch.context() as patched:
            patched.setattr(leases, "LEASE_SECONDS", 0)
            task_env.restart_process()
            task_env.run(task)
        assert task_env.view(task) == SUCCEEDED
    assert list_folders(nested) == {"e", "d", "d/deep", "d/deep/er", "d/deep/none", "kept", "kept/below"}
    assert set(nested.files()) == {"d/deep/er/x", "other"}


def kill_after(monkeypatch: pytest.MonkeyPatch, verb: str, calls: int) -> None:
    remove, left = getattr(Local, verb), [calls]

    async def remove_or_die(self: Local, path: TreePath) -> Any:
        if not left[0]:
            raise Killed("Killed")
        left[0] -= 1
        return await remove(self, path)

    monkeypatch.setattr(Local, verb, remove_or_die)


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("policy", ["cancel", "skip", "overwrite"])
def test_files_that_are_not_found_in_time_are_gathered_by_a_task(
    task_env: TaskEnv, disk: Disk, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "SAVE_INTERVAL_SECONDS", 0)
    disk.put("d/deep/f00", b"second")
    disk.put("to/x", b"taken")
    done, (task,) = move_files(task_env, f"{disk.mount}/d", f"{disk.mount}/to", policy)
    assert (done, task.view.name) == (0, f"move [{disk.mount}](/d) to [{disk.mount}](/to)")
    assert TransferSpec.load(task.spec).selection == "files" and len(disk.files()) == 34
    task_env.run(task)
    state, error = task_env.view(task)
    files = disk.files()
    assert {name: files[f"to/{name}"] for name in NAMES[1:]} == {name: name.encode() for name in NAMES[1:]}
    assert (disk.root / "d/deep/er").is_dir()
    if policy == "overwrite":
        assert (state, files["to/x"]) == (State.SUCCEEDED, b"x") and files["to/f00"] in (b"f00", b"second")
        return
    left_names = {files["to/f00"], *(files[name] for name in ("d/f00", "d/deep/f00") if name in files)}
    assert (files["to/x"], files["d/deep/er/x"], left_names) == (b"taken", b"x", {b"f00", b"second"})
    assert state == (State.FAILED if policy == "cancel" else State.SUCCEEDED)
    assert error.startswith("2 of 2 items failed: ") is (policy == "cancel")


def test_more_files_than_a_request_may_hold_are_gathered_by_a_task(
    task_env: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "MAX_FILES_PER_FLAT_MOVE", 30)
    (disk.root / "d/to").mkdir()
    task_env.rule(f"{disk.mount}/d/deep", read_users=[0], read_users_sub=True)
    disk.put("d/further/y", b"y")
    done, (task,) = move_files(task_env, f"{disk.mount}/d", f"{disk.mount}/d/to")
    assert (done, len(disk.files())) == (0, 33)
    with monkeypatch.context() as patched:
        patched.setattr(Local, "read", None)  # nothing is copied
        task_env.run(task)
    expected = {f"d/to/{name}": name.encode() for name in NAMES}
    assert task_env.view(task) == SUCCEEDED
    assert disk.files() == expected | {"d/to/y": b"y", "d/deep/er/x": b"x", "other": b"other"}
