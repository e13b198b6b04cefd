"""A large transfer that several workers copy: the result equals that of a single one, even if some workers die."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pytest

from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import Task, TaskView
from mangrove.tasks.core import queue, sharing, staging
from mangrove.tasks.core.model import State
from mangrove.tasks.core.steps import CANCELED
from mangrove.tasks.transfer import batches
from mangrove.tasks.transfer import parts as transfer_parts
from mangrove.tasks.transfer.declaration import TransferCursor
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED

FILES = {f"d/{first}/{number}": f"{first}{number}".encode() for first in "abc" for number in range(4)}


@pytest.fixture
def source(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A tree of 16 rows, of which workers copy four each; two of them run concurrently."""
    monkeypatch.setattr(sharing, "is_shared", lambda: True)
    monkeypatch.setattr(transfer_parts, "MIN_SHARED_ROWS", 2)
    monkeypatch.setattr(transfer_parts, "MAX_PARTS", 2)
    monkeypatch.setattr(staging, "ROWS_PER_FILE", 4)
    disk = task_env.disk()
    for name, content in FILES.items():
        disk.put(name, content)
    return disk


def write_all(name: str, nth: int) -> None:
    """As in the cloud, every slice is written to the record."""


def die(times: int, made: list[str]) -> Callable[[str, int], None]:
    """The first workers of parts die, before they begin."""

    def before(name: str, nth: int) -> None:
        made.append(name)
        if name == "Part" and made.count("Part") <= times:
            raise type("Runtime.ExitError", (Exception,), {})("the function died")

    return before


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_all_is_carried_and_counted_once(task_env: TaskEnv, source: Disk, verb: str) -> None:
    target = task_env.disk()
    task = getattr(task_env, verb)(source.mount, target.mount, "d")
    visited = task_env.run(task, write_all)
    assert visited.count("Share") == 2  # two parts each, and the last rows are too few
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    assert source.files() == ({} if verb == "move" else FILES)
    assert TransferCursor.load(task_env.read(task).cursor).bytes_done == sum(map(len, FILES.values()))
    assert task_env.list_staged() == []


def test_what_a_dead_worker_leaves_another_does(task_env: TaskEnv, source: Disk) -> None:
    target, made = task_env.disk(), list[str]()
    task = task_env.move(source.mount, target.mount, "d")
    task_env.run(task, die(3, made))
    assert made.count("Part") > 4
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, FILES)


@pytest.mark.long
def test_a_slice_of_a_part_goes_on_where_the_one_before_came_to(
    task_env: TaskEnv, source: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.tasks.core.steps.Run.has_time", lambda run: False)
    target, made = task_env.disk(), list[str]()
    task = task_env.copy(source.mount, target.mount, "d")
    task_env.run(task, die(0, made))
    assert made.count("Part") > 8
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)


def test_parts_of_which_nothing_comes_end_the_task_and_a_retry_begins_anew(task_env: TaskEnv, source: Disk) -> None:
    target = task_env.disk()
    task = task_env.copy(source.mount, target.mount, "d")

    def fail(name: str, nth: int) -> None:
        if name == "Part":
            raise KeyError(name)

    assert task_env.run(task, fail).count("Share") == sharing.MAX_FRUITLESS_ROUNDS
    assert task_env.view(task) == (State.FAILED, transfer_parts.PART_LOST)
    task_env.started.clear()
    queue.retry("copy", task.id, task_env.caller())
    task_env.run_all(write_all)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)


def test_what_fails_is_named_and_tried_again(task_env: TaskEnv, source: Disk) -> None:
    target = task_env.disk()
    task = task_env.copy(source.mount, target.mount, "d")

    def take(name: str, nth: int) -> None:
        if (name, nth) == ("Part", 0):
            target.put("d/b/1", b"theirs")
            target.put("d/c/2", b"theirs")

    task_env.run(task, take)
    state, error = task_env.view(task)
    assert state == State.FAILED and error.startswith("2 of 16 items failed: ")
    assert "b/1: file exists" in error and "c/2: file exists" in error
    (target.root / "d/b/1").unlink()
    (target.root / "d/c/2").unlink()
    task_env.started.clear()
    queue.retry("copy", task.id, task_env.caller())
    task_env.run_all(write_all)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)


