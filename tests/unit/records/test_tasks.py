"""Task records on the real engine: leases, states, what is read of many and of one."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

import orjson
import pytest

from mangrove.records import tasks
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Task, TaskRecord, TaskView

pytestmark = pytest.mark.usefixtures("records")


def make_view(**changes: object) -> TaskView:
    view = TaskView(secrets.token_hex(8), "a task", "ann", 0, 0, "", 0.0, None, None, 5, "")
    return replace(view, **changes)  # type: ignore[arg-type]


def create(kind: str = "copy", **changes: object) -> Task:
    return tasks.create(kind, 7, make_view(**changes), {"version": 1, "password": "p"})


def ids(kind: str, done: bool, page_size: int | None = None) -> list[str]:
    return [row.id for row in tasks.list_rows(kind, done, page_size)]


def test_a_new_task_is_read_as_it_was_made() -> None:
    task = create()
    assert tasks.get(task.id) == task
    assert (task.kind, task.owner, task.attempt) == ("copy", 7, 0)
    assert (task.cursor, task.done, task.removed, task.cancel) == ({}, False, False, False)
    with pytest.raises(Conflict):
        tasks.create("copy", 7, task.view, {})
    with pytest.raises(RecordMissing):
        tasks.get("none")


def test_a_view_is_stored_under_the_names_that_clients_read() -> None:
    task = create(status="s", progress=12.5, start_time="2024-01-01T00:00:00Z")
    stored = orjson.loads(TaskRecord.get(task.id).view)
    assert list(stored) == [
        "id", "name", "creator", "creator_role", "state", "status", "progress", "start_time", "end_time",
        "total_bytes", "error",
    ]  # fmt: skip
    assert stored == task.view.to_wire()


@pytest.mark.parametrize("page_size", [None, 1, 3])
def test_rows_are_read_oldest_first_page_by_page(page_size: int | None) -> None:
    made = []
    for _ in range(7):
        made.append(create().id)
        time.sleep(0.002)  # they are ordered by milliseconds
    create("move")
    assert ids("copy", False, page_size) == made
    (row,) = tasks.list_rows("move", False)
    assert (row.owner, row.view.name, row.cancel) == (7, "a task", False)


def test_a_lease_is_held_by_one_token_until_it_ends() -> None:
    task = create()
    tasks.acquire_lease(task.id, "one", 30)
    tasks.acquire_lease(task.id, "one", 30)
    with pytest.raises(Conflict):
        tasks.acquire_lease(task.id, "other", 30)
    tasks.save(task, "one", 0)
    tasks.acquire_lease(task.id, "other", 30)
    with pytest.raises(Conflict):
        tasks.save(task, "one", 30, cursor={"late": 1})
    assert tasks.get(task.id).cursor == {}
    with pytest.raises(Conflict):
        tasks.acquire_lease("none", "one", 30)


def test_saving_writes_what_is_given_and_tells_of_a_cancel_mark() -> None:
    task = tasks.acquire_lease(create().id, "one", 30)
    tasks.mark_cancelled(task.id)
    saved = tasks.save(task, "one", 30, cursor={"position": 2})
    assert (saved.cancel, saved.cursor, saved.view) == (True, {"position": 2}, task.view)
    saved = tasks.save(task, "one", 0, view=replace(task.view, state=2), done=True)
    assert (saved.done, saved.view.state, saved.cursor) == (True, 2, {"position": 2})
    assert (ids("copy", False), ids("copy", True)) == ([], [task.id])


def test_a_removed_task_is_unfinished_and_shown_no_more() -> None:
    task = tasks.acquire_lease(create().id, "one", 30)
    tasks.mark_removed(task)
    assert (ids("copy", False), ids("copy", True)) == ([], [])
    assert [row.id for row in tasks.list_unfinished("copy")] == [task.id]
    assert tasks.get(task.id).removed
    with pytest.raises(Conflict):
        tasks.save(task, "one", 0, done=True)
    tasks.delete_removed(task.id)
    tasks.delete_removed(task.id)
    with pytest.raises(RecordMissing):
        tasks.get(task.id)
    other = create()
    tasks.delete_removed(other.id)
    assert tasks.get(other.id) == other


def test_a_task_is_reopened_once_and_loses_its_lease() -> None:
    task = tasks.acquire_lease(create().id, "one", 30)
    done = tasks.save(task, "one", 0, done=True)
    again = tasks.reopen(done, replace(done.view, state=8))
    assert (again.attempt, again.done, again.view.state) == (1, False, 8)
    with pytest.raises(Conflict):
        tasks.reopen(done, done.view)
    with pytest.raises(Conflict):
        tasks.save(task, "one", 30)
    tasks.mark_done(again, done.view)
    assert ids("copy", True) == [task.id]
    removed = tasks.reopen(tasks.get(task.id), done.view, removed=True)
    assert (removed.removed, removed.cancel, removed.attempt) == (True, True, 2)


def test_deleting_what_is_done_leaves_what_was_reopened() -> None:
    task = create()
    tasks.delete_done("copy", task.id)
    assert ids("copy", False) == [task.id]
    tasks.save(tasks.acquire_lease(task.id, "one", 30), "one", 0, done=True)
    tasks.delete_done("copy", task.id)
    tasks.delete_done("copy", task.id)
    assert ids("copy", True) == []


def test_releasing_leases_is_for_one_kind() -> None:
    held, other = create(), create("move")
    for task in (held, other):
        tasks.acquire_lease(task.id, "one", 30)
    assert [row.id for row in tasks.release_leases("copy")] == [held.id]
    tasks.acquire_lease(held.id, "other", 30)
    with pytest.raises(Conflict):
        tasks.acquire_lease(other.id, "other", 30)
