"""Slices of work while the records do not answer: nothing fails, and nothing that was done is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mangrove.core.problems import RecordNotFound, RecordsUnavailable, StorageProblem
from mangrove.records.store.base import RecordRefused
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import leases, queue, steps
from mangrove.tasks.core.model import PartialFile, Spec, State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.transfer.declaration import TransferSpec
from tests.support.task_env import RecordingDispatcher
from tests.unit.standalone.test_runner import wait
from tests.unit.tasks.counting import OWNER, SCHEMA, CountRun, do_nothing, fail_with, read, read_at, run_step, settle

BEAT = 0.02


@pytest.fixture
def task(starter: RecordingDispatcher, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that no worker holds. Nothing is written but what the test asks for, however slow the computer is."""
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", 600.0)
    monkeypatch.setattr(steps, "MAX_UNWRITTEN_SECONDS", 600.0)
    return queue.enqueue("copy", OWNER.user, TaskRequest("copy [/a](/b) to [/c](/d)", Spec(), 100))


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Lets so many writes of progress fail; how many are left to fail."""
    keep = tasks.save

    def begin(count: int) -> list[int]:
        left = [count]

        def save(*args: Any, **changes: Any) -> Task:
            left[0] -= 1
            if left[0] >= 0:
                raise RecordsUnavailable
            return keep(*args, **changes)

        monkeypatch.setattr(tasks, "save", save)
        return left

    return begin


async def count(run: CountRun) -> bool:
    """Work that increments the cursor."""
    run.cursor.at += 1
    return True


def test_heartbeats_that_fail_do_not_end_the_work(
    task: Task, outage: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", BEAT)
    left = outage(3)

    async def work(run: CountRun) -> bool:
        await asyncio.to_thread(wait, lambda: left[0] < 0)
        return await count(run)

    assert run_step(task, work) is True


def test_work_ends_when_nothing_was_renewed_for_the_time_of_a_lease(
    task: Task, outage: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", BEAT)
    monkeypatch.setattr(leases, "LEASE_SECONDS", BEAT * 4)
    outage(1000)

    async def work(run: CountRun) -> bool:
        await asyncio.sleep(600)
        return False

    with pytest.raises(RecordsUnavailable):
        run_step(task, work)


def test_unwritten_result_of_short_step_survives_for_next_one(task: Task, outage: Callable[[int], list[int]]) -> None:
    for _ in range(3):
        assert run_step(task, count) is True
    assert read(task) == task  # not a write yet
    left = outage(1)
    with pytest.raises(RecordsUnavailable):
        run_step(task, fail_with(StorageProblem("no")))
    assert left == [0]
    with pytest.raises(ZeroDivisionError):
        run_step(task, fail_with(ZeroDivisionError()))
    assert run_step(task, count) is True
    with pytest.raises(StorageProblem):
        run_step(task, fail_with(StorageProblem("no")))
    assert read_at(task) == 4


def test_unwritten_result_is_written_by_settling_with_retry(task: Task, outage: Callable[[int], list[int]]) -> None:
    assert run_step(task, count) is True
    outage(1)
    with pytest.raises(RecordsUnavailable):
        settle(task)
    settle(task)
    assert (read_at(task), read(task).done, read(task).view.state) == (1, True, State.SUCCEEDED)


@pytest.mark.parametrize("name", ["RecordsUnavailable", "Busy"])
def test_task_without_work_is_left_for_later_instead_of_settled(task: Task, name: str) -> None:
    async def clean(run: CountRun, state: State) -> None:
        raise AssertionError

    assert asyncio.run(steps.settle(task.id, {"Error": name}, SCHEMA, clean)) is True
    assert read(task) == task


@pytest.mark.parametrize("change", [tasks.delete, None])
def test_superseded_execution_leaves_existing_task_for_later(task: Task, change: Any) -> None:
    async def clean(run: CountRun, state: State) -> None:
        raise AssertionError

    if change is not None:
        change(task.id)
    assert asyncio.run(steps.settle(task.id, {"Error": "Superseded"}, SCHEMA, clean)) is (change is None)


def test_task_removed_while_settled_is_cleaned_up(task: Task) -> None:
    seen: list[tuple[State, bool]] = []

    async def clean(run: CountRun, state: State) -> None:
        seen.append((state, run.task.removed))
        if not run.task.removed:
            runs.mark_removed(task)

    assert run_step(task, do_nothing) is False
    asyncio.run(steps.settle(task.id, {}, SCHEMA, clean))
    assert seen == [(State.SUCCEEDED, False), (State.CANCELED, True)]
    with pytest.raises(RecordNotFound):
        read(task)


def test_task_with_oversized_record_ends_with_reason(task: Task) -> None:
    async def grow(run: CountRun) -> bool:
        run.cursor.at += 1
        run.cursor.partial = PartialFile(path="x" * 500_000, key="", length=1)
        await run.save()
        raise AssertionError

    with pytest.raises(RecordRefused) as refused:
        run_step(task, grow)
    assert read(task).view.error == refused.value.message == "the record is too large or not well-formed"
    settle(task, "RecordRefused")
    assert (read(task).done, read(task).view.state, read_at(task)) == (True, State.FAILED, 0)
    assert read(task).view.error == refused.value.message


def test_short_step_with_oversized_result_is_settled_at_retry(task: Task) -> None:
    async def grow(run: CountRun) -> bool:
        run.cursor.partial = PartialFile(path="x" * 500_000, key="", length=1)
        return True

    assert run_step(task, grow) is True
    with pytest.raises(RecordRefused):
        settle(task)
    settle(task)
    assert (read(task).done, read(task).view.state) == (True, State.FAILED)
    assert read(task).view.error == RecordRefused.text


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_that_is_too_large_is_refused_when_it_is_opened(task: Task, count: int) -> None:
    spec = TransferSpec(source="/" + "x" * 500_000, target_dir="/", name="", overwrite=False)
    with pytest.raises(RecordRefused):
        queue.enqueue_many("copy", OWNER.user, [TaskRequest("too large", spec)] * count)
