"""Slices of work on the real records engine: what they write, how they stop, how they are settled."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from mangrove.core import metering
from mangrove.core.problems import (
    Problem,
    RecordNotFound,
    ResourceNotFound,
    StorageProblem,
    Unreachable,
    UnreadableTask,
)
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import Task, TaskRecord
from mangrove.tasks.core import leases, queue, steps, workers
from mangrove.tasks.core.leases import Busy
from mangrove.tasks.core.model import Spec, State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.core.steps import Cancelled
from mangrove.tasks.core.worker_loop import WorkerLoop, run_in_loop
from tests.support.platforms import use_cloud
from tests.support.task_env import RecordingDispatcher, TaskEnv
from tests.unit.tasks.counting import (
    OWNER,
    SCHEMA,
    CountRun,
    acquire,
    do_nothing,
    fail_with,
    read,
    read_at,
    restart_process,
    run_step,
    settle,
)

BEAT = 0.02
SHORT = 0.3  # seconds of a lease


@pytest.fixture
def task(starter: RecordingDispatcher, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that no worker holds."""
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", BEAT)
    monkeypatch.setattr(steps, "MAX_UNWRITTEN_SECONDS", 0)
    return queue.enqueue("copy", OWNER.user, TaskRequest("copy [/a](/b) to [/c](/d)", Spec(), 100))


