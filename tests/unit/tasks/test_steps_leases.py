"""Leases on the real records engine: one worker at a time, and one that wakes late changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from mangrove.records import tasks
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks import queue, steps
from mangrove.tasks.kinds import State
from mangrove.tasks.specs import Spec
from mangrove.tasks.steps import Busy, Run, Superseded
from tests.task_env import RecordingStarter
from tests.unit.tasks.slices import (
    OWNER,
    SCHEMA,
    CountRun,
    acquire,
    do_nothing,
    read,
    read_at,
    run_slice,
    settle,
)

BEAT = 0.02
SHORT = 0.3  # seconds of a lease


@pytest.fixture
def task(starter: RecordingStarter, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that no worker holds."""
    monkeypatch.setattr(steps, "HEARTBEAT_SECONDS", BEAT)
    return queue.open("copy", OWNER.user, "copy [/a](/b) to [/c](/d)", Spec(), 100)


def test_while_one_worker_holds_a_task_another_is_busy(task: Task) -> None:
    async def work() -> None:
        run = await acquire(task)
        with pytest.raises(Busy):
            await acquire(task)
        with pytest.raises(Busy):
            await steps.run_slice(task.id, 5, SCHEMA, do_nothing)
        with pytest.raises(Conflict):
            tasks.acquire_lease(task.id, "other", 5)
        run.cursor.at = 1
        await run.save()
        await run.update(0)
        await (await acquire(task)).update(0)

    asyncio.run(work())
    assert read_at(task) == 1


def test_a_duplicate_start_does_each_slice_once(task: Task) -> None:
    done: list[int] = []

    async def slice_(run: CountRun) -> bool:
        at = run.cursor.at
        await asyncio.sleep(0.01)
        done.append(at)
        run.cursor.at = at + 1
        return at + 1 < 10

    async def execution() -> None:
        more = True
        while more:
            try:
                more = (await steps.run_slice(task.id, 5, SCHEMA, slice_))["more"] and read_at(task) < 10
            except Busy:
                await asyncio.sleep(0.002)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(execution(), execution()), 20)

    asyncio.run(both())
    assert done[:10] == list(range(10))
    assert len(set(done)) == len(done)


def test_of_many_workers_at_once_one_gets_the_task(task: Task) -> None:
    async def race() -> list[Any]:
        return await asyncio.gather(*(acquire(task) for _ in range(12)), return_exceptions=True)

    results = asyncio.run(race())
    assert sum(isinstance(one, Run) for one in results) == 1
    assert sum(isinstance(one, Busy) for one in results) == 11


def test_a_worker_that_sleeps_through_its_lease_and_wakes_late_changes_nothing(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(steps, "LEASE_SECONDS", SHORT)
        sleeper = await acquire(task)
        sleeper.cursor.at = 1
        await sleeper.save()
        await asyncio.sleep(SHORT * 1.5)
        monkeypatch.setattr(steps, "LEASE_SECONDS", 30.0)
        other = await acquire(task)
        assert other.cursor.at == 1
        other.cursor.at = 2
        other.view.status = "others"
        await other.save()
        before = read(task)
        sleeper.cursor.at = 99
        sleeper.view.status, sleeper.view.error = "sleeper's", "x"
        for late in (sleeper.save, lambda: sleeper.update(0), lambda: sleeper.update(30, done=True)):
            with pytest.raises(Superseded):
                await late()
        assert read(task) == before
        with pytest.raises(Busy):
            await acquire(task)
        await other.save()

    asyncio.run(work())
    assert read_at(task) == 2


def test_a_slice_that_lost_its_lease_is_stopped_by_its_beat(task: Task) -> None:
    stopped: list[str] = []

    async def work(run: CountRun) -> bool:
        tasks.acquire_lease(task.id, run.token, -1)
        tasks.acquire_lease(task.id, "other", 30)
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            stopped.append("yes")
            raise
        return False

    began = time.monotonic()
    with pytest.raises(Superseded):
        run_slice(task, work)
    assert stopped == ["yes"]
    assert time.monotonic() - began < 2
    assert read(task).view.error == ""


def wait_for_renewal(task: Task, until: float) -> None:
    """Wait until the lease ends later than it would have."""
    end = time.monotonic() + 20
    while read(task).touched == until:
        assert time.monotonic() < end
        time.sleep(BEAT / 4)


def test_a_long_slice_keeps_its_lease_by_beating(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        for _ in range(3):
            until = read(task).touched
            await asyncio.to_thread(wait_for_renewal, task, until)
            with pytest.raises(Busy):
                await acquire(task)
        return True

    assert run_slice(task, work) is True


def test_a_lease_that_ran_out_is_for_the_taking(task: Task) -> None:
    async def work() -> None:
        run = await acquire(task)
        await run.update(30)
        with pytest.raises(Busy):
            await acquire(task)
        await run.update(SHORT)
        await asyncio.sleep(SHORT * 1.2)
        await acquire(task)

    asyncio.run(work())


def test_a_deleted_task_is_superseded_and_comes_to_no_new_life(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        tasks.delete(task.id)
        await run.save()
        return False

    with pytest.raises(Superseded):
        run_slice(task, work)
    with pytest.raises(Superseded):
        run_slice(task, do_nothing)
    settle(task)
    with pytest.raises(RecordMissing):
        read(task)
    with pytest.raises(Conflict):
        tasks.mark_cancelled(task.id)


def test_the_next_run_takes_the_task_from_a_worker_of_the_last_one(task: Task) -> None:
    async def work() -> None:
        old = await acquire(task)
        tasks.reopen(old.task, old.view)
        await acquire(task)
        with pytest.raises(Superseded):
            await old.save()
        with pytest.raises(Conflict):
            tasks.reopen(old.task, old.view)

    asyncio.run(work())
    assert read(task).attempt == 1


def test_a_beat_that_is_being_written_does_not_renew_a_lease_that_was_let_go(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    beating = threading.Event()
    save = tasks.save

    def slow(*args: Any, **changes: Any) -> Task:
        if "cursor" not in changes:  # a heartbeat writes what is shown
            beating.set()
            time.sleep(0.1)
        return save(*args, **changes)

    monkeypatch.setattr(tasks, "save", slow)

    async def work(run: CountRun) -> bool:
        assert await asyncio.to_thread(beating.wait, 5)
        return False

    async def whole() -> None:
        await steps.run_slice(task.id, 5, SCHEMA, work)
        await asyncio.sleep(0.2)
        await acquire(task)

    asyncio.run(whole())


def test_a_worker_that_wakes_late_can_neither_settle_a_task_nor_bring_a_deleted_one_back(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LEASE_SECONDS", SHORT)

    async def clean(run: CountRun, state: State) -> None:
        tasks.acquire_lease(task.id, run.token, -1)  # it sleeps through its lease here
        other = await acquire(task)
        other.view.status = "at work"
        await other.update(30, view=other.view)

    asyncio.run(steps.settle(task.id, {}, SCHEMA, clean))
    after = read(task)
    assert (after.done, after.view.state, after.view.status) == (False, State.PENDING, "at work")
