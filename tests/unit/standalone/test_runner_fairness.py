"""The runner is fair between owners: no owner waits for all tasks of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest

from mangrove import configuration
from mangrove.identity.rights import Caller, Right
from mangrove.records import users
from mangrove.records.tasks.model import Task
from mangrove.standalone import runner
from mangrove.tasks.core import queue, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.enqueue import MAX_SINGLE_TASKS
from mangrove.tasks.transfer.declaration import TransferSpec
from tests.support.task_env import ALL_RIGHTS, Disk, TaskEnv
from tests.unit.standalone.test_runner import Machinery, done, ends, poll_often, start, wait

__all__ = ["ends", "poll_often", "start"]

CROWD_TASKS = 200
MAX_EARLIER_TASKS = 12  # tasks of the other owner that may be begun before


@dataclass
class Crowd:
    """`many` tasks of one user wait, and behind them the `last` task of another."""

    task_env: TaskEnv
    many: list[Task]
    last: Task
    ends: tuple[Disk, Disk]

    def check_is_soon(self, machinery: Machinery) -> None:
        """The last task ends while nearly all others wait."""
        wait(done(self.task_env, self.last))
        assert self.task_env.read(self.last).view.state == State.SUCCEEDED
        begun = machinery.started.index(self.last.id)
        assert begun <= MAX_EARLIER_TASKS, begun
        self.allow_work(0)

    def allow_work(self, workers: int = 2) -> None:
        self.task_env.set(copy_task_threads_num=str(workers), move_task_threads_num=str(workers))


@contextmanager
def as_other(task_env: TaskEnv) -> Iterator[None]:
    """Open tasks as another user."""
    first = task_env.user
    task_env.user = users.create(username=f"u{uuid4().hex}", password_hash="x", role=0, permission=ALL_RIGHTS)
    try:
        yield
    finally:
        task_env.user = first


def open_many(task_env: TaskEnv, ends: tuple[Disk, Disk], count: int = CROWD_TASKS) -> list[Task]:
    """Tasks of a name each: as many requests as that takes."""
    names = [f"m{number}" for number in range(count)]
    for name in names:
        ends[0].put(name, b"m")
    requests = (names[start : start + MAX_SINGLE_TASKS] for start in range(0, count, MAX_SINGLE_TASKS))
    return [task for batch in requests for task in task_env.transfer("copy", ends[0].mount, ends[1].mount, *batch)]


def open_one(task_env: TaskEnv, ends: tuple[Disk, Disk], content: bytes = b"1") -> Task:
    ends[0].put("one", content)
    with as_other(task_env):
        return task_env.copy(ends[0].mount, ends[1].mount, "one")


@pytest.fixture
def crowd(task_env: TaskEnv, ends: tuple[Disk, Disk]) -> Crowd:
    """Enqueue them while none may run."""
    task_env.set(copy_task_threads_num="0", move_task_threads_num="0")
    return Crowd(task_env, open_many(task_env, ends), open_one(task_env, ends), ends)


def test_single_task_is_early_despite_hundreds_of_other_owner(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    task_env.set(copy_task_threads_num="0")
    machinery = start()
    crowd = Crowd(task_env, open_many(task_env, ends), open_one(task_env, ends), ends)
    crowd.allow_work()
    crowd.check_is_soon(machinery)


def test_after_a_restart_too(crowd: Crowd, start: Callable[[], Machinery]) -> None:
    machinery = start()  # resumes from the records the tasks that were never started
    wait(lambda: count_waiting(machinery, crowd.last) == CROWD_TASKS + 1)
    crowd.allow_work()
    crowd.check_is_soon(machinery)


def count_waiting(machinery: Machinery, task: Task) -> int:
    """Return how many tasks of its kind wait in the runner."""
    return len(list(machinery.runner._queues[task.kind]))


def test_a_task_that_is_retried_waits_for_its_turn_and_not_for_all(
    crowd: Crowd, start: Callable[[], Machinery]
) -> None:
    task_env, machinery = crowd.task_env, start()
    wait(lambda: count_waiting(machinery, crowd.last) == CROWD_TASKS + 1)
    owner = users.get(crowd.last.owner)
    users.change(owner.id, permission=0)
    crowd.allow_work()
    wait(done(task_env, crowd.last))
    assert task_env.read(crowd.last).view.state == State.FAILED
    crowd.allow_work(0)
    users.change(owner.id, permission=ALL_RIGHTS)
    queue.retry("copy", crowd.last.id, Caller(users.get(owner.id), Right.READ))
    crowd.allow_work()
    wait(lambda: task_env.read(crowd.last).view.state == State.SUCCEEDED)
    assert not any(task_env.read(task_of_many).done for task_of_many in crowd.many[-20:])
    assert machinery.started.count(crowd.last.id) == 2


def test_follow_up_task_does_not_wait_for_whole_queue(crowd: Crowd, start: Callable[[], Machinery]) -> None:
    task_env = crowd.task_env
    task_env.set(decompress_upload_task_threads_num="0")
    task_env.do(configuration.get())
    machinery = start()
    for task in (*crowd.many, crowd.last):
        queue.chain("decompress_upload", task, queue.get_stage(task), "", TransferSpec.load(task.spec), 0)
    chained = [queue.find_chained(queue.get_stage(task)) for task in (crowd.many[0], crowd.last)]
    first, last = (task for task in chained if task is not None)
    wait(lambda: count_waiting(machinery, last) == CROWD_TASKS + 1)
    task_env.set(decompress_upload_task_threads_num="1")
    wait(done(task_env, last))
    assert machinery.started[:2] == [first.id, last.id]
    task_env.set(decompress_upload_task_threads_num="0")


def test_the_tasks_of_a_removed_user_hold_nobody_up(crowd: Crowd, start: Callable[[], Machinery]) -> None:
    machinery = start()
    users.delete(crowd.many[0].owner)
    wait(lambda: count_waiting(machinery, crowd.last) == CROWD_TASKS + 1)
    crowd.allow_work()
    crowd.check_is_soon(machinery)


def test_hundreds_of_tasks_that_are_cancelled_at_once_hold_nobody_up(
    crowd: Crowd, start: Callable[[], Machinery]
) -> None:
    task_env, machinery = crowd.task_env, start()
    wait(lambda: count_waiting(machinery, crowd.last) == CROWD_TASKS + 1)
    machinery.go_on.clear()
    for task in crowd.many:
        queue.cancel("copy", task.id, task_env.caller())
    crowd.allow_work()
    wait(lambda: crowd.last.id in machinery.started)
    assert machinery.most <= runner.STOPPING + 2
    machinery.go_on.set()
    wait(done(task_env, crowd.last))
    for task in crowd.many:
        wait(done(task_env, task))
        assert task_env.view(task) == (State.CANCELED, "context canceled")


def test_work_that_takes_long_makes_room_between_two_slices_and_goes_on(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    task_env.set(copy_task_threads_num="1")
    for number in range(40):
        ends[0].put(f"tree/d{number}/f", b"%d" % number)  # a slice for each folder
    machinery = start()
    machinery.go_on.clear()
    large = task_env.copy(ends[0].mount, ends[1].mount, "tree")
    wait(lambda: large.id in machinery.started)
    small = open_one(task_env, ends)
    machinery.go_on.set()
    wait(lambda: len(machinery.settled) == 2)
    assert machinery.settled == [small.id, large.id]
    assert [task_env.read(task).view.state for task in (small, large)] == [State.SUCCEEDED] * 2
    assert len(ends[1].files()) == 41


def test_a_task_that_made_room_can_be_cancelled(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    task_env.set(copy_task_threads_num="1")
    for number in range(40):
        ends[0].put(f"tree/d{number}/f", b"%d" % number)
    machinery = start()
    machinery.go_on.clear()
    large = task_env.copy(ends[0].mount, ends[1].mount, "tree")
    wait(lambda: large.id in machinery.started)
    small = open_one(task_env, ends)
    task_env.set(copy_task_threads_num="0")
    machinery.go_on.set()
    wait(lambda: count_waiting(machinery, large) == 2 or task_env.read(large).done)
    queue.cancel("copy", large.id, task_env.caller())
    wait(done(task_env, large))
    assert task_env.view(large) == (State.CANCELED, "context canceled")
    assert not task_env.read(small).done
