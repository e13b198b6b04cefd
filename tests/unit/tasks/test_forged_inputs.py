"""Workers with forged input or tasks: they answer or raise a clear problem, and end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from mangrove.core.problems import Problem
from mangrove.records.store.encryption import DecryptionError
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks.model import Task, TaskRecord
from mangrove.tasks.core import leases, queue, workers
from mangrove.tasks.core.leases import Superseded
from mangrove.tasks.core.model import Spec, State
from mangrove.tasks.core.queue import TaskRequest
from tests.support.platforms import use_cloud
from tests.support.task_env import RecordingDispatcher
from tests.unit.tasks.counting import OWNER, SCHEMA, CountRun, do_nothing, read, settle


@pytest.fixture
def task(starter: RecordingDispatcher, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task that no worker holds."""
    monkeypatch.setattr(leases, "HEARTBEAT_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.3)
    return queue.enqueue("copy", OWNER.user, TaskRequest("copy [/a](/b) to [/c](/d)", Spec(), 100))


def handle(task_id: Any, failure: dict[str, str] | None = None, states: list[State] | None = None) -> Any:
    """Return the answer of a settler."""

    async def clean(run: CountRun, state: State) -> None:
        if states is not None:
            states.append(state)

    event = task_id if isinstance(task_id, dict) else {"tid": task_id}
    return workers.make_settler(SCHEMA, clean)(event | ({"failure": failure} if failure else {}), None)


@pytest.mark.parametrize(
    "event", [{}, {"tid": 7}, {"tid": ""}, {"tid": "x" * 300}, {"tid": {"S": "x"}}, {"tid": "none"}]
)
def test_a_forged_input_of_a_worker_ends_its_machine(task: Task, event: dict[str, Any]) -> None:
    with pytest.raises(Superseded):
        workers.make_worker(SCHEMA, do_nothing)(event, None)
    assert handle(event, {"Error": "Superseded"})["more"] is False
    assert handle(event)["more"] is False
    assert not read(task).done


def test_a_forged_start_of_a_task_that_is_done_changes_nothing(task: Task) -> None:
    settle(task)
    done = read(task)
    states: list[State] = []
    assert workers.make_worker(SCHEMA, do_nothing)({"tid": task.id}, None)["more"] is False
    assert handle(task.id, {"Error": "Boom"}, states)["more"] is False
    assert (read(task).view, read(task).done, states) == (done.view, True, [])


@pytest.mark.parametrize("cloud", [False, True])
@pytest.mark.parametrize("flaw", ["spec", "cursor"])
def test_a_task_that_cannot_be_read_fails_once_and_for_all(
    task: Task, flaw: str, cloud: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cloud:
        use_cloud()
    if flaw == "spec":
        with suppress(DecryptionError):  # the answer has what was just written
            TaskRecord(task.id).update(actions=[TaskRecord.spec.set(b"forged" * 9)])
    else:
        TaskRecord(task.id).update(actions=[TaskRecord.cursor.set('{"version":9}')])
    with pytest.raises(Problem):
        workers.make_worker(SCHEMA, do_nothing)({"tid": task.id}, None)
    assert handle(task.id, {"Error": "UnreadableTask"}) == {"tid": task.id, "more": False}
    (row,) = task_lists.list_rows("copy", True)
    assert (row.id, row.view.state, bool(row.view.error)) == (task.id, State.FAILED, True)
    assert task_lists.list_unfinished("copy").ids == []
    assert [task_found.id for task_found in task_batches.read([task.id])] == ([] if flaw == "spec" else [task.id])
