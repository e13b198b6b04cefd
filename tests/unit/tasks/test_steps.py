"""Leases on the real records engine: one worker at a time, and one that wakes late changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangrove.problems import Problem, StorageProblem, Unreachable
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks import machines, queue, steps
from mangrove.tasks.kinds import State
from mangrove.tasks.steps import Busy, Cancelled, Run, Superseded
from tests.unit.tree import builders

pytestmark = pytest.mark.usefixtures("records")
BEAT = 0.02
SHORT = 0.3  # seconds of a lease


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that nobody works on."""
    monkeypatch.setattr(machines, "_starter", lambda task: None)
    monkeypatch.setattr(steps, "BEAT_SECONDS", BEAT)
    return queue.open("copy", builders.user(), "copy [/a](/b) to [/c](/d)", {"verb": "copy"}, 100)


def now(task: Task) -> Task:
    from mangrove.records import tasks

    return tasks.get(task.id)


def step(task: Task, work: Callable[[Run], Awaitable[bool]]) -> bool:
    """Whether there is more, after one slice."""
    answer = asyncio.run(steps.step(task.id, 5, work))
    assert (answer["tid"], answer["seconds"]) == (task.id, 0)
    more: bool = answer["more"]
    return more


def settle(task: Task, error: str = "", cleaned: list[State] | None = None) -> None:
    async def clean(run: Run, state: State) -> None:
        if cleaned is not None:
            cleaned.append(state)

    asyncio.run(steps._settle(task.id, {"Error": error, "Cause": "{}"} if error else {}, clean))


async def ready(run: Run) -> bool:
    return False


def failing(problem: Exception) -> Callable[[Run], Awaitable[bool]]:
    async def work(run: Run) -> bool:
        raise problem

    return work


def test_while_one_worker_holds_a_task_another_is_busy(task: Task) -> None:
    from mangrove.records import tasks

    async def work() -> None:
        run = await steps.held(task.id, 5)
        with pytest.raises(Busy):
            await steps.held(task.id, 5)
        with pytest.raises(Busy):
            await steps.step(task.id, 5, ready)
        with pytest.raises(Conflict):
            tasks.take(task.id, "other", 5)
        run.cursor["at"] = 1
        await run.save()
        await run.keep(0)
        await (await steps.held(task.id, 5)).keep(0)

    asyncio.run(work())
    assert now(task).cursor == {"at": 1}


def test_a_duplicate_start_does_each_slice_once(task: Task) -> None:
    done: list[int] = []

    async def slice_(run: Run) -> bool:
        at = run.cursor.get("at", 0)
        await asyncio.sleep(0.01)
        done.append(at)
        run.cursor["at"] = at + 1
        return at + 1 < 10

    async def execution() -> None:
        more = True
        while more:
            try:
                more = (await steps.step(task.id, 5, slice_))["more"] and now(task).cursor["at"] < 10
            except Busy:
                await asyncio.sleep(0.002)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(execution(), execution()), 20)

    asyncio.run(both())
    assert done[:10] == list(range(10))
    assert len(set(done)) == len(done)


def test_of_many_workers_at_once_one_gets_the_task(task: Task) -> None:
    async def race() -> list[Any]:
        return await asyncio.gather(*(steps.held(task.id, 5) for _ in range(12)), return_exceptions=True)

    results = asyncio.run(race())
    assert sum(isinstance(one, Run) for one in results) == 1
    assert sum(isinstance(one, Busy) for one in results) == 11


