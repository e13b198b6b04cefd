"""Lists of task records: what clients see of many, page by page, and what is still to be worked on.

Those of one owner are read from his key alone; those of all owners are spread over several keys, and merged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from mangrove.records.store.base import get_connection, translate_errors
from mangrove.records.tasks.keys import (
    OWNER_INDEX,
    SHARD_INDEX,
    SHARDS,
    Status,
    list_shard_keys,
    make_done_order,
    make_owner_key,
)
from mangrove.records.tasks.marks import SPACING, ListName, Mark, get_marks
from mangrove.records.tasks.model import PROJECTED, TaskRecord, TaskView, load_view

MOST_AT_ONCE = 1000  # rows of one answer
LEAST_AT_ONCE = 10
LAST = "~"  # behind all ids

Item = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """A task as lists need it."""

    id: str
    owner: int
    view: TaskView
    cancel: bool


class Place(NamedTuple):
    """A key of an index."""

    index_name: str
    key: str


def list_rows(
    kind: str,
    done: bool,
    owner: int | None = None,
    start: int = 0,
    page_size: int | None = None,
    since: float | None = None,
) -> Iterator[Row]:
    """The tasks of a kind of one owner (None: of all), from the `start`-th one; read lazily, `page_size` at a time.

    Those that are not done the oldest first; those that are the last first, and with `since`, in seconds since the
    epoch, only those that ended after that.
    """
    name = ListName(kind, Status.DONE if done else Status.UNDONE, owner)
    places, marks = _find_places(name), get_marks()
    mark = _pass_rows(name, places, start)
    if mark is None:
        return
    position, last = mark.position, None if since is None else make_done_order(LAST, since)
    for item in _merge(places, mark.key, page_size, ["ordered", *PROJECTED]):
        ordered = item["ordered"]["S"]
        if last is not None and ordered > last:
            return
        position += 1
        if position % SPACING == 0:
            marks.add(name, Mark(ordered, position, mark.version))
        if position > start:
            view = load_view(item["view"]["S"])
            yield Row(view.id, int(item["owner"]["N"]), view, item["cancel"]["BOOL"])


def _find_places(name: ListName) -> list[Place]:
    if name.owner is not None:
        return [Place(OWNER_INDEX, make_owner_key(name.owner, name.kind, name.status))]
    return [Place(SHARD_INDEX, key) for key in list_shard_keys(name.kind, name.status)]


def _pass_rows(name: ListName, places: Sequence[Place], start: int) -> Mark | None:
    """The last mark that is found without bringing rows, and has at most `start` rows up to it; None when there are
    not so many.

    The rows themselves stay where they are: to bring them costs four times as much. Of several places the first one
    says how far to go, as all have about as many rows.
    """
    marks, (first, *others) = get_marks(), places
    mark = marks.find(name, start)
    most = start
    while (limit := min((start - mark.position) // len(places), MOST_AT_ONCE, most)) > 0:
        key, count = _count(first, mark.key, limit)
        if not key:
            return mark if others else None
        count += sum(_count_until(other, mark.key, key) for other in others)
        if mark.position + count > start:
            most = limit // 2
            continue
        mark = mark._replace(key=key, position=mark.position + count)
        marks.add(name, mark)
    return mark


def _count(place: Place, after: str, limit: int | None, until: str = "") -> tuple[str, int]:
    """What the last of `limit` rows is ordered by, from the first one `after`, and how many they are; "" when there
    are not so many."""
    with translate_errors():
        page = get_connection(TaskRecord).query(
            TaskRecord.Meta.table_name, place.key, index_name=place.index_name, select="COUNT", limit=limit,
            range_key_condition=TaskRecord.ordered <= until if until else None,
            exclusive_start_key=_make_key(place, after),
        )  # fmt: skip
    last = page.get("LastEvaluatedKey")
    return (last["ordered"]["S"] if last else ""), int(page["Count"])


def _count_until(place: Place, after: str, until: str) -> int:
    """How many rows there are after one key up to another one."""
    total, key = 0, after
    while True:
        key, count = _count(place, key, None, until)
        total += count
        if not key:
            return total


def _merge(places: Sequence[Place], after: str, page_size: int | None, attributes: list[str]) -> Iterator[Item]:
    """The rows of all places in their order, from the first one `after`."""
    size = None if page_size is None else min(max(page_size, 1), MOST_AT_ONCE)
    if size is not None and len(places) > 1:
        size = max(size * 3 // (2 * SHARDS), LEAST_AT_ONCE)
    return heapq.merge(*(_query(place, after, size, attributes) for place in places), key=_get_order)


def _get_order(item: Item) -> str:
    ordered: str = item["ordered"]["S"]
    return ordered


def _query(place: Place, after: str, page_size: int | None, attributes: list[str]) -> Iterator[Item]:
    """Rows, from the first one `after`. Without models: those of thousands of rows that are only shown cost more than
    the rows."""
    connection, start = get_connection(TaskRecord), _make_key(place, after)
    while True:
        with translate_errors():
            page = connection.query(
                TaskRecord.Meta.table_name, place.key, index_name=place.index_name, attributes_to_get=attributes,
                exclusive_start_key=start, limit=page_size,
            )  # fmt: skip
        yield from page["Items"]
        start = page.get("LastEvaluatedKey")
        if not start:
            return


def _make_key(place: Place, after: str) -> Any:
    """What DynamoDB would answer as the last key; whether that row is still there does not matter."""
    if not after:
        return None
    return {"id": {"S": after.partition("#")[2]}, place.index_name: {"S": place.key}, "ordered": {"S": after}}


def list_ended(kind: str, before: float) -> Iterator[str]:
    """The ids of the tasks of a kind that ended before a time, in seconds since the epoch; no younger row is read."""
    for place in _find_places(ListName(kind, Status.DONE, None)):
        start = make_done_order(LAST, before)
        yield from (item["id"]["S"] for item in _query(place, start, MOST_AT_ONCE, ["id"]))


class Following(NamedTuple):
    """Where a page begins: among the tasks that were removed, or the others, and after what key."""

    removed: bool
    key: str


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
    removed, key = start or Following(False, "")
    places = _find_places(ListName(kind, Status.REMOVED if removed else Status.UNDONE, None))
    items = list(islice(_merge(places, key, limit, ["id", "owner", "ordered"]), limit))
    following = Following(removed, _get_order(items[-1])) if len(items) == limit else None
    if following is None and not removed:
        following = Following(True, "")
    return UnfinishedPage({item["id"]["S"]: int(item["owner"]["N"]) for item in items}, following)