def test_a_cancel_mark_stops_a_slice_within_a_beat(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        run.cursor.at = 5
        await asyncio.to_thread(queue.cancel, "copy", task.id, OWNER)
        await asyncio.sleep(600)
        return False

    with pytest.raises(Cancelled, match="context canceled"):
        run_step(task, work)
    after = read(task)
    assert (read_at(task), after.done) == (5, False)
    settle(task, "Cancelled")
    after = read(task)
    assert after.done
    assert (after.view.state, after.view.error) == (State.CANCELED, "context canceled")


def test_saving_tells_of_a_cancel_mark_and_keeps_what_was_done(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        runs.mark_cancelled(task.id)
        run.cursor.at = 7
        await run.save()
        return False

    with pytest.raises(Cancelled):
        run_step(task, work)
    assert read_at(task) == 7


def test_a_task_that_was_cancelled_before_its_first_slice_does_no_work(task: Task) -> None:
    runs.mark_cancelled(task.id)
    with pytest.raises(Cancelled):
        run_step(task, fail_with(AssertionError("worked")))
    assert read(task).view.start_time is None
    settle(task, "Cancelled")
    assert read(task).view.state == State.CANCELED


def test_a_slice_sets_the_task_running_and_lets_go_of_it(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        run.show_progress(25)
        run.cursor.at = 1
        return True

    assert run_step(task, work) is True
    after = read(task)
    assert (after.view.state, after.view.progress, read_at(task)) == (State.RUNNING, 25.0, 1)
    assert (after.view.start_time or "").endswith("Z")
    assert after.view.end_time is None
    assert run_step(task, do_nothing) is False
    assert read(task).view.start_time == after.view.start_time


@pytest.mark.parametrize("problem", [StorageProblem("item x: no"), Unreachable("gone away"), Problem()])
def test_a_step_keeps_the_text_of_its_failure_and_how_far_it_came(task: Task, problem: Problem) -> None:
    async def work(run: CountRun) -> bool:
        run.cursor.at = 3
        raise problem

    with pytest.raises(type(problem)):
        run_step(task, work)
    after = read(task)
    assert (after.view.error, read_at(task)) == (problem.message, 3)
    assert asyncio.run(acquire(task)).task.id == task.id
    restart_process()
    settle(task, type(problem).__name__)
    after = read(task)
    assert (after.view.state, after.view.error) == (State.FAILED, problem.message)
    assert (after.view.end_time or "").endswith("Z")


def test_a_failure_that_a_retry_got_over_does_not_make_the_task_fail(task: Task) -> None:
    with pytest.raises(Unreachable):
        run_step(task, fail_with(Unreachable("gone away")))
    assert run_step(task, do_nothing) is False
    states: list[State] = []
    settle(task, states=states)
    after = read(task).view
    assert (after.state, after.error, after.progress) == (State.SUCCEEDED, "", 100.0)
    assert states == [State.SUCCEEDED]


def test_worker_error_fails_task_without_details(task: Task) -> None:
    with pytest.raises(ZeroDivisionError):
        run_step(task, fail_with(ZeroDivisionError("secret text")))
    restart_process()
    states: list[State] = []
    settle(task, "ZeroDivisionError", states)
    assert read(task).view.state == State.FAILED
    assert read(task).view.error == "the worker failed, see the log"
    assert states == [State.FAILED]


@pytest.mark.parametrize("name", ["Busy", "Superseded"])
def test_settling_leaves_a_task_alone_that_is_another_workers(task: Task, name: str) -> None:
    before = read(task)
    settle(task, name)
    assert read(task) == before


def test_settling_waits_for_holder_and_happens_once(task: Task) -> None:
    asyncio.run(acquire(task))
    with pytest.raises(Busy):
        settle(task)
    restart_process()
    settle(task)
    before = read(task)
    settle(task, "StorageProblem")
    assert read(task).view == before.view
    assert run_step(task, fail_with(AssertionError("worked"))) is False


def test_a_task_that_was_deleted_under_way_is_cleaned_up_by_its_worker(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        await asyncio.to_thread(queue.delete, "copy", task.id, OWNER)
        await asyncio.sleep(600)
        return False

    with pytest.raises(Cancelled):
        run_step(task, work)
    assert read(task).removed
    states: list[State] = []
    settle(task, "Cancelled", states)
    assert states == [State.CANCELED]
    with pytest.raises(RecordNotFound):
        read(task)


@pytest.mark.parametrize("error", ["", "StorageProblem"])
def test_a_task_that_is_deleted_while_it_is_settled_does_not_come_back(task: Task, error: str) -> None:
    async def clean(run: CountRun, state: State) -> None:
        with suppress(ResourceNotFound):  # it is cleaned up once more when it turns out to be deleted
            await asyncio.to_thread(queue.delete, "copy", task.id, OWNER)

    asyncio.run(steps.settle(task.id, {"Error": error} if error else {}, SCHEMA, clean))
    with pytest.raises(RecordNotFound):
        read(task)
    for done in (False, True):
        assert list(queue.list_views("copy", done, OWNER)) == []


def test_a_task_that_ends_is_counted_once_by_how_it_ended(task: Task, capfd: pytest.CaptureFixture[str]) -> None:
    use_cloud(is_function=True)
    settle(task, "Boom")
    settle(task)
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if "TasksEnded" in line]
    assert [(line["state"], line["TasksEnded"]) for line in lines] == [("failed", [1.0])]


def test_a_slice_of_a_task_that_is_done_does_nothing_and_lets_go_of_it(task: Task) -> None:
    settle(task)
    before = read(task)
    assert run_step(task, fail_with(AssertionError("worked"))) is False
    assert (read(task).view, read(task).cursor) == (before.view, before.cursor)
    asyncio.run(acquire(task))  # immediately: no worker holds it


def test_a_worker_answers_what_the_machine_reads(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        assert run.has_time()
        run.wait = 7
        return True

    class Context:
        function_name = aws_request_id = "x"

        def get_remaining_time_in_millis(self) -> int:
            return 100_000

    handler = workers.make_worker(SCHEMA, work)
    expected = {"tid": task.id, "more": True, "seconds": 7}
    assert handler({"tid": task.id}, None) == expected
    assert handler({"tid": task.id}, Context()) == expected
    states: list[State] = []

    async def clean(run: CountRun, state: State) -> None:
        states.append(state)

    assert workers.make_settler(SCHEMA, clean)({"tid": task.id}, None) == {"tid": task.id, "more": False}
    assert states == [State.SUCCEEDED]
    assert read(task).view.state == State.SUCCEEDED
    assert handler({"tid": task.id}, None) == expected | {"more": False, "seconds": 0}


def test_workers_use_own_loop_or_running_one(task_env: TaskEnv) -> None:
    async def find_loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert run_in_loop(find_loop()) is task_env.loop
    own = WorkerLoop()
    loop = own.run(find_loop())
    assert loop is not task_env.loop
    assert own.run(find_loop()) is loop
    loop.close()


def test_a_task_that_another_version_stored_is_not_worked_on(task: Task) -> None:
    TaskRecord(task.id).update(actions=[TaskRecord.cursor.set('{"version": 3}')])
    with pytest.raises(UnreadableTask):
        run_step(task, fail_with(AssertionError("worked")))
    assert read(task).cursor == {"version": 3}


def test_bytes_in_flight_are_written_while_a_step_runs(task: Task) -> None:
    async def work(run: CountRun) -> bool:
        run.begin_item("folder/file")
        run.show_progress(40)
        with run.meter(30) as meter:
            await asyncio.to_thread(metering.get_meter().add, 20, "received")
            meter.add(10)
            while not seen or seen[-1] != 60:
                await asyncio.sleep(BEAT)
                seen.append((await asyncio.to_thread(read, task)).view.done_bytes)
        run.show_progress(70)
        return False

    seen: list[int] = []
    run_step(task, work)
    view = read(task).view
    assert (view.done_bytes, view.progress, view.current_item) == (70, 70.0, "folder/file")


def test_meter_counts_the_stage_that_is_farthest_and_no_more_than_its_size() -> None:
    meter = metering.ByteMeter(100)
    meter.add(50, "received")
    meter.add(30, "sent")
    assert meter.bytes == 50
    meter.add(150)
    assert meter.bytes == 100
    meter.clear()
    assert meter.bytes == 0
