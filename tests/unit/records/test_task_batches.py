"""Many task records in one call on the real engine: all or none, except records that changed meanwhile."""

from __future__ import annotations

import pytest

from mangrove.core.problems import RecordsUnavailable
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import NewTask, Task
from tests.unit.records.test_tasks import ids, make_view

pytestmark = pytest.mark.usefixtures("records")


def make_new(count: int) -> list[NewTask]:
    return [NewTask("copy", 7, make_view(), {"version": 1}) for _ in range(count)]


def finish(task: Task) -> Task:
    return tasks.save(task, "one", 0, done=True)


def test_many_tasks_are_stored_in_their_order_all_or_none() -> None:
    new = make_new(100)
    made = task_batches.create(new)
    assert [task.id for task in made] == [new_task.view.id for new_task in new]
    assert sorted(ids("copy", False)) == sorted(task.id for task in made)
    with pytest.raises(RecordConflict):
        task_batches.create([*make_new(1), new[5]])
    assert len(ids("copy", False)) == 100
    tasks_by_id = {task.id: task for task in task_batches.read([*(task.id for task in made[:99]), "none"])}
    assert tasks_by_id == {task.id: task for task in made[:99]}


def test_deleting_what_is_done_leaves_what_was_reopened() -> None:
    made = task_batches.create(make_new(4))
    done = [finish(task) for task in made[:3]]
    again = runs.reopen(done[0], done[0].view)
    task_batches.delete_done("copy", [task.id for task in made])
    assert (sorted(ids("copy", False)), ids("copy", True)) == (sorted([again.id, made[3].id]), [])
    task_batches.delete_done("copy", [task.id for task in made])
    assert len(ids("copy", False)) == 2


def test_only_what_no_worker_has_touched_is_deleted_as_new() -> None:
    new, held, retried = task_batches.create(make_new(3))
    tasks.acquire_lease(held.id, "one", 30)
    runs.reopen(finish(retried), retried.view)
    assert task_batches.delete_new([new, held, retried]) == [new]
    assert sorted(ids("copy", False)) == sorted([held.id, retried.id])
    assert task_batches.delete_new([new]) == []


def test_a_transaction_that_met_another_one_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = task_batches.create(make_new(1))

    def meet(*_: object) -> None:
        raise RecordConflict([False])

    monkeypatch.setattr(task_batches, "transaction", meet)
    with pytest.raises(RecordsUnavailable):
        task_batches.delete_done("copy", [task.id])