def test_a_worker_that_sleeps_through_its_lease_and_wakes_late_changes_nothing(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(steps, "LEASE_SECONDS", SHORT)
        sleeper = await steps.held(task.id, 5)
        sleeper.cursor["at"] = 1
        await sleeper.save()
        await asyncio.sleep(SHORT * 1.5)
        monkeypatch.setattr(steps, "LEASE_SECONDS", 30.0)
        other = await steps.held(task.id, 5)
        assert other.cursor == {"at": 1}
        other.cursor["at"] = 2
        other.view["status"] = "others"
        await other.save()
        before = now(task)
        sleeper.cursor["at"] = 99
        sleeper.view |= {"status": "sleeper's", "error": "x"}
        for late in (sleeper.save, lambda: sleeper.keep(0), lambda: sleeper.keep(30, done=True)):
            with pytest.raises(Superseded):
                await late()
        assert now(task) == before
        with pytest.raises(Busy):
            await steps.held(task.id, 5)
        await other.save()

    asyncio.run(work())
    assert now(task).cursor == {"at": 2}


def test_a_slice_that_lost_its_lease_is_stopped_by_its_beat(task: Task) -> None:
    from mangrove.records import tasks

    stopped: list[str] = []

    async def work(run: Run) -> bool:
        tasks.take(task.id, run._token, -1)
        tasks.take(task.id, "other", 30)
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            stopped.append("yes")
            raise
        return False

    began = time.monotonic()
    with pytest.raises(Superseded):
        step(task, work)
    assert stopped == ["yes"]
    assert time.monotonic() - began < 2
    assert now(task).view["error"] == ""


def renewed(task: Task, until: float) -> None:
    """Wait until the lease ends later than it would have."""
    end = time.monotonic() + 20
    while now(task).touched == until:
        assert time.monotonic() < end
        time.sleep(BEAT / 4)


def test_a_long_slice_keeps_its_lease_by_beating(task: Task) -> None:
    async def work(run: Run) -> bool:
        for _ in range(3):
            until = now(task).touched
            await asyncio.to_thread(renewed, task, until)
            with pytest.raises(Busy):
                await steps.held(task.id, 5)
        return True

    assert step(task, work) is True


def test_a_lease_that_ran_out_is_for_the_taking(task: Task) -> None:
    async def work() -> None:
        run = await steps.held(task.id, 5)
        await run.keep(30)
        with pytest.raises(Busy):
            await steps.held(task.id, 5)
        await run.keep(SHORT)
        await asyncio.sleep(SHORT * 1.2)
        await steps.held(task.id, 5)

    asyncio.run(work())


def test_a_cancel_mark_stops_a_slice_within_a_beat(task: Task) -> None:
    async def work(run: Run) -> bool:
        run.cursor["at"] = 5
        await asyncio.to_thread(queue.cancel, "copy", task.id, board_caller())
        marked.append(time.monotonic())
        await asyncio.sleep(20)
        return False

    marked: list[float] = []
    with pytest.raises(Cancelled, match="context canceled"):
        step(task, work)
    assert time.monotonic() - marked[0] < BEAT + 1
    after = now(task)
    assert (after.cursor, after.done) == ({"at": 5}, False)
    settle(task, "Cancelled")
    after = now(task)
    assert after.done
    assert (after.view["state"], after.view["error"]) == (State.CANCELED, "context canceled")


def board_caller() -> Any:
    from mangrove.identity.rights import Caller

    return Caller(builders.user())


def test_saving_tells_of_a_cancel_mark_and_keeps_what_was_done(task: Task) -> None:
    from mangrove.records import tasks

    async def work(run: Run) -> bool:
        tasks.mark_cancelled(task.id)
        run.cursor["at"] = 7
        await run.save()
        return False

    with pytest.raises(Cancelled):
        step(task, work)
    assert now(task).cursor == {"at": 7}


def test_a_task_that_was_cancelled_before_its_first_slice_does_no_work(task: Task) -> None:
    from mangrove.records import tasks

    tasks.mark_cancelled(task.id)
    with pytest.raises(Cancelled):
        step(task, failing(AssertionError("worked")))
    assert now(task).view["start_time"] is None
    settle(task, "Cancelled")
    assert now(task).view["state"] == State.CANCELED


def test_a_slice_sets_the_task_running_and_lets_go_of_it(task: Task) -> None:
    async def work(run: Run) -> bool:
        run.progress(25)
        run.cursor["at"] = 1
        return True

    assert step(task, work) is True
    after = now(task)
    assert (after.view["state"], after.view["progress"], after.cursor) == (State.RUNNING, 25.0, {"at": 1})
    assert after.view["start_time"].endswith("Z")
    assert after.view["end_time"] is None
    assert step(task, ready) is False
    assert now(task).view["start_time"] == after.view["start_time"]


@pytest.mark.parametrize("problem", [StorageProblem("item x: no"), Unreachable("gone away"), Problem()])
def test_a_step_keeps_the_text_of_its_failure_and_how_far_it_came(task: Task, problem: Problem) -> None:
    async def work(run: Run) -> bool:
        run.cursor["at"] = 3
        raise problem

    with pytest.raises(type(problem)):
        step(task, work)
    after = now(task)
    assert (after.view["error"], after.cursor) == (problem.message, {"at": 3})
    assert asyncio.run(steps.held(task.id, 5)).task.id == task.id
    settle_later(task)
    settle(task, type(problem).__name__)
    after = now(task)
    assert (after.view["state"], after.view["error"]) == (State.FAILED, problem.message)
    assert after.view["end_time"].endswith("Z")


def settle_later(task: Task) -> None:
    """Let go of whatever lease there is."""
    from mangrove.records import tasks

    tasks.release_all("copy")


def test_a_failure_that_a_retry_got_over_does_not_make_the_task_fail(task: Task) -> None:
    with pytest.raises(Unreachable):
        step(task, failing(Unreachable("gone away")))
    assert step(task, ready) is False
    cleaned: list[State] = []
    settle(task, cleaned=cleaned)
    after = now(task).view
    assert (after["state"], after["error"], after["progress"]) == (State.SUCCEEDED, "", 100.0)
    assert cleaned == [State.SUCCEEDED]


def test_a_mistake_in_a_worker_fails_the_task_without_telling_more_than_that(task: Task) -> None:
    with pytest.raises(ZeroDivisionError):
        step(task, failing(ZeroDivisionError("secret text")))
    settle_later(task)
    cleaned: list[State] = []
    settle(task, "ZeroDivisionError", cleaned)
    assert now(task).view["state"] == State.FAILED
    assert now(task).view["error"] == "the worker failed, see the log"
    assert cleaned == [State.FAILED]


@pytest.mark.parametrize("name", ["Busy", "Superseded"])
def test_settling_leaves_a_task_alone_that_is_another_workers(task: Task, name: str) -> None:
    before = now(task)
    settle(task, name)
    assert now(task) == before


def test_settling_waits_for_whoever_holds_the_task_and_does_it_once(task: Task) -> None:
    from mangrove.records import tasks

    asyncio.run(steps.held(task.id, 5))
    with pytest.raises(Busy):
        settle(task)
    tasks.release_all("copy")
    settle(task)
    before = now(task)
    settle(task, "StorageProblem")
    assert now(task).view == before.view
    assert step(task, failing(AssertionError("worked"))) is False


def test_a_deleted_task_is_superseded_and_comes_to_no_new_life(task: Task) -> None:
    from mangrove.records import tasks

    async def work(run: Run) -> bool:
        tasks.delete(task.id)
        await run.save()
        return False

    with pytest.raises(Superseded):
        step(task, work)
    with pytest.raises(Superseded):
        step(task, ready)
    settle(task)
    with pytest.raises(RecordMissing):
        now(task)
    with pytest.raises(Conflict):
        tasks.mark_cancelled(task.id)


def test_the_next_run_takes_the_task_from_a_worker_of_the_last_one(task: Task) -> None:
    from mangrove.records import tasks

    async def work() -> None:
        old = await steps.held(task.id, 5)
        tasks.reopen(old.task, old.view)
        await steps.held(task.id, 5)
        with pytest.raises(Superseded):
            await old.save()
        with pytest.raises(Conflict):
            tasks.reopen(old.task, old.view)

    asyncio.run(work())
    assert now(task).attempt == 1


def test_a_beat_that_is_being_written_does_not_renew_a_lease_that_was_let_go(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mangrove.records import tasks

    beating = threading.Event()
    keep = tasks.keep

    def slow(*args: Any, **changes: Any) -> Task:
        if "cursor" not in changes:  # a beat writes what is shown
            beating.set()
            time.sleep(0.1)
        return keep(*args, **changes)

    monkeypatch.setattr(tasks, "keep", slow)

    async def work(run: Run) -> bool:
        assert await asyncio.to_thread(beating.wait, 5)
        return False

    async def whole() -> None:
        await steps.step(task.id, 5, work)
        await asyncio.sleep(0.2)
        await steps.held(task.id, 5)

    asyncio.run(whole())


def test_a_task_that_was_deleted_under_way_is_cleaned_up_by_its_worker(task: Task) -> None:
    async def work(run: Run) -> bool:
        await asyncio.to_thread(queue.delete, "copy", task.id, board_caller())
        await asyncio.sleep(20)
        return False

    with pytest.raises(Cancelled):
        step(task, work)
    assert now(task).gone
    cleaned: list[State] = []
    settle(task, "Cancelled", cleaned)
    assert cleaned == [State.CANCELED]
    with pytest.raises(RecordMissing):
        now(task)


@pytest.mark.parametrize("error", ["", "StorageProblem"])
def test_a_task_that_is_deleted_while_it_is_settled_does_not_come_back(task: Task, error: str) -> None:
    async def clean(run: Run, state: State) -> None:
        await asyncio.to_thread(queue.delete, "copy", task.id, board_caller())

    asyncio.run(steps._settle(task.id, {"Error": error} if error else {}, clean))
    with pytest.raises(RecordMissing):
        now(task)
    for done in (False, True):
        assert list(queue.listed("copy", done, board_caller())) == []


def test_a_worker_that_wakes_late_can_neither_settle_a_task_nor_bring_a_deleted_one_back(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mangrove.records import tasks

    monkeypatch.setattr(steps, "LEASE_SECONDS", SHORT)

    async def clean(run: Run, state: State) -> None:
        tasks.take(task.id, run._token, -1)  # it sleeps through its lease here
        other = await steps.held(task.id, 5)
        other.view["status"] = "at work"
        await other.keep(30, view=other.view)

    asyncio.run(steps._settle(task.id, {}, clean))
    after = now(task)
    assert (after.done, after.view["state"], after.view["status"]) == (False, State.PENDING, "at work")


def test_a_slice_of_a_task_that_is_done_does_nothing_and_lets_go_of_it(task: Task) -> None:
    settle(task)
    before = now(task)
    assert step(task, failing(AssertionError("worked"))) is False
    assert (now(task).view, now(task).cursor) == (before.view, before.cursor)
    asyncio.run(steps.held(task.id, 5))  # at once: nobody holds it


def test_a_worker_answers_what_the_machine_reads(task: Task) -> None:
    async def work(run: Run) -> bool:
        assert run.has_time()
        run.wait = 7
        return True

    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return 100_000

    handler = steps.worker(work)
    wanted = {"tid": task.id, "more": True, "seconds": 7}
    assert handler({"tid": task.id}, None) == wanted
    assert handler({"tid": task.id}, Context()) == wanted
    cleaned: list[State] = []

    async def clean(run: Run, state: State) -> None:
        cleaned.append(state)

    assert steps.settler(clean)({"tid": task.id}, None) == {"tid": task.id, "more": False}
    assert cleaned == [State.SUCCEEDED]
    assert now(task).view["state"] == State.SUCCEEDED
    assert handler({"tid": task.id}, None) == wanted | {"more": False, "seconds": 0}
