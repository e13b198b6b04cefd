"""Tasks over many names: one record for all of them; each name is authorised separately, and none is lost by a
crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.core import deadlines
from mangrove.core.problems import Problem
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Right
from mangrove.records.tasks.model import Task
from mangrove.tasks import enqueue, submit
from mangrove.tasks.core import queue, staging, steps
from mangrove.tasks.core.model import ManifestEntry, State
from mangrove.tasks.transfer import worker
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.operations.plans import MAX_NAMES_PER_REQUEST
from tests.support.task_env import ALL_RIGHTS, TaskEnv

SUCCEEDED = (State.SUCCEEDED, "")
NAMES = [f"f{number:02}" for number in range(30)]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give requests no time for any work."""
    monkeypatch.setattr(deadlines.TimeBudget, "covers", lambda *_: False)
    yield


def fill(side: Any, folder: str = "d", names: list[str] = NAMES) -> dict[str, bytes]:
    files = {f"{folder}/{name}": name.encode() for name in names}
    for key, content in files.items():
        side.put(key, content)
    return files


def rename_all(task_env: TaskEnv, folder: str, **new_names: str) -> list[Task]:
    return task_env.do(submit.rename_all(task_env.access(folder, Right.RENAME), new_names))


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_many_names_are_one_task_that_carries_them_all(task_env: TaskEnv, verb: str) -> None:
    source, target = task_env.disk(), task_env.disk()
    fill(source)
    source.put("d/deep/er/x", b"x")
    (task,) = task_env.transfer(verb, f"{source.mount}/d", target.mount, *NAMES, "deep")
    assert task.view.name == f"{verb} [{source.mount}](/d/f00 and 30 more) to [{target.mount}](/)"
    task_env.run(task)
    expected = {name: name.encode() for name in NAMES} | {"deep/er/x": b"x"}
    assert (task_env.view(task), target.files()) == (SUCCEEDED, expected)
    assert len(source.files()) == (31 if verb == "copy" else 0)
    assert (source.root / "d").is_dir() and (source.root / "d/deep").exists() is (verb == "copy")
    assert task_env.list_staged() == []


