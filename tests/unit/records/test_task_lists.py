"""Lists of tasks on the real engine: in order, from any place, and by marks that what happens meanwhile moves."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest

from mangrove import runtime
from mangrove.config import config
from mangrove.records import base, task_batches, task_lists, task_marks, tasks
from mangrove.records.task_marks import Mark, TaskMarks
from mangrove.records.tasks import NewTask, Task
from tests.unit.records.test_tasks import ids, make_view

pytestmark = pytest.mark.usefixtures("records")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (task_marks, task_lists):
        monkeypatch.setattr(module, "SPACING", 5)


def create(count: int, kind: str = "copy", owner: int = 7) -> list[Task]:
    made: list[Task] = []
    for some in task_batches.split(range(count)):
        made += task_batches.create([NewTask(kind, owner, make_view(), {}) for _ in some])
    return made


def page(start: int, count: int, done: bool = False, owner: int | None = None) -> list[str]:
    rows = task_lists.list_rows("copy", done, owner, start, count)
    return [row.id for row in islice(rows, count)]


def test_rows_are_read_oldest_first_from_any_place_page_by_page() -> None:
    create(40)
    create(3, "move")
    whole = ids("copy", False)
    for count in (1, 3, 40, 100):
        for start in (0, 1, 7, 39, 40, 1000):
            assert page(start, count) == whole[start : start + count]
    (*_, row) = task_lists.list_rows("copy", False)
    assert (row.owner, row.view.name, row.cancel) == (7, "a task", False)


def test_an_owner_pages_through_what_is_his() -> None:
    mine = {task.id for _ in range(8) for task in (*create(3, owner=1), *create(2, owner=2)) if task.owner == 2}
    for _ in range(2):
        assert {id for start in range(0, 20, 3) for id in page(start, 3, owner=2)} == mine
        assert len([id for start in range(0, 20, 3) for id in page(start, 3, owner=2)]) == len(mine)


def test_pages_stay_right_while_tasks_come_end_and_go() -> None:
    left, chance = create(40), random.Random(1)
    for _ in range(12):
        whole, done = ids("copy", False), ids("copy", True)
        for start in (0, 13, 31):
            assert page(start, 4) == whole[start : start + 4]
            assert page(start, 4, True) == done[start : start + 4]
        for task in [left.pop(chance.randrange(len(left))) for _ in range(2)]:
            tasks.save(task, "one", 0, done=True)
        left += create(1)
        if chance.random() < 0.3:
            task_batches.delete_done("copy", done[:3])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the engine answered to queries."""
    found: list[Any] = []
    connection = base.get_connection(tasks.TaskRecord)
    query = connection.query

    def note(*args: object, **given: object) -> object:
        found.append(query(*args, **given))
        return found[-1]

    monkeypatch.setattr(connection, "query", note)
    return found


def test_a_page_far_down_counts_no_more_than_the_rows_from_the_mark_before_it(answers: list[Any]) -> None:
    create(60)
    page(50, 5)
    answers.clear()
    assert len(page(53, 5)) == 5
    assert sum(answer["Count"] for answer in answers) <= 10


@pytest.mark.parametrize("owner", [None, 7])
def test_rows_before_a_page_are_counted_and_not_brought(answers: list[Any], owner: int | None) -> None:
    create(120)
    assert len(page(110, 5, owner=owner)) == 5
    assert sum(len(answer.get("Items", ())) for answer in answers) == 5
    assert sum(answer["Count"] for answer in answers) == 115


def test_marks_are_forgotten_with_the_trust_in_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other processes write, too."""
    from dataclasses import replace

    from mangrove.config import Config

    marks = TaskMarks()
    marks.add("copy#done", None, Mark("key", 5, 0))
    assert marks.find("copy#done", None, 9) == ("key", 5, 0)
    runtime.put(Config, replace(config(), snapshot_seconds=0.0))
    assert marks.find("copy#done", None, 9) == ("", 0, 0)


def test_a_mark_that_was_counted_before_all_was_forgotten_is_not_taken() -> None:
    marks = TaskMarks()
    marks.forget()
    marks.add("copy#done", None, Mark("key", 5, 0))
    assert marks.find("copy#done", None, 9) == ("", 0, 1)


def test_unfinished_tasks_are_read_page_by_page_those_removed_last() -> None:
    made = create(12)
    tasks.mark_removed(made[0])
    tasks.save(made[1], "one", 0, done=True)
    page = task_lists.list_unfinished("copy", limit=5)
    found, following = page.ids, page.following
    while following is not None:
        page = task_lists.list_unfinished("copy", following, limit=5)
        found, following = found + page.ids, page.following
    assert sorted(found[:-1]) == sorted(task.id for task in made[2:])
    assert found[-1] == made[0].id