def test_a_cancelled_task_has_its_workers_end(task_env: TaskEnv, source: Disk) -> None:
    target = task_env.disk()
    task = task_env.copy(source.mount, target.mount, "d")

    def cancel(name: str, nth: int) -> None:
        if (name, nth) == ("Part", 0):
            queue.cancel("copy", task.id, task_env.caller())

    task_env.run(task, cancel)
    assert task_env.view(task) == (State.CANCELED, CANCELED)
    assert target.files() == {}


def test_what_workers_have_copied_is_shown_while_others_are_at_work(
    task_env: TaskEnv, source: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = task_env.disk()
    task = task_env.copy(source.mount, target.mount, "d")
    shown, writes, one_by_one = list[float](), list[str](), threading.Lock()
    touch = tasks.touch

    def count(task: Task, view: TaskView | None = None) -> bool:
        writes.append(task.id)
        return touch(task, view)

    monkeypatch.setattr(tasks, "touch", count)
    monkeypatch.setattr(batches, "SAVE_INTERVAL_SECONDS", 0)

    def work(name: str, nth: int) -> None:
        with one_by_one:
            if name == "Part" and not shown:
                for part in (0, 1, 1):  # the first rows are folders
                    task_env.do(sharing.work_on(transfer_parts.copy_part, task.id, 0, part, 5.0))
                    there = sum(len(FILES[name]) for name in target.files())
                    shown.append(task_env.read(task).view.progress)
                    assert shown[-1] == pytest.approx(there / sum(map(len, FILES.values())) * 100, abs=1e-3)
                assert len(writes) == 1, "at the end of the slice, where less than two seconds had gone by"

    task_env.run(task, work)
    assert shown[0] == 0 < shown[1] == shown[2] < 100
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    assert task_env.read(task).view.progress == 100


def test_long_step_reports_progress_unless_worker_holds_task(task_env: TaskEnv, source: Disk) -> None:
    async def tell(task: Task, done: int) -> float:
        run = transfer_parts.TransferPartRun(task, 5.0)
        run.show_progress(done)
        await run.look()
        return task_env.read(task).view.progress

    task = task_env.copy(source.mount, task_env.disk().mount, "d")
    tasks.acquire_lease(task.id, "token", 30.0)
    view = replace(task_env.read(task).view, total_bytes=1000)
    held = tasks.save(task_env.read(task), "token", 30.0, view=view)
    assert task_env.do(tell(held, 100)) == 0
    released = tasks.save(held, "token", 0)
    assert task_env.do(tell(released, 100)) == 0, "somebody wrote less than two seconds ago"
    with patch.object(transfer_parts, "PROGRESS_INTERVAL_SECONDS", 0.0):
        assert task_env.do(tell(released, 100)) == 10
        assert task_env.do(tell(released, 50)) == 15, "of another worker"


def test_a_worker_does_nothing_that_is_not_handed_out(task_env: TaskEnv, source: Disk) -> None:
    target = task_env.disk()
    task = task_env.copy(source.mount, target.mount, "d")
    seen, one_by_one = list[bool](), threading.Lock()

    def work(task: Task, part: int, round: int = 0) -> bool:
        return task_env.do(sharing.work_on(transfer_parts.copy_part, task.id, round, part, 5.0))

    def look(name: str, nth: int) -> None:
        with one_by_one:
            if name == "Part" and not seen:
                seen.extend([work(task, 2), work(task, 0, round=1), bool(target.files())])
                seen.extend([work(task, 1), work(task, 1), bool(target.files())])
                tasks.touch(task_env.read(task))

    task_env.run(task, look)
    seen.append(work(task, 0))
    assert seen == [False, False, False, False, False, True, False]
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
