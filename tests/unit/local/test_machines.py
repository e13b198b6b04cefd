"""The runner of one machine: so many at once, live settings, who goes first, what a start takes up; and the clock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from mangrove.local import machines, scheduler
from mangrove.local.machines import Runner
from mangrove.problems import Problem
from mangrove.records import tasks as records
from mangrove.records.base import RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks import machines as starters
from mangrove.tasks import queue, steps
from mangrove.tasks.kinds import State
from tests.task_env import Disk, TaskEnv

SECONDS = 10.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "LOOK_SECONDS", 0.02)


class Machinery:
    """A running Runner. `most`: how many workers were seen at work at once."""

    def __init__(self, task_env: TaskEnv) -> None:
        self._ground = task_env
        self._lock = threading.Lock()
        self._at_work = 0
        self.most = 0
        self.began: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self._live = task_env.do(self._start())

    async def _start(self) -> asyncio.Task[None]:
        runner = Runner()
        for _, handlers in runner._machines.values():
            for name, handler in handlers.items():
                handlers[name] = self._counted(name, handler)
        return asyncio.create_task(runner.live())

    def _counted(self, state: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        def counted(event: dict[str, Any], context: Any) -> Any:
            with self._lock:
                self._at_work += 1
                self.most = max(self.most, self._at_work)
                if state == "Plan":
                    self.began.append(event["tid"])
            try:
                assert self.hold.wait(SECONDS)
                return handler(event, context)
            finally:
                with self._lock:
                    self._at_work -= 1

        return counted

    def stop(self) -> None:
        self.hold.set()
        wait(lambda: self._at_work == 0)

        async def stopped() -> None:
            self._live.cancel()
            await asyncio.wait([self._live])

        self._ground.do(stopped())


@pytest.fixture
def start(task_env: TaskEnv) -> Iterator[Callable[[], Machinery]]:
    """Starts the runner, as `mangrove serve` does at its start."""
    made: list[Machinery] = []

    def begin() -> Machinery:
        made.append(Machinery(task_env))
        return made[-1]

    yield begin
    for one in made:
        one.stop()


@pytest.fixture
def ends(task_env: TaskEnv) -> tuple[Disk, Disk]:
    return task_env.disk(), task_env.disk()


def copies(task_env: TaskEnv, ends: tuple[Disk, Disk], count: int) -> list[Task]:
    """So many tasks, a file each."""
    for number in range(count):
        ends[0].put(f"f{number}", b"%d" % number)
    return task_env.transfer("copy", ends[0].mount, ends[1].mount, *(f"f{number}" for number in range(count)))


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def done(task_env: TaskEnv, task: Task) -> Callable[[], bool]:
    return lambda: task_env.read(task).done


def is_gone(task: Task) -> bool:
    """Whether there is no record of a task any more."""
    try:
        records.get(task.id)
    except RecordMissing:
        return True
    return False


def test_as_many_tasks_of_a_kind_run_at_once_as_the_setting_says_the_oldest_first(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    task_env.set(copy_task_threads_num="2")
    machinery = start()
    machinery.hold.clear()
    tasks = copies(task_env, ends, 6)
    wait(lambda: machinery.most == 2)
    machinery.hold.set()
    for task in tasks:
        wait(done(task_env, task))
    assert machinery.most == 2
    assert set(machinery.began[:2]) == {task.id for task in tasks[:2]}
    assert sorted(machinery.began) == sorted(task.id for task in tasks)
    assert len(ends[1].files()) == 6


def test_the_number_of_workers_follows_the_setting_at_once_up_and_down(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    task_env.set(copy_task_threads_num="0")
    machinery = start()
    machinery.hold.clear()
    tasks = copies(task_env, ends, 5)
    time.sleep(0.1)
    assert machinery.began == []
    task_env.set(copy_task_threads_num="3")
    wait(lambda: len(machinery.began) == 3)
    task_env.set(copy_task_threads_num="1")
    machinery.hold.set()
    wait(done(task_env, tasks[-1]))
    assert machinery.most == 3
    assert [task_env.view(task)[0] for task in tasks] == [State.SUCCEEDED] * 5


@pytest.mark.parametrize("verb", [queue.cancel, queue.delete])
def test_a_task_that_waits_for_a_worker_ends_at_once_when_it_is_stopped_also_when_none_may_work(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], verb: Callable[..., None]
) -> None:
    task_env.set(copy_task_threads_num="0")
    machinery = start()
    first, second, third = copies(task_env, ends, 3)
    verb("copy", second.id, task_env.caller())
    if verb is queue.cancel:
        wait(done(task_env, second))
        assert task_env.view(second) == (State.CANCELED, "context canceled")
    else:
        assert not task_env.is_queued(second)
        wait(lambda: is_gone(second))
    assert not task_env.read(first).done
    task_env.set(copy_task_threads_num="1")
    wait(done(task_env, third))
    assert machinery.began.count(second.id) == 1
    assert sorted(ends[1].files()) == ["f0", "f2"]


def test_a_start_takes_up_what_was_left_undone_and_forgets_the_leases_of_the_dead(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    waiting, held, deleted = copies(task_env, ends, 3)
    records.acquire_lease(held.id, "a worker of the last process", 3600)
    records.acquire_lease(deleted.id, "another one", 3600)
    queue.delete("copy", deleted.id, task_env.caller())
    start()
    for task in (waiting, held):
        wait(done(task_env, task))
        assert task_env.view(task)[0] == State.SUCCEEDED
    wait(lambda: is_gone(deleted))
    assert sorted(ends[1].files()) == ["f0", "f1"]


def test_a_task_that_is_started_twice_is_done_once(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    start()
    (task,) = copies(task_env, ends, 1)
    starters.start(task)
    starters.start(task)
    wait(done(task_env, task))
    assert task_env.view(task) == (State.SUCCEEDED, "")
    assert ends[1].files() == {"f0": b"0"}


def test_a_machine_that_fails_for_good_takes_nobody_along(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = steps.settle
    (first,) = copies(task_env, ends, 1)

    async def broken(id: str, *more: Any) -> None:
        if id == first.id:
            raise Problem("never")
        await settle(id, *more)

    monkeypatch.setattr(steps, "settle", broken)
    task_env.set(copy_task_threads_num="1")
    monkeypatch.setattr(machines.Machine, "__init__", _impatient(machines.Machine.__init__))
    machinery = start()
    wait(lambda: first.id in machinery.began)
    ends[0].put("g", b"g")
    second = task_env.copy(ends[0].mount, ends[1].mount, "g")
    wait(done(task_env, second))
    assert not task_env.read(first).done


def _impatient(made: Callable[..., None]) -> Callable[..., None]:
    """Machines without any pause between two tries."""

    def init(machine: Any, definition: dict[str, Any]) -> None:
        made(machine, definition)
        for state in machine.states.values():
            for rule in state.get("Retry", []):
                rule["IntervalSeconds"] = 0

    return init


def test_the_clock_runs_what_the_template_schedules(monkeypatch: pytest.MonkeyPatch, task_env: TaskEnv) -> None:
    assert scheduler.schedules() == [("functions.workers.sweep.app.handler", 3600)]
    from functions.workers.sweep import app

    called: list[float] = []

    def handler(event: dict[str, Any], context: Any) -> None:
        called.append(time.monotonic())
        app_handler(event, context)
        if len(called) == 2:
            raise ValueError("one bad run does not end the clock")

    app_handler = app.handler
    monkeypatch.setattr(app, "handler", handler)
    monkeypatch.setattr(scheduler, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(scheduler, "UNITS", {"hour": 0.02})

    async def some_time() -> None:
        running = asyncio.create_task(scheduler.run())
        while len(called) < 4:
            await asyncio.sleep(0.01)
            assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(some_time(), SECONDS))
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(called))


@pytest.mark.parametrize("expression", ["cron(0 * * * ? *)", "rate(1 week)", "at(2026-01-01T00:00:00)"])
def test_a_schedule_that_is_no_rate_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    event = {"Type": "ScheduleV2", "Properties": {"ScheduleExpression": expression}}
    function = {"Properties": {"CodeUri": "functions/x/", "Events": {"E": event}}}
    monkeypatch.setattr(scheduler, "resources", lambda kind: [("X", function)])
    with pytest.raises(ValueError, match="is not one that runs here"):
        scheduler.schedules()
