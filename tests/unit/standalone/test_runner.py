"""The runner of the standalone service: the number of running tasks, their order, and the tasks that a start
resumes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mangrove import configuration
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.records.store.encryption import DecryptionError
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.standalone import machines, runner
from mangrove.standalone.leader import TaskLeader
from mangrove.standalone.machines import LoadedMachine
from mangrove.standalone.runner import Runner
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.core.workers import StateHandler
from tests.support.platforms import use_dispatcher
from tests.support.task_env import Disk, TaskEnv

WAIT_SECONDS = 120.0


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.02)


class Machinery:
    """A running Runner. `most`: the maximum number of concurrent workers."""

    def __init__(self, task_env: TaskEnv, loaded: dict[str, LoadedMachine]) -> None:
        self._task_env = task_env
        self._lock = threading.Lock()
        self._at_work = 0
        self.most = 0
        self.started: list[str] = []
        self.settled: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self._running = task_env.do(self._start(loaded))

    async def _start(self, loaded: dict[str, LoadedMachine]) -> asyncio.Task[None]:
        counted = {
            kind: (machine, {name: self._count(name, handler) for name, handler in handlers.items()})
            for kind, (machine, handlers) in loaded.items()
        }
        self.runner, leader = Runner(counted), TaskLeader()
        leader.lead(self.runner)
        use_dispatcher(leader)
        return asyncio.create_task(self.runner.run())

    def _count(self, state: str, handler: StateHandler) -> StateHandler:
        async def count(event: dict[str, Any], context: Any) -> Any:
            with self._lock:
                self._at_work += 1
                self.most = max(self.most, self._at_work)
                if state == "Plan":
                    self.started.append(event["tid"])
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    while not self.go_on.is_set():  # noqa: ASYNC110 - another thread sets it
                        await asyncio.sleep(0.01)
                result = await handler.work(event, context)
                if state == "Settle":
                    self.settled.append(event["tid"])
                return result
            finally:
                with self._lock:
                    self._at_work -= 1

        return StateHandler(count)

    def has_started(self) -> bool:
        """Return True if it has queued the unfinished tasks that it found."""
        taking_up: asyncio.Task[None] | None = vars(self.runner).get("_taking_up")
        return taking_up is not None and taking_up.done()

    def stop(self) -> None:
        self.go_on.set()
        wait(lambda: self._at_work == 0)

        async def cancel() -> None:
            self._running.cancel()
            await asyncio.wait([self._running])

        self._task_env.do(cancel())


@pytest.fixture
def start(task_env: TaskEnv) -> Iterator[Callable[..., Machinery]]:
    """Starts the runner, as `mangrove serve` does at its start."""
    started: list[Machinery] = []

    def begin(loaded: dict[str, LoadedMachine] | None = None) -> Machinery:
        started.append(Machinery(task_env, loaded or machines.load_machines()))
        return started[-1]

    yield begin
    for machinery in started:
        machinery.stop()


@pytest.fixture
def ends(task_env: TaskEnv) -> tuple[Disk, Disk]:
    return task_env.disk(), task_env.disk()


def copies(task_env: TaskEnv, ends: tuple[Disk, Disk], count: int) -> list[Task]:
    """So many tasks, a file each."""
    for number in range(count):
        ends[0].put(f"f{number}", b"%d" % number)
    return task_env.transfer("copy", ends[0].mount, ends[1].mount, *(f"f{number}" for number in range(count)))


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def done(task_env: TaskEnv, task: Task) -> Callable[[], bool]:
    return lambda: task_env.read(task).done


def is_gone(task: Task) -> bool:
    """Return True if a task has no record any more."""
    try:
        records.get(task.id)
    except RecordNotFound:
        return True
    return False


def test_tasks_start_while_the_settings_cannot_be_read(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason is, they start by the settings that were read last."""

    async def fail() -> None:
        raise DecryptionError

    unread = SimpleNamespace(get=fail, is_fresh=lambda: False, cached=configuration.cached)
    monkeypatch.setattr(runner, "configuration", unread)
    start()
    (task,) = copies(task_env, ends, 1)
    wait(done(task_env, task))


