"""Leases on the real records engine: one worker at a time, and one that wakes late changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mangrove.core.problems import RecordNotFound
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import leases, queue, steps
from mangrove.tasks.core.leases import Busy, HeldTask, Superseded
from mangrove.tasks.core.model import Spec, State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.core.steps import Run
from tests.support.platforms import use_cloud
from tests.support.task_env import RecordingDispatcher
from tests.unit.tasks.counting import (
    OWNER,
    SCHEMA,
    CountRun,
    acquire,
    do_nothing,
    read,
    read_at,
    run_step,
    settle,
)

BEAT = 0.02
SHORT = 0.3  # seconds of a lease
WAIT_SECONDS = 120.0  # for what another task or thread does


@pytest.fixture
def task(starter: RecordingDispatcher, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that no worker holds, in the cloud: nothing tells who holds it but its record."""
    use_cloud()
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", BEAT)
    return queue.enqueue("copy", OWNER.user, TaskRequest("copy [/a](/b) to [/c](/d)", Spec(), 100))


@asynccontextmanager
async def beating(run: CountRun) -> AsyncIterator[None]:
    """The worker lives."""
    heartbeats = asyncio.create_task(run.send_heartbeats())
    try:
        yield
    finally:
        heartbeats.cancel()
        await asyncio.wait([heartbeats])


def test_while_one_worker_holds_a_task_another_is_busy(task: Task) -> None:
    async def work() -> None:
        run = await acquire(task)
        async with beating(run):
            with pytest.raises(Busy):
                await acquire(task)
            with pytest.raises(Busy):
                await steps.run_step(task.id, 5, SCHEMA, do_nothing)
        with pytest.raises(RecordConflict):
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
                more = (await steps.run_step(task.id, 5, SCHEMA, slice_))["more"] and read_at(task) < 10
            except Busy:
                await asyncio.sleep(0.002)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(execution(), execution()), WAIT_SECONDS)

    asyncio.run(both())
    assert done[:10] == list(range(10))
    assert len(set(done)) == len(done)


def test_of_many_workers_at_once_one_gets_the_task(task: Task) -> None:
    async def race() -> list[Any]:
        left, all_gave_up = [11], asyncio.Event()

        async def hold() -> CountRun:
            try:
                run = await acquire(task)
            except Busy:
                left[0] -= 1
                if not left[0]:
                    all_gave_up.set()
                raise
            async with beating(run):
                await asyncio.wait_for(all_gave_up.wait(), WAIT_SECONDS)
            return run

        return await asyncio.gather(*(hold() for _ in range(12)), return_exceptions=True)

    results = asyncio.run(race())
    assert sum(isinstance(result, Run) for result in results) == 1
    assert sum(isinstance(result, Busy) for result in results) == 11


def test_worker_that_outlives_its_lease_changes_nothing(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)
        sleeper = await acquire(task)
        sleeper.cursor.at = 1
        await sleeper.save()
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
        monkeypatch.setattr(leases, "LEASE_SECONDS", WAIT_SECONDS)  # heartbeats may be late
        async with beating(other):
            with pytest.raises(Busy):
                await acquire(task)
        await other.save()

    asyncio.run(work())
    assert read_at(task) == 2


def test_a_slice_that_lost_its_lease_is_stopped_by_its_beat(task: Task) -> None:
    stopped: list[str] = []

    async def work(run: CountRun) -> bool:
        tasks.acquire_lease(task.id, "other", 30, read(task).lease)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            stopped.append("yes")
            raise
        return False

    with pytest.raises(Superseded):
        run_step(task, work)
    assert stopped == ["yes"]
    assert read(task).view.error == ""


def wait_for_renewal(task: Task, until: float) -> None:
    """Wait until the lease ends later than it would have."""
    end = time.monotonic() + WAIT_SECONDS
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

    assert run_step(task, work) is True


def test_a_lease_without_a_sign_of_life_is_for_the_taking(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        run = await acquire(task)
        await run.update(30)
        monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)
        began = time.monotonic()
        await acquire(task)
        assert time.monotonic() - began >= SHORT

    asyncio.run(work())


def test_a_deleted_task_is_superseded_and_comes_to_no_new_life(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        tasks.delete(task.id)
        await run.save()
        return False

    with pytest.raises(Superseded):
        run_step(task, work)
    with pytest.raises(Superseded):
        run_step(task, do_nothing)
    settle(task)
    with pytest.raises(RecordNotFound):
        read(task)
    with pytest.raises(RecordConflict):
        runs.mark_cancelled(task.id)


def test_the_next_run_takes_the_task_from_a_worker_of_the_last_one(task: Task) -> None:
    async def work() -> None:
        old = await acquire(task)
        runs.reopen(old.task, old.view)
        await acquire(task)
        with pytest.raises(Superseded):
            await old.save()
        with pytest.raises(RecordConflict):
            runs.reopen(old.task, old.view)

    asyncio.run(work())
    assert read(task).attempt == 1


def test_pending_heartbeat_does_not_renew_released_lease(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    beating = threading.Event()
    save = tasks.save

    def slow(*args: Any, **changes: Any) -> Task:
        if "cursor" not in changes:  # a heartbeat writes what is shown
            beating.set()
            time.sleep(0.1)
        return save(*args, **changes)

    monkeypatch.setattr(tasks, "save", slow)

    async def work(run: CountRun) -> bool:
        assert await asyncio.to_thread(beating.wait, WAIT_SECONDS)
        return False

    async def whole() -> None:
        await steps.run_step(task.id, 5, SCHEMA, work)
        await asyncio.sleep(0.2)
        await acquire(task)

    asyncio.run(whole())


def test_late_worker_cannot_settle_or_restore_task(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)

    async def clean(run: CountRun, state: State) -> None:
        tasks.acquire_lease(task.id, "other", 30, read(task).lease)  # it sleeps through its lease here
        other = Run(HeldTask(read(task), "other"), SCHEMA, 30)
        other.view.status = "at work"
        await other.update(30, view=other.view)

    asyncio.run(steps.settle(task.id, {}, SCHEMA, clean))
    after = read(task)
    assert (after.done, after.view.state, after.view.status) == (False, State.PENDING, "at work")


@pytest.mark.parametrize("step", [-3600, 3600])
def test_clock_step_neither_frees_nor_extends_lease(task: Task, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)

    async def work() -> None:
        run = await acquire(task)
        shift_clock(monkeypatch, step)
        monkeypatch.setattr(leases, "LEASE_SECONDS", WAIT_SECONDS)  # heartbeats may be late
        async with beating(run):
            with pytest.raises(Busy):
                await acquire(task)
        monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)
        shift_clock(monkeypatch, -2 * step)
        other = await acquire(task)
        with pytest.raises(Superseded):
            await run.save()
        await other.save()

    asyncio.run(work())


def shift_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Step the clock that records and workers see."""
    clock = SimpleNamespace(time=lambda: time.time() + seconds)
    monkeypatch.setattr(tasks, "time", clock)