def test_a_few_names_have_a_task_each(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    fill(source)
    tasks = task_env.transfer("copy", f"{source.mount}/d", target.mount, *NAMES[: enqueue.MAX_SINGLE_TASKS])
    assert [TransferSpec.load(task.spec).count for task in tasks] == [0] * enqueue.MAX_SINGLE_TASKS


def test_what_fails_is_named_and_a_retry_does_what_is_missing(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    fill(source)
    (task,) = task_env.transfer("move", f"{source.mount}/d", target.mount, *NAMES)
    (source.root / "d/f03").unlink()
    source.put("d/f04", b"another by now")
    task_env.run(task)
    state, error = task_env.view(task)
    assert state == State.FAILED and error.startswith("2 of 30 items failed: f03: ") and "; f04: " in error
    assert set(source.files()) == {"d/f04"} and len(target.files()) == 28
    source.put("d/f03", b"back")
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert target.files() == {name: name.encode() for name in NAMES} | {"f03": b"back", "f04": b"another by now"}


def test_each_name_is_judged_when_its_turn_comes(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    fill(source)
    source.put("d/sub/x", b"x")
    (task,) = task_env.transfer("copy", f"{source.mount}/d", target.mount, *NAMES, "sub")
    task_env.rule(f"{source.mount}/d/f07", read_users=[0])
    task_env.rule(f"{source.mount}/d/sub/x", read_users=[0])
    task_env.run(task)
    state, error = task_env.view(task)
    assert (state, error.count("permission")) == (State.FAILED, 2) and "f07: " in error and "sub: " in error
    assert set(target.files()) == {*NAMES} - {"f07"}


def test_who_loses_the_right_does_not_finish(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    files = fill(source)
    (task,) = task_env.transfer("move", f"{source.mount}/d", target.mount, *NAMES)
    task_env.may(ALL_RIGHTS & ~Right.MOVE)
    task_env.run(task)
    assert (task_env.view(task)[0], source.files(), target.files()) == (State.FAILED, files, {})


@pytest.mark.usefixtures("no_time")
def test_what_there_is_no_time_for_the_storage_moves_in_the_task(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = task_env.disk()
    fill(disk)
    disk.put("d/deep/x", b"x")
    disk.put("to/other", b"other")
    monkeypatch.setattr(task_env.driver(disk.mount), "read", None)  # nothing is copied
    (task,) = task_env.transfer("move", f"{disk.mount}/d", f"{disk.mount}/to", *NAMES, "deep")
    assert len(disk.files()) == 32 and "to/f00" not in disk.files()
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    expected = {f"to/{name}": name.encode() for name in NAMES}
    assert disk.files() == expected | {"to/deep/x": b"x", "to/other": b"other"}


@pytest.mark.usefixtures("no_time")
def test_many_renames_are_one_task_with_the_right_to_rename_alone(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    fill(disk)
    task_env.may(Right.RENAME)
    (task,) = rename_all(task_env, f"{disk.mount}/d", **{name: f"new-{name}" for name in NAMES})
    assert (task.kind, TransferSpec.load(task.spec).selection) == ("move", "renamed_list")
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert disk.files() == {f"d/new-{name}": name.encode() for name in NAMES}


@pytest.mark.usefixtures("no_time")
def test_all_files_of_a_tree_are_gathered_by_one_task(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    fill(disk, "d/a/b", NAMES[:15])
    fill(disk, "d/c", NAMES[15:])
    (disk.root / "to").mkdir()
    ends = task_env.access(f"{disk.mount}/d", Right.MOVE), task_env.access(f"{disk.mount}/to", Right.MOVE)
    done, (task,) = task_env.do(submit.move_files(*ends, "cancel"))
    task_env.run(task)
    assert (done, task_env.view(task)) == (0, SUCCEEDED)
    assert disk.files() == {f"to/{name}": name.encode() for name in NAMES}
    assert (disk.root / "d/a/b").is_dir()


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("moved", [0, 5, 29])
def test_killed_while_the_storage_moves_names_the_task_goes_on(
    task_env: TaskEnv, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are moved, folders too, and the record does not know."""
    disk = task_env.disk()
    fill(disk)
    disk.put("d/deep/x", b"x")
    (disk.root / "to").mkdir()
    (task,) = task_env.transfer("move", f"{disk.mount}/d", f"{disk.mount}/to", "deep", *NAMES)
    kill_after(monkeypatch, moved)
    with pytest.raises(BaseException, match="Killed"):
        task_env.run(task)
    monkeypatch.undo()
    monkeypatch.setattr(steps.leases, "LEASE_SECONDS", 0)
    task_env.restart_process()
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert disk.files() == {f"to/{name}": name.encode() for name in NAMES} | {"to/deep/x": b"x"}


def kill_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    move, left = Local.move, [calls]

    async def move_or_die(self: Local, *args: Any, **options: Any) -> None:
        if not left[0]:
            raise Killed("Killed")
        left[0] -= 1
        await move(self, *args, **options)

    monkeypatch.setattr(Local, "move", move_or_die)


def test_a_lost_list_fails_the_task_and_nothing_else_is_taken(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    fill(source)
    source.put("d/unnamed", b"unnamed")
    (task,) = task_env.transfer("copy", f"{source.mount}/d", target.mount, *NAMES)
    (task_env.folder / "staging" / task.id / "names-000000").unlink()
    for _ in range(2):
        task_env.run(task)
        assert task_env.view(task) == (State.FAILED, staging.ListLost.text)
        queue.retry("copy", task.id, task_env.caller())
    assert target.files() == {}


def test_a_task_that_cannot_be_opened_leaves_no_list(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> list[Task]:
        raise Problem("the task cannot be started")

    source, target = task_env.disk(), task_env.disk()
    fill(source)
    monkeypatch.setattr(queue, "enqueue_many", refuse)
    with pytest.raises(Problem, match="the task cannot be started"):
        task_env.transfer("copy", f"{source.mount}/d", target.mount, *NAMES)
    assert task_env.list_staged() == []


def test_a_task_that_is_deleted_before_it_began_leaves_no_list(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    fill(source)
    (task,) = task_env.transfer("copy", f"{source.mount}/d", target.mount, *NAMES)
    queue.delete("copy", task.id, task_env.caller())
    task_env.run_all()
    assert (task_env.is_queued(task), task_env.list_staged(), target.files()) == (False, [], {})


def test_the_longest_names_of_the_largest_request_fit(task_env: TaskEnv) -> None:
    """A record has 400 KB; this list has 2.5 MB."""
    source, target = task_env.disk(), task_env.disk()
    names = [f"{number:05}".ljust(255, "x") for number in range(MAX_NAMES_PER_REQUEST)]
    rows = (ManifestEntry(name, 1, 1.0, False, "") for name in names)
    (source.root / names[0]).write_bytes(b"x")
    access = task_env.access(source.mount, Right.COPY)

    def make_spec(count: int) -> TransferSpec:
        return TransferSpec(
            source=source.mount, target_dir=target.mount, name="", overwrite=False, selection="list", count=count
        )

    task = task_env.do(enqueue.enqueue_list("copy", access, "copy", rows, make_spec))
    paths = list[str]()

    async def read() -> None:
        async for part in staging.read_requested(task.id, MAX_NAMES_PER_REQUEST, 0):
            paths.extend(row.path for row in part)

    task_env.do(read())
    assert paths == names and len(task.spec) < 20
    assert worker.MAX_PLANNED_BATCH < MAX_NAMES_PER_REQUEST