def test_concurrency_follows_setting_with_oldest_task_first(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    task_env.set(copy_task_threads_num="2")
    machinery = start()
    machinery.go_on.clear()
    tasks = copies(task_env, ends, 6)
    wait(lambda: machinery.most == 2)
    machinery.go_on.set()
    for task in tasks:
        wait(done(task_env, task))
    assert machinery.most == 2
    assert set(machinery.started[:2]) == {task.id for task in tasks[:2]}
    assert sorted(machinery.started) == sorted(task.id for task in tasks)
    assert len(ends[1].files()) == 6


def test_the_number_of_workers_follows_the_setting_at_once_up_and_down(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    task_env.set(copy_task_threads_num="0")
    machinery = start()
    machinery.go_on.clear()
    tasks = copies(task_env, ends, 5)
    time.sleep(0.1)
    assert machinery.started == []
    task_env.set(copy_task_threads_num="3")
    wait(lambda: len(machinery.started) == 3)
    task_env.set(copy_task_threads_num="1")
    machinery.go_on.set()
    for task in tasks:
        wait(done(task_env, task))
    assert machinery.most == 3
    assert [task_env.view(task)[0] for task in tasks] == [State.SUCCEEDED] * 5


@pytest.mark.parametrize("verb", [queue.cancel, queue.delete])
def test_stopped_waiting_task_ends_even_if_none_may_run(
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
    wait(done(task_env, first))
    wait(done(task_env, third))
    if verb is queue.cancel:
        assert machinery.started.count(second.id) == 1
    assert sorted(ends[1].files()) == ["f0", "f2"]


def test_start_resumes_unfinished_tasks_and_drops_dead_leases(
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
    platform().dispatcher.start(task)
    platform().dispatcher.start(task)
    wait(done(task_env, task))
    assert task_env.view(task) == (State.SUCCEEDED, "")
    assert ends[1].files() == {"f0": b"0"}


def test_what_is_started_after_the_runner_ended_waits_for_the_next_one(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[[], Machinery]
) -> None:
    async def count_work() -> int:
        return len(asyncio.all_tasks())

    start().stop()
    before = task_env.do(count_work())
    (task,) = copies(task_env, ends, 1)
    assert task_env.do(count_work()) == before
    start()
    wait(done(task_env, task))
    assert task_env.view(task) == (State.SUCCEEDED, "")


def test_a_machine_that_fails_for_good_leaves_the_others_running(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[..., Machinery]
) -> None:
    (first,) = copies(task_env, ends, 1)
    loaded = machines.load_machines()
    for machine, handlers in loaded.values():
        for state in machine.states.values():
            for rule in state.get("Retry", []):
                rule["IntervalSeconds"] = 0
        handlers["Settle"] = refuse(first.id, handlers["Settle"])
    task_env.set(copy_task_threads_num="1")
    machinery = start(loaded)
    wait(lambda: first.id in machinery.started)
    ends[0].put("g", b"g")
    second = task_env.copy(ends[0].mount, ends[1].mount, "g")
    wait(done(task_env, second))
    assert not task_env.read(first).done


def refuse(id: str, handler: StateHandler) -> StateHandler:
    """The handler, which fails for one task."""

    async def fail_for_one(event: dict[str, Any], context: Any) -> Any:
        if event["tid"] == id:
            raise Problem("never")
        return await handler.work(event, context)

    return StateHandler(fail_for_one)


def test_a_task_whose_turn_it_is_when_it_is_opened_is_not_read_again(
    task_env: TaskEnv, ends: tuple[Disk, Disk], start: Callable[..., Machinery], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = task_batches.read, list[str]()

    def note(ids: Sequence[str]) -> list[Task]:
        reads.extend(ids)
        return read(ids)

    monkeypatch.setattr(task_batches, "read", note)
    machinery = start()
    wait(machinery.has_started)
    (task,) = copies(task_env, ends, 1)
    wait(lambda: records.get(task.id).done)
    assert (task_env.view(task), reads) == ((State.SUCCEEDED, ""), [])
