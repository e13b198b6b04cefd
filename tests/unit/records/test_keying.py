"""Records of version 2 get the keys of version 3: tasks those of their lists, users those that look-alikes share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mangrove.core.problems import BadRequest
from mangrove.records.accounts import users
from mangrove.records.store import keying, schema
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import NewTask, Task, TaskView
from tests.old_records import make_version_2, read_items

pytestmark = pytest.mark.usefixtures("records")


def create(number: int, kind: str = "copy") -> Task:
    view = TaskView(f"task {number}", "name", "ann", 0, 0, "", 0.0, None, None, 0, "")
    return tasks.create(NewTask(kind, 1 + number % 2, view, {"from": "/a"}))


def finish(task: Task, second: int) -> Task:
    end = datetime.fromtimestamp(1000 + second, UTC).isoformat()
    return tasks.save(task, "one", 0, view=replace(task.view, end_time=end), done=True)


def list_all() -> list[Any]:
    lists = [
        [row.id for row in task_lists.list_rows(kind, done, owner)]
        for kind in ("copy", "index")
        for done in (False, True)
        for owner in (None, 1, 2)
    ]
    first = task_lists.list_unfinished("copy")
    assert first.following is not None
    return [lists, first.ids, task_lists.list_unfinished("copy", first.following).ids]


def read_all(engine: str) -> dict[str, Any]:
    return {item["id"]["S"]: item for item in read_items(engine, "tasks")}


@pytest.fixture
def made() -> list[Any]:
    """Users, and tasks of every status; the lists that they are in."""
    users.create(username="ann", password_hash="h")
    users.create(username="bob", password_hash="h")
    for number in range(4):
        create(number)
    for number in range(4, 8):
        finish(create(number), 8 - number)
    tasks.mark_removed(create(8))
    finish(create(9, "index"), 0)
    return list_all()


def test_records_of_version_2_are_listed_as_before_and_nothing_else_of_them_changes(engine: str, made: Any) -> None:
    before = read_all(engine)
    make_version_2(engine)
    assert task_lists.list_unfinished("copy").ids == []
    schema.write_version(2, "0.2.0")
    schema.upgrade(schema.read_version())
    assert schema.read_version() == 3
    assert list_all() == made
    assert read_all(engine) == before
    with pytest.raises(BadRequest, match=users.LOOKS_TAKEN):
        users.create(username="Ann", password_hash="h")


def test_users_who_looked_alike_before_stay_and_nobody_else_joins_them(engine: str) -> None:
    for name in ("ann", "Ann"):
        users.create(username=name, password_hash="h")
        make_version_2(engine)
    keying.key_all()
    assert [user.username for user in users.all()] == ["ann", "Ann"]
    with pytest.raises(BadRequest, match=users.LOOKS_TAKEN):
        users.create(username="ANN", password_hash="h")
    for user in users.all():
        users.delete(user.id)
    assert users.create(username="aNn", password_hash="h").id


def test_an_upgrade_that_was_cut_is_finished_by_the_next(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_version_2(engine)
    key_task, left = keying.key_task, [5]

    def key_some(item: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        key_task(item)

    monkeypatch.setattr(keying, "key_task", key_some)
    with pytest.raises(KeyboardInterrupt):
        keying.key_all()
    monkeypatch.undo()
    keying.key_all()
    upgraded = read_all(engine)
    assert list_all() == made
    keying.key_all()
    assert read_all(engine) == upgraded, "a second time there is nothing to do"


def test_a_task_that_changed_during_the_upgrade_is_left_as_it_is_now(
    engine: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_version_2(engine)
    key_task = keying.key_task

    def change_first(item: Any) -> None:
        if item["id"]["S"] == "task 1":
            finish(tasks.get("task 1"), 50)
        if item["id"]["S"] == "task 5":
            tasks.delete("task 5")
        key_task(item)

    monkeypatch.setattr(keying, "key_task", change_first)
    keying.key_all()
    assert tasks.get("task 1").done
    assert [row.id for row in task_lists.list_rows("copy", True)] == ["task 1", "task 4", "task 6", "task 7"]
    assert [row.id for row in task_lists.list_rows("copy", False, 2)] == ["task 3"]
