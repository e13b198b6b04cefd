"""Task records on the real engine: leases, states, what is read of many and of one."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

import orjson
import pytest

from mangrove.core.problems import RecordNotFound
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import TASK_DETAILS, Lease, NewTask, Task, TaskRecord, TaskView

pytestmark = pytest.mark.usefixtures("records")


def make_view(**changes: object) -> TaskView:
    view = TaskView(secrets.token_hex(8), "a task", "ann", 0, 0, "", 0.0, None, None, 5, "")
    return replace(view, **changes)  # type: ignore[arg-type]


def create(kind: str = "copy", **changes: object) -> Task:
    return tasks.create(NewTask(kind, 7, make_view(**changes), {"version": 1, "password": "p"}))


def ids(kind: str, done: bool) -> list[str]:
    return [row.id for row in task_lists.list_rows(kind, done)]


def test_a_new_task_is_read_as_it_was_made() -> None:
    task = create()
    assert tasks.get(task.id) == task
    assert (task.kind, task.owner, task.attempt) == ("copy", 7, 0)
    assert (task.cursor, task.done, task.removed, task.cancel) == ({}, False, False, False)
    with pytest.raises(RecordConflict):
        tasks.create(NewTask("copy", 7, task.view, {}))
    with pytest.raises(RecordNotFound):
        tasks.get("none")


def test_one_of_two_requests_in_a_millisecond_opens_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    now = float(int(time.time()))
    new = NewTask("copy", 7, make_view(), {})

    def create_at(seconds: float) -> Task:
        monkeypatch.setattr(tasks.time, "time", lambda: now + seconds)
        return tasks.create(new)

    def renew_at(seconds: float) -> Task:
        monkeypatch.setattr(tasks.time, "time", lambda: now + seconds)
        return runs.renew(ended, new)

    task = create_at(0.0001)
    assert create_at(0.0001).id == task.id  # once more: the first answer was lost
    with pytest.raises(RecordConflict):
        create_at(0.0002)
    ended = tasks.save(tasks.acquire_lease(task.id, "one", 30), "one", 0, done=True)
    assert renew_at(1.0001).attempt == renew_at(1.0001).attempt == 1
    with pytest.raises(RecordConflict):
        renew_at(1.0002)


def test_a_view_is_stored_under_the_names_that_clients_read() -> None:
    task = create(status="s", progress=12.5, start_time="2024-01-01T00:00:00Z")
    stored = orjson.loads(TaskRecord.get(task.id).view)
    assert list(stored) == [
        "id", "name", "creator", "creator_role", "state", "status", "progress", "start_time", "end_time",
        "total_bytes", "error", "token", "request_id", *TASK_DETAILS, "waiting",
    ]  # fmt: skip
    assert stored == task.view.to_wire() | {"token": 0, "request_id": "", "waiting": 0.0} | task.view.get_details()


def test_a_lease_is_held_by_one_token_until_it_is_let_go() -> None:
    task = create()
    tasks.acquire_lease(task.id, "one", -3600)  # whatever the clocks say
    held = tasks.acquire_lease(task.id, "one", 30)
    with pytest.raises(RecordConflict):
        tasks.acquire_lease(task.id, "other", 30)
    assert held.lease.token == "one"
    tasks.save(held, "one", 0)
    tasks.acquire_lease(task.id, "other", 30)
    with pytest.raises(RecordConflict):
        tasks.save(held, "one", 30, cursor={"late": 1})
    assert tasks.get(task.id).cursor == {}
    with pytest.raises(RecordConflict):
        tasks.acquire_lease("none", "one", 30)


def test_watched_lease_is_taken_over_unless_renewed() -> None:
    held = tasks.acquire_lease(create().id, "one", 30)
    renewed = tasks.save(held, "one", 30)
    with pytest.raises(RecordConflict):
        tasks.acquire_lease(held.id, "other", 30, held.lease)
    assert tasks.acquire_lease(held.id, "other", 30, renewed.lease).lease.token == "other"
    with pytest.raises(RecordConflict):
        tasks.save(renewed, "one", 30)


def test_the_first_write_of_a_worker_takes_over_the_lease_it_has_found() -> None:
    leased = tasks.acquire_lease(create().id, "of a process that is dead", 30)
    with pytest.raises(RecordConflict):
        tasks.save(replace(leased, lease=Lease()), "ours", 30)
    saved = tasks.save(leased, "ours", 30, cursor={"at": 1})
    assert (saved.lease.token, saved.cursor) == ("ours", {"at": 1})
    assert tasks.save(leased, "ours", 30).lease.token == "ours"  # once more: the first answer was lost
    runs.reopen(saved, saved.view)
    with pytest.raises(RecordConflict):
        tasks.save(saved, "ours", 30)


def test_saving_writes_what_is_given_and_tells_of_a_cancel_mark() -> None:
    task = tasks.acquire_lease(create().id, "one", 30)
    runs.mark_cancelled(task.id)
    saved = tasks.save(task, "one", 30, cursor={"position": 2})
    assert (saved.cancel, saved.cursor, saved.view) == (True, {"position": 2}, task.view)
    saved = tasks.save(task, "one", 0, view=replace(task.view, state=2), done=True)
    assert (saved.done, saved.view.state, saved.cursor) == (True, 2, {"position": 2})
    assert (ids("copy", False), ids("copy", True)) == ([], [task.id])


def test_a_removed_task_is_unfinished_and_shown_no_more() -> None:
    task = tasks.acquire_lease(create().id, "one", 30)
    runs.mark_removed(task)
    assert (ids("copy", False), ids("copy", True)) == ([], [])
    first = task_lists.list_unfinished("copy")
    assert (first.ids, task_lists.list_unfinished("copy", first.next_start)) == ([], ({task.id: task.owner}, None))
    assert tasks.get(task.id).removed
    with pytest.raises(RecordConflict):
        tasks.save(task, "one", 0, done=True)


def test_a_task_is_reopened_once_and_loses_its_lease() -> None:
    task = tasks.acquire_lease(create().id, "one", 30)
    done = tasks.save(task, "one", 0, done=True)
    again = runs.reopen(done, replace(done.view, state=8))
    assert (again.attempt, again.done, again.view.state) == (1, False, 8)
    with pytest.raises(RecordConflict):
        runs.reopen(done, done.view)
    with pytest.raises(RecordConflict):
        tasks.save(task, "one", 30)
    runs.mark_done(again, done.view)
    assert ids("copy", True) == [task.id]
    (removed,) = task_batches.remove_done([tasks.get(task.id)])
    assert (removed.removed, removed.cancel, removed.attempt) == (True, True, 2)
    assert tasks.get(task.id) == replace(removed, lease=Lease())
    assert task_batches.remove_done([again]) == []
