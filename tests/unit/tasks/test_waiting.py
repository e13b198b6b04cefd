"""Tasks that wait for a slot in the cloud: those that wait longest go first."""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from statistics import median
from typing import Any

import pytest

from deployment.generate.tasks import NO_SLOT
from mangrove.cloud import task_stream
from mangrove.records import settings
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks import runs, slots
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import leases, queue, steps
from mangrove.tasks.core.leases import Busy, NoSlot
from mangrove.tasks.core.model import Spec
from mangrove.tasks.core.queue import TaskRequest
from tests.support.platforms import use_cloud
from tests.support.task_env import RecordingDispatcher
from tests.unit.tasks.counting import OWNER, SCHEMA, do_nothing
from tests.unit.tasks.test_slots import make_fresh

SLOT_COUNT = 5
HAND_OVER_SECONDS = 2.0  # from the end of a step to the start of the next: the stream, and a cold start


@pytest.fixture(autouse=True)
def cloud(starter: RecordingDispatcher, monkeypatch: pytest.MonkeyPatch) -> RecordingDispatcher:
    use_cloud()
    monkeypatch.setattr(steps.configuration, "get", make_fresh)
    settings.save({"copy_task_threads_num": str(SLOT_COUNT)})
    return starter


def enqueue(task_count: int) -> list[Task]:
    requests = [TaskRequest(f"copy {number}", Spec()) for number in range(task_count)]
    return queue.enqueue_many("copy", OWNER.user, requests)


def work(task: Task) -> None:
    asyncio.run(steps.run_step(task.id, 5, SCHEMA, do_nothing))


def hand_over() -> list[str]:
    return asyncio.run(task_stream.hand_over("copy"))


def test_free_slots_go_to_those_that_wait_longest(cloud: RecordingDispatcher) -> None:
    tasks = enqueue(8)
    for number in range(SLOT_COUNT):
        assert slots.acquire("copy", f"busy {number}", SLOT_COUNT, 60.0)
    for task in reversed(tasks[2:]):
        with pytest.raises(NoSlot):
            work(task)
    assert hand_over() == []
    for number in range(2):
        slots.release("copy", f"busy {number}")
    cloud.started.clear()
    assert hand_over() == [tasks[7].id, tasks[6].id]
    assert [task.id for task in cloud.started] == [tasks[7].id, tasks[6].id]
    assert hand_over() == []
    work(tasks[7])  # the slot was reserved for it
    assert not records.get(tasks[7].id).view.waiting
    assert hand_over() == [tasks[5].id]


def test_slot_of_a_task_that_cannot_be_started_is_released(cloud: RecordingDispatcher) -> None:
    (task,) = enqueue(1)
    settings.save({"copy_task_threads_num": "0"})
    with pytest.raises(NoSlot):
        work(task)
    settings.save({"copy_task_threads_num": "1"})
    runs.mark_done(task, task.view)
    assert hand_over() == []
    assert slots.list_holders("copy") == set()


def test_second_execution_does_not_release_the_slot_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = enqueue(1)
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", 0.01)
    assert slots.acquire("copy", task.id, SLOT_COUNT, 60.0)
    held = records.acquire_lease(task.id, "first", 30.0)

    async def compete() -> None:
        second = asyncio.ensure_future(steps.run_step(task.id, 5, SCHEMA, do_nothing))
        lease = held
        while not second.done():
            lease = await asyncio.to_thread(records.save, lease, "first", 60.0)
            await asyncio.sleep(0.01)
        await second

    with pytest.raises(Busy):
        asyncio.run(compete())
    assert slots.list_holders("copy") == {task.id}


def test_task_behind_many_holders_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_lists, "MAX_ROWS_PER_QUERY", 2)
    tasks = {task.id: task for task in enqueue(6)}
    *others, last = [row.id for row in task_lists.list_rows("copy", False)]
    holders = set(others[:4])
    assert records.touch(tasks[last], replace(tasks[last].view, waiting=1.0))
    assert task_lists.list_waiting("copy", holders) == [last]
    assert task_lists.list_waiting("copy", set()) == [], "only the oldest rows are read"


class Simulation:
    """Tasks with one step each, in simulated time. `durations`: of the steps, in seconds."""

    def __init__(self, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
        self.start = self.now = time.time()
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.tasks = {task.id: task for task in tasks}
        self.durations = {task.id: random.uniform(10, 50) for task in tasks}
        self.waits: dict[str, float] = {}
        self.tries = dict.fromkeys(self.tasks, 0)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def later(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), act, arguments))

    def run(self) -> None:
        for number, id in enumerate(self.tasks):
            self.later(number * 0.01, self.begin, id)
        while self._events:
            self.now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)

    def begin(self, id: str) -> None:
        if id in self.waits:
            return
        if slots.acquire("copy", id, SLOT_COUNT, 60.0):
            self.waits[id] = self.now - self.start
            self.later(self.durations[id], self.end, id)
            return
        if not self.tries[id]:
            asyncio.run(leases._note_waiting(self.tasks[id]))
        delay = NO_SLOT["IntervalSeconds"] * NO_SLOT["BackoffRate"] ** self.tries[id]
        self.tries[id] += 1
        self.later(random.uniform(0, min(delay, NO_SLOT["MaxDelaySeconds"])), self.begin, id)

    def end(self, id: str) -> None:
        task = self.tasks[id]
        runs.mark_done(task, task.view)
        slots.release("copy", id)
        self.later(HAND_OVER_SECONDS / 2, self.hand_over)

    def hand_over(self) -> None:
        for id in task_stream._hand_over("copy", SLOT_COUNT):
            self.later(HAND_OVER_SECONDS / 2, self.begin, id)

    def find_ideal_waits(self) -> list[float]:
        """The waits if a step begins the moment another one ends, in the order of the tasks."""
        ends, waits = [0.0] * SLOT_COUNT, []
        for duration in self.durations.values():
            began = heapq.heappop(ends)
            waits.append(began)
            heapq.heappush(ends, began + duration)
        return waits


@pytest.mark.parametrize("task_count", [60, pytest.param(500, marks=pytest.mark.long)])
def test_median_wait_of_many_tasks_is_near_first_in_first_out(monkeypatch: pytest.MonkeyPatch, task_count: int) -> None:
    random.seed(1)
    simulation = Simulation(enqueue(task_count), monkeypatch)
    simulation.run()
    ratio = median(simulation.waits.values()) / median(simulation.find_ideal_waits())
    print(f"median wait: {ratio:.2f} of first in, first out; {sum(simulation.tries.values())} retries")
    assert len(simulation.waits) == task_count
    assert ratio < 1.2


def insert(id: str) -> dict[str, Any]:
    """The row of the stream for a new task."""
    image = {"id": {"S": id}, "kind": {"S": "copy"}, "owner_key": {"S": "1#copy#undone"}}
    return {"eventName": "INSERT", "dynamodb": {"NewImage": image}}


def test_new_task_of_a_request_that_died_is_started(cloud: RecordingDispatcher) -> None:
    new, started = enqueue(2)
    records.acquire_lease(started.id, "worker", 30.0)
    cloud.started.clear()
    asyncio.run(task_stream.follow({"Records": [insert(new.id), insert(started.id), insert("x" * 21)]}))
    assert [task.id for task in cloud.started] == [new.id]
