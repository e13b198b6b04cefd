"""The queue on the real records engine: who sees and does what, and what each verb does to a task."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mangrove.core.problems import Problem, RecordNotFound, ResourceNotFound
from mangrove.identity.rights import Caller
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.core.steps import CANCELED
from mangrove.tasks.transfer.declaration import TransferSpec
from tests.support.platforms import use_dispatcher
from tests.support.task_env import RecordingDispatcher
from tests.unit.tree import builders

pytestmark = pytest.mark.usefixtures("records")

ANN = Caller(builders.user(id=11, username="ann"))
BOB = Caller(builders.user(id=12, username="bob"))
ADMIN = Caller(builders.user(id=1, username="admin", role=2))
SPEC = TransferSpec(source="/a/b", password="open sesame", target_dir="/c/d", name="b", overwrite=False)


@pytest.fixture(autouse=True)
def started(starter: RecordingDispatcher) -> list[Task]:
    """The tasks whose machines were started."""
    return starter.started


class RefusingStarter(RecordingDispatcher):
    """Step Functions that do not answer."""

    def start(self, task: Task, suffix: str = "") -> None:
        raise Problem("the task cannot be started")


def open_task(caller: Caller = ANN, kind: str = "copy", **more: Any) -> Task:
    return queue.enqueue(kind, caller.user, TaskRequest("copy [/a](/b) to [/c](/d)", SPEC, **more))


def settle(task: Task, state: State = State.SUCCEEDED, error: str = "", days: float = 0) -> Task:
    """The same task, done since so many days."""
    token = secrets.token_hex(4)
    task = tasks.acquire_lease(task.id, token, 5)
    start, end = "2024-01-01T00:00:00Z", (datetime.now(UTC) - timedelta(days=days)).isoformat()
    view = replace(task.view, state=state, error=error, start_time=start, end_time=end)
    return tasks.save(task, token, 0, view=view, done=True)


def ids(kind: str, done: bool, caller: Caller) -> list[str]:
    return [row.id for row in queue.list_views(kind, done, caller)]


def expect_missing(work: Any) -> None:
    with pytest.raises(ResourceNotFound) as caught:
        work()
    assert caught.value.message == "task not found"


def test_a_new_task_has_all_eleven_fields_and_is_started_once(started: list[Task]) -> None:
    task = open_task(kind="upload", size=7, status="uploading")
    assert queue.view(task).to_wire() == {
        "id": task.id, "name": "copy [/a](/b) to [/c](/d)", "creator": "ann", "creator_role": 0, "state": 0,
        "status": "uploading", "progress": 0.0, "start_time": None, "end_time": None, "total_bytes": 7, "error": "",
    }  # fmt: skip
    assert [(start.id, start.attempt) for start in started] == [(task.id, 0)]
    assert queue.get("upload", task.id, ANN) == task


def test_the_folder_password_lies_sealed_in_the_table() -> None:
    from mangrove.records.tasks.model import TaskRecord

    task = open_task()
    raw = str(TaskRecord._get_connection().get_item(task.id))
    assert task.id in raw
    assert "open sesame" not in raw
    assert queue.get("copy", task.id, ANN).spec == SPEC.dump()


def test_the_owner_and_administrators_see_a_task_and_nobody_else() -> None:
    of_ann, of_bob = open_task(ANN), open_task(BOB)
    assert (ids("copy", False, ANN), ids("copy", False, BOB)) == ([of_ann.id], [of_bob.id])
    assert ids("copy", False, ADMIN) == [of_ann.id, of_bob.id]
    assert queue.get("copy", of_ann.id, ADMIN) == of_ann
    expect_missing(lambda: queue.get("copy", of_ann.id, BOB))
    expect_missing(lambda: queue.get("copy", queue.make_id(), ADMIN))
    expect_missing(lambda: queue.get("move", of_ann.id, ANN))


@pytest.mark.parametrize("verb", [queue.cancel, queue.retry, queue.delete])
def test_a_stranger_can_do_nothing_to_a_task(verb: Any, started: list[Task]) -> None:
    undone, done = open_task(), settle(open_task())
    before = [queue.get("copy", task.id, ANN) for task in (undone, done)]
    for task in (undone, done):
        expect_missing(lambda task=task: verb("copy", task.id, BOB))
    assert [queue.get("copy", task.id, ANN) for task in (undone, done)] == before
    assert len(started) == 2


def test_lists_are_ordered_by_kind_and_status() -> None:
    tasks = [open_task() for _ in range(5)]
    other = open_task(kind="move")
    settle(tasks[1])
    settle(tasks[3], State.FAILED, "no")
    assert ids("copy", False, ANN) == [tasks[n].id for n in (0, 2, 4)]
    assert ids("copy", True, ANN) == [tasks[n].id for n in (3, 1)]
    assert (ids("move", False, ANN), ids("move", True, ANN)) == ([other.id], [])


def test_expired_task_is_hidden_before_its_deletion() -> None:
    old, young = settle(open_task(), days=7.05), settle(open_task(), days=7.03)
    assert ids("copy", True, ANN) == ids("copy", True, ADMIN) == [young.id]
    expect_missing(lambda: queue.get("copy", old.id, ANN))
    expect_missing(lambda: queue.retry("copy", old.id, ADMIN))
    assert tasks.get(old.id).done


def test_cancelling_a_task_that_is_under_way_shows_it_canceling() -> None:
    task = open_task()
    queue.cancel("copy", task.id, ANN)
    queue.cancel("copy", task.id, ADMIN)
    assert queue.view(queue.get("copy", task.id, ANN)).state == State.CANCELING
    assert [row.state for row in queue.list_views("copy", False, ANN)] == [State.CANCELING]


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELED, State.FAILED])
def test_cancelling_a_task_that_is_done_changes_nothing(state: State) -> None:
    task = settle(open_task(), state, "why")
    queue.cancel("copy", task.id, ANN)
    assert queue.get("copy", task.id, ANN) == task
    assert queue.view(task).state == state


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELED, State.FAILED])
def test_retrying_a_task_that_is_done_begins_its_next_run(state: State, started: list[Task]) -> None:
    task = settle(open_task(), state, "why")
    queue.retry("copy", task.id, ANN)
    again = queue.get("copy", task.id, ANN)
    assert (again.attempt, again.done, again.cancel) == (1, False, False)
    view = queue.view(again)
    assert (view.state, view.error, view.end_time) == (State.WAITING_RETRY, "", None)
    assert [(start.id, start.attempt) for start in started] == [(task.id, 0), (task.id, 1)]
    assert ids("copy", False, ANN) == [task.id]
    assert ids("copy", True, ANN) == []


def test_retrying_a_cancelled_task_takes_its_mark_away() -> None:
    task = open_task()
    queue.cancel("copy", task.id, ANN)
    settle(task, State.CANCELED, CANCELED)
    queue.retry("copy", task.id, ANN)
    again = queue.get("copy", task.id, ANN)
    assert not again.cancel
    assert queue.view(again).state == State.WAITING_RETRY


def test_retrying_a_task_that_is_under_way_changes_nothing(started: list[Task]) -> None:
    task = open_task()
    queue.retry("copy", task.id, ANN)
    assert queue.get("copy", task.id, ANN) == task
    assert len(started) == 1


def test_two_retries_at_once_are_one_run(started: list[Task]) -> None:
    task = settle(open_task(), State.FAILED, "why")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: queue.retry("copy", task.id, ANN), range(8)))
    assert queue.get("copy", task.id, ANN).attempt == 1
    assert {start.attempt for start in started} == {0, 1}  # starting a run twice is one run


@pytest.mark.parametrize("done", [False, True])
def test_a_deleted_task_is_gone(done: bool) -> None:
    task = settle(open_task()) if done else open_task()
    queue.delete("copy", task.id, ANN)
    expect_missing(lambda: queue.get("copy", task.id, ANN))
    for verb in (queue.delete, queue.cancel, queue.retry):
        expect_missing(lambda verb=verb: verb("copy", task.id, ANN))
    assert ids("copy", False, ADMIN) == ids("copy", True, ADMIN) == []


@pytest.mark.parametrize("id", ["", "x", "x" * 21, "ä" * 21, "x" * 5000])
def test_what_is_no_id_is_not_found(id: str) -> None:
    expect_missing(lambda: queue.get("copy", id, ADMIN))


def test_a_task_that_cannot_be_started_is_not_left_in_the_queue() -> None:
    use_dispatcher(RefusingStarter())
    with pytest.raises(Problem, match="cannot be started"):
        open_task()
    assert ids("copy", False, ANN) == []


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELED, State.SUCCEEDED])
def test_retry_that_cannot_start_leaves_task_done(
    state: State, starter: RecordingDispatcher, started: list[Task]
) -> None:
    task = settle(open_task(), state, "why")
    use_dispatcher(RefusingStarter())
    with pytest.raises(Problem, match="cannot be started"):
        queue.retry("copy", task.id, ANN)
    use_dispatcher(starter)
    after = queue.get("copy", task.id, ANN)
    assert (after.done, queue.view(after)) == (True, queue.view(task))
    assert (ids("copy", False, ANN), ids("copy", True, ANN)) == ([], [task.id])
    queue.retry("copy", task.id, ANN)
    assert ids("copy", False, ANN) == [task.id]
    assert [start.attempt for start in started] == [0, 2]


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELED])
def test_deleting_what_did_not_succeed_starts_a_run_that_cleans_up(state: State, started: list[Task]) -> None:
    task = settle(open_task(), state, "why")
    queue.delete("copy", task.id, ANN)
    assert [(start.attempt, start.removed, start.cancel) for start in started[1:]] == [(1, True, True)]
    expect_missing(lambda: queue.get("copy", task.id, ADMIN))
    expect_missing(lambda: queue.delete("copy", task.id, ANN))
    assert len(started) == 2


def test_deleting_what_succeeded_needs_no_further_run(started: list[Task]) -> None:
    task = settle(open_task())
    queue.delete("copy", task.id, ANN)
    assert len(started) == 1


def test_of_a_retry_and_a_delete_at_once_one_wins() -> None:
    for _ in range(5):
        task = settle(open_task(), State.FAILED, "why")
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(verb, "copy", task.id, ANN) for verb in (queue.retry, queue.delete)]
        assert [future.exception() for future in done if not isinstance(future.exception(), ResourceNotFound)] in (
            [None],
            [None] * 2,
        )
        left = ids("copy", False, ANN)
        assert left in ([], [task.id])
        if left:
            queue.delete("copy", task.id, ANN)


def test_stopping_a_task_under_way_lets_it_go_first(starter: RecordingDispatcher) -> None:
    first, second, third = open_task(), open_task(), settle(open_task())
    queue.cancel("copy", first.id, ANN)
    tasks.acquire_lease(second.id, "a worker", 30)
    queue.delete("copy", second.id, ANN)
    queue.cancel("copy", third.id, ANN)
    assert [task.id for task in starter.expedited] == [first.id, second.id]


def test_chaining_twice_opens_one_transfer_for_each_run(started: list[Task]) -> None:
    task = open_task(kind="decompress")
    assert queue.find_chained(queue.get_stage(task)) is None
    spec = TransferSpec(source="/x", target_dir="/c/d", name="", overwrite=True)
    for _ in range(3):
        queue.chain("decompress_upload", task, queue.get_stage(task), "upload a to [/c](/d)", spec, 9)
    (id,) = ids("decompress_upload", False, ANN)
    chained = queue.get("decompress_upload", id, ANN)
    assert queue.find_chained(queue.get_stage(task)) is not None
    assert (chained.owner, chained.view.total_bytes, chained.spec) == (11, 9, spec.dump())
    assert (chained.view.creator, chained.view.name) == ("ann", "upload a to [/c](/d)")
    assert id == queue.get_chained_id(queue.get_stage(task))
    assert {start.id for start in started} == {task.id, id}
    settle(chained)
    queue.chain("decompress_upload", task, queue.get_stage(task), "upload a to [/c](/d)", spec, 9)
    assert (len(started), ids("decompress_upload", False, ANN)) == (4, [])
    queue.retry("decompress", settle(task).id, ANN)
    again = queue.get("decompress", task.id, ANN)
    queue.chain("decompress_upload", again, queue.get_stage(again), "again", spec, 9)
    assert len(ids("decompress_upload", False, ANN)) == 1
    assert len(ids("decompress_upload", True, ANN)) == 1


def test_a_chained_transfer_that_waits_is_started_by_who_resumes_it(started: list[Task]) -> None:
    task = open_task(kind="decompress")
    assert not queue.resume_chained(queue.get_stage(task))
    queue.chain("decompress_upload", task, queue.get_stage(task), "upload a to [/c](/d)", SPEC, 9)
    count = len(started)
    assert queue.resume_chained(queue.get_stage(task))
    assert len(started) == count + 1
    settle(started[-1])
    assert queue.resume_chained(queue.get_stage(task))
    assert len(started) == count + 1


def test_what_no_worker_has_begun_is_deleted_at_once(starter: RecordingDispatcher) -> None:
    task = open_task()
    queue.delete("copy", task.id, ANN)
    with pytest.raises(RecordNotFound):
        tasks.get(task.id)
    assert (starter.expedited, starter.forgotten) == ([], [task])


def test_many_tasks_are_opened_and_deleted_as_one_would_be(starter: RecordingDispatcher) -> None:
    requests = [TaskRequest(f"copy {number}", SPEC) for number in range(250)]
    made = queue.enqueue_many("copy", ANN.user, requests)
    assert [task.view.name for task in made] == [request.name for request in requests]
    assert starter.started == made
    others = open_task(BOB)
    for task in made[:30]:
        settle(task, State.FAILED if int(task.view.name.split()[1]) % 2 else State.SUCCEEDED)
    requested_ids = [*(task.id for task in made), others.id, "x", made[0].id]
    assert queue.delete_many("copy", requested_ids, ANN) == [others.id, "x"]
    assert ids("copy", False, ADMIN) == [others.id]
    assert ids("copy", True, ADMIN) == []
    assert len([task for task in starter.started if task.removed]) == 15


def test_clearing_takes_what_is_done_in_the_states_and_leaves_the_others() -> None:
    expected = {open_task().id, settle(open_task(BOB)).id, settle(open_task(), State.FAILED).id}
    for _ in range(3):
        settle(open_task())
    queue.clear("copy", {State.SUCCEEDED}, ANN)
    assert {*ids("copy", True, ADMIN), *ids("copy", False, ADMIN)} == expected
    queue.clear("copy", {State.SUCCEEDED, State.FAILED}, ADMIN)
    assert ids("copy", True, ADMIN) == []


def test_of_many_tasks_that_cannot_all_be_started_those_before_stay() -> None:
    class Some(RecordingDispatcher):
        def start(self, task: Task, suffix: str = "") -> None:
            if len(self.started) == 3:
                raise Problem("the task cannot be started")
            super().start(task, suffix)

    use_dispatcher(Some())
    with pytest.raises(Problem, match="cannot be started"):
        queue.enqueue_many("copy", ANN.user, [TaskRequest(str(number), SPEC) for number in range(5)])
    assert len(ids("copy", False, ANN)) == 3
