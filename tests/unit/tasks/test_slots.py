"""In the cloud the settings limit the concurrent tasks of a kind; the others wait in their machines."""

from __future__ import annotations

import asyncio
import time

import pytest

from mangrove.records import settings
from mangrove.records.tasks import runs, slots
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import queue, steps
from mangrove.tasks.core.leases import NoSlot
from mangrove.tasks.core.model import Spec, State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.core.steps import Cancelled
from tests.support.platforms import use_cloud
from tests.support.task_env import RecordingDispatcher
from tests.unit.tasks.counting import OWNER, SCHEMA, CountRun, do_nothing, read, run_step


@pytest.fixture
def task(starter: RecordingDispatcher, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A copy that waits, in the cloud."""
    use_cloud()
    monkeypatch.setattr(steps.configuration, "get", make_fresh)
    return queue.enqueue("copy", OWNER.user, TaskRequest("copy [/a](/b) to [/c](/d)", Spec(), 100))


async def make_fresh() -> object:
    """The configuration as it is now, and not as it was two seconds ago."""
    from mangrove import configuration

    return await asyncio.to_thread(configuration.get_sync)


def work(task: Task) -> None:
    asyncio.run(steps.run_step(task.id, 5, SCHEMA, do_nothing))


def test_a_task_waits_while_the_setting_is_zero_and_works_once_it_is_not(task: Task) -> None:
    settings.save({"copy_task_threads_num": "0"})
    with pytest.raises(NoSlot):
        work(task)
    waiting = read(task)
    assert (waiting.view.state, waiting.lease.token, waiting.lease.until < 0) == (State.PENDING, "", True)
    assert waiting.view.waiting and not waiting.view.to_wire().get("waiting")
    settings.save({"copy_task_threads_num": "1"})
    work(task)
    assert (read(task).view.state, read(task).view.waiting) == (State.RUNNING, 0)


def test_a_slice_holds_a_slot_until_its_end_also_where_it_fails(task: Task) -> None:
    settings.save({"copy_task_threads_num": "1"})
    seen: list[bool] = []

    async def look(run: CountRun) -> bool:
        seen.append(await asyncio.to_thread(slots.acquire, "copy", "another", 1, 60.0))
        raise KeyError

    with pytest.raises(KeyError):
        run_step(task, look)
    assert seen == [False]
    assert slots.acquire("copy", "another", 1, 60.0)
    with pytest.raises(NoSlot):
        work(task)
    slots.release("copy", "another")


def test_what_is_cancelled_needs_no_slot(task: Task) -> None:
    settings.save({"copy_task_threads_num": "0"})
    runs.mark_cancelled(task.id)
    with pytest.raises(Cancelled):
        work(task)


def test_an_execution_without_a_slot_is_started_again_later(task: Task) -> None:
    async def clean(run: CountRun, state: State) -> None:
        raise AssertionError("the task has not ended")

    for name in ("NoSlot", "RecordsThrottled"):
        assert asyncio.run(steps.settle(task.id, {"Error": name, "Cause": "{}"}, SCHEMA, clean))
    assert not read(task).done


def test_a_task_that_waits_for_long_says_so_in_its_record(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the sweep would start another execution of it."""
    settings.save({"copy_task_threads_num": "0"})
    now = time.time() + 4000
    monkeypatch.setattr(time, "time", lambda: now)
    with pytest.raises(NoSlot):
        work(task)
    assert read(task).lease.until == pytest.approx(-now)
    settings.save({"copy_task_threads_num": "1"})
    work(task)
