"""Lists of tasks on the real engine: in order, from any place, and by marks that what happens meanwhile moves."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.records.store import base
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks import ordering, runs
from mangrove.records.tasks.model import NewTask, Task
from mangrove.records.tasks.ordering import ListName, PageAnchor, PageAnchors, TaskStatus
from tests.unit.records.test_tasks import ids, make_view

DONE = ListName("copy", TaskStatus.DONE, None)
pytestmark = pytest.mark.usefixtures("records")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ordering, task_lists):
        monkeypatch.setattr(module, "ANCHOR_SPACING", 5)


def create(count: int, kind: str = "copy", owner: int = 7) -> list[Task]:
    made: list[Task] = []
    for batch in task_batches.split(range(count)):
        made += task_batches.create([NewTask(kind, owner, make_view(), {}) for _ in batch])
    return made


def page(start: int, count: int, done: bool = False, owner: int | None = None) -> list[str]:
    rows = task_lists.list_rows("copy", done, owner, start, count)
    return [row.id for row in islice(rows, count)]


def test_unfinished_rows_are_read_oldest_first_from_any_position() -> None:
    create(40)
    create(3, "move")
    whole = ids("copy", False)
    for count in (1, 3, 40, 100):
        for start in (0, 1, 7, 39, 40, 1000):
            assert page(start, count) == whole[start : start + count]
    (*_, row) = task_lists.list_rows("copy", False)
    assert (row.owner, row.view.name, row.cancel) == (7, "a task", False)


def test_an_owner_pages_through_what_is_his() -> None:
    own = {task.id for _ in range(8) for task in (*create(3, owner=1), *create(2, owner=2)) if task.owner == 2}
    for _ in range(2):
        assert {id for start in range(0, 20, 3) for id in page(start, 3, owner=2)} == own
        assert len([id for start in range(0, 20, 3) for id in page(start, 3, owner=2)]) == len(own)


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
    """The answers of the engine to queries."""
    results: list[Any] = []
    connection = base.get_connection(tasks.TaskRecord)
    query = connection.query

    def note(*args: object, **options: object) -> object:
        results.append(query(*args, **options))
        return results[-1]

    monkeypatch.setattr(connection, "query", note)
    return results


def test_distant_page_counts_rows_only_from_last_anchor(answers: list[Any]) -> None:
    create(60)
    page(50, 5, owner=7)
    answers.clear()
    assert len(page(53, 5, owner=7)) == 5
    assert sum(answer["Count"] for answer in answers) <= 10


def test_rows_before_a_page_are_counted_and_not_brought(answers: list[Any]) -> None:
    create(120)
    assert len(page(110, 5, owner=7)) == 5
    assert sum(len(answer.get("Items", ())) for answer in answers) == 5
    assert sum(answer["Count"] for answer in answers) == 115


def test_rows_before_page_of_all_owners_are_counted_not_read(answers: list[Any]) -> None:
    create(400)
    whole = ids("copy", False)
    answers.clear()
    assert page(370, 5) == whole[370:375]
    assert sum(len(answer.get("Items", ())) for answer in answers) <= 80
    answers.clear()
    assert page(372, 5) == whole[372:377]
    assert sum(answer["Count"] for answer in answers) <= 80, "the marks were kept"


def test_an_owners_rows_are_found_among_those_of_others_by_one_query(answers: list[Any]) -> None:
    for owner in (1, 2, 3):
        create(150, owner=owner)
    (own,) = create(1, owner=4)
    assert page(0, 50, owner=4) == [own.id]
    assert [answer["Count"] for answer in answers] == [1]


def end(task: Task, ended: float) -> None:
    end_time = datetime.fromtimestamp(ended, UTC).isoformat()
    tasks.save(task, "one", 0, view=replace(task.view, end_time=end_time), done=True)


@pytest.mark.parametrize("owner", [None, 7])
def test_finished_rows_are_read_latest_first_within_age(owner: int | None) -> None:
    made = create(12)
    for number in range(12):
        end(made[number], 1000.0 + (number * 5) % 12)
    order = [made[number].id for number in sorted(range(12), key=lambda number: -((number * 5) % 12))]
    assert page(0, 20, True, owner) == order
    assert [page(start, 4, True, owner) for start in (0, 4, 8)] == [order[:4], order[4:8], order[8:]]
    assert [row.id for row in task_lists.list_rows("copy", True, owner, since=1006.5)] == order[:5]
    assert [row.id for row in task_lists.list_rows("copy", True, owner, since=-1e9)] == order, "of a hundred years"
    again = tasks.get(order[3])
    runs.reopen(again, again.view)
    assert page(0, 20, True, owner) == order[:3] + order[4:]
    assert page(0, 20, False, owner) == [order[3]]


def test_tasks_ended_before_time_are_found_without_later_rows(answers: list[Any]) -> None:
    made = create(40)
    for number, task in enumerate(made):
        end(task, 1000.0 + number)
    answers.clear()
    assert set(task_lists.list_ended("copy", 1003.0)) == {task.id for task in made[:3]}
    assert sum(answer["Count"] for answer in answers) == 3


def test_a_task_that_is_done_expires_until_it_is_reopened() -> None:
    (task,) = create(1)
    done = tasks.save(task, "one", 0, done=True, expires=datetime(2030, 1, 1, tzinfo=UTC))
    assert tasks.TaskRecord.get(task.id).expires == datetime(2030, 1, 1, tzinfo=UTC)
    runs.reopen(done, done.view)
    assert tasks.TaskRecord.get(task.id).expires is None


def test_running_tasks_share_no_key_of_an_index() -> None:
    made = create(60) + create(60, owner=8)
    keys = [tasks.TaskRecord.get(task.id) for task in made]
    assert len({record.shard_key for record in keys}) == 4
    assert {record.owner_key for record in keys} == {"7#copy#undone", "8#copy#undone"}


def test_anchors_expire_with_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes write, too."""
    from mangrove.core.config import Config

    anchors = PageAnchors()
    anchors.add(DONE, PageAnchor("key", 5, 0))
    assert anchors.find(DONE, 9) == ("key", 5, 0)
    runtime.put(Config, replace(config(), snapshot_seconds=0.0))
    assert anchors.find(DONE, 9) == ("", 0, 0)


def test_an_anchor_counted_before_all_were_cleared_is_not_added() -> None:
    anchors = PageAnchors()
    anchors.clear()
    anchors.add(DONE, PageAnchor("key", 5, 0))
    assert anchors.find(DONE, 9) == ("", 0, 1)


def test_unfinished_tasks_are_read_page_by_page_those_removed_last() -> None:
    made = create(12)
    runs.mark_removed(made[0])
    tasks.save(made[1], "one", 0, done=True)
    page = task_lists.list_unfinished("copy", limit=5)
    ids, following = page.ids, page.next_start
    while following is not None:
        page = task_lists.list_unfinished("copy", following, limit=5)
        ids, following = ids + page.ids, page.next_start
    assert sorted(ids[:-1]) == sorted(task.id for task in made[2:])
    assert ids[-1] == made[0].id
