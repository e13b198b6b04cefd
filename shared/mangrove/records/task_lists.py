"""Lists of task records: what clients see of many, page by page, and what is still to be worked on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mangrove.records.base import get_connection, translate_errors
from mangrove.records.task_marks import SPACING, Mark, get_marks
from mangrove.records.tasks import TaskRecord, TaskView, load_view, make_removed_key, make_status_key

MOST_AT_ONCE = 1000  # rows of one answer


@dataclass(frozen=True, slots=True)
class Row:
    """A task as lists need it."""

    id: str
    owner: int
    view: TaskView
    cancel: bool


def list_rows(
    kind: str, done: bool, owner: int | None = None, start: int = 0, page_size: int | None = None
) -> Iterator[Row]:
    """The tasks of a kind that are done, or that are not, of one owner (None: of all), oldest first, from the
    `start`-th one; read lazily, `page_size` at a time."""
    status_key, marks = make_status_key(kind, done), get_marks()
    key, position, version = marks.find(status_key, owner, start)
    while position < start:
        key, count = _count(status_key, key, owner, min(start - position, MOST_AT_ONCE))
        if not key:
            return
        position += count
        marks.add(status_key, owner, Mark(key, position, version))
    for ordered, row in _query(status_key, key, None if page_size is None else min(page_size, MOST_AT_ONCE)):
        if owner is not None and row.owner != owner:
            continue
        position += 1
        if position % SPACING == 0:
            marks.add(status_key, owner, Mark(ordered, position, version))
        yield row


def _count(status_key: str, after: str, owner: int | None, limit: int) -> tuple[str, int]:
    """What the last of `limit` rows is ordered by, from the first one `after`, and how many of them are the owner's; ""
    when there are not so many. The rows themselves stay where they are: to bring them costs four times as much."""
    with translate_errors():
        page = get_connection(TaskRecord).query(
            TaskRecord.Meta.table_name, status_key, index_name="shelf", select="COUNT", limit=limit,
            exclusive_start_key=_make_key(status_key, after),
            filter_condition=None if owner is None else TaskRecord.owner == owner,
        )  # fmt: skip
    last = page.get("LastEvaluatedKey")
    return (last["ordered"]["S"] if last else ""), int(page["Count"])


def _query(status_key: str, after: str, page_size: int | None) -> Iterator[tuple[str, Row]]:
    """Rows and what they are ordered by, from the first one `after`. Without models: those of thousands of rows that
    are only shown cost more than the rows."""
    table, connection = TaskRecord.Meta.table_name, get_connection(TaskRecord)
    attributes, start = ["owner", "shown", "cancel", "ordered"], _make_key(status_key, after)
    while True:
        with translate_errors():
            page = connection.query(
                table, status_key, index_name="shelf", attributes_to_get=attributes, exclusive_start_key=start,
                limit=page_size,
            )  # fmt: skip
        for item in page["Items"]:
            view = load_view(item["shown"]["S"])
            yield item["ordered"]["S"], Row(view.id, int(item["owner"]["N"]), view, item["cancel"]["BOOL"])
        start = page.get("LastEvaluatedKey")
        if not start:
            return


def _make_key(status_key: str, after: str) -> Any:
    """What DynamoDB would answer as the last key; whether that row is still there does not matter."""
    if not after:
        return None
    return {"id": {"S": after.partition("#")[2]}, "shelf": {"S": status_key}, "ordered": {"S": after}}


class Following(NamedTuple):
    """Where a page begins: among the tasks that were removed, or the others, and after what key."""

    removed: bool
    key: dict[str, Any] | None


class UnfinishedPage(NamedTuple):
    """The owners of tasks to be worked on, by the tasks' ids, and where the next page begins; None at the end."""

    owners: dict[str, int]
    following: Following | None

    @property
    def ids(self) -> list[str]:
        """The tasks."""
        return list(self.owners)


def list_unfinished(kind: str, start: Following | None = None, limit: int = 500) -> UnfinishedPage:
    """One page of the tasks of a kind that are to be worked on, the oldest first; then those that were removed."""
    removed, key = start or Following(False, None)
    status_key = make_removed_key(kind) if removed else make_status_key(kind, False)
    with translate_errors():
        page = get_connection(TaskRecord).query(
            TaskRecord.Meta.table_name, status_key, index_name="shelf", attributes_to_get=["id", "owner"],
            exclusive_start_key=key, limit=limit,
        )  # fmt: skip
    key = page.get("LastEvaluatedKey")
    following = Following(removed, key) if key else None if removed else Following(True, None)
    return UnfinishedPage({item["id"]["S"]: int(item["owner"]["N"]) for item in page["Items"]}, following)
