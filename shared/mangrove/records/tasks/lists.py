"""Lists of task records: pages for clients, and unfinished tasks for workers.

The tasks of one owner have one key of an index. The tasks of all owners have several, whose rows are merged.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from mangrove.records.store.base import get_connection, query_index, translate_errors
from mangrove.records.store.encryption import Item
from mangrove.records.tasks.model import PROJECTED, TaskRecord, TaskView, load_view
from mangrove.records.tasks.ordering import (
    ANCHOR_SPACING,
    OWNER_INDEX,
    SHARD_INDEX,
    SHARDS,
    ListName,
    PageAnchor,
    TaskStatus,
    list_shard_keys,
    make_done_order,
    make_owner_key,
    page_anchors,
)

MAX_ROWS_PER_QUERY = 1000
MIN_ROWS_PER_QUERY = 10
AFTER_ALL_IDS = "~"  # which is greater than each id


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task in a list."""

    id: str
    owner: int
    view: TaskView
    cancel: bool


class IndexKey(NamedTuple):
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
) -> Iterator[ListedTask]:
    """Yield the tasks of a kind of one owner (None: of all) from the position `start`, `page_size` per query.

    `since`, in seconds since the epoch, applies to finished tasks: only those that ended later.
    """
    name = ListName(kind, TaskStatus.DONE if done else TaskStatus.UNDONE, owner)
    keys, anchors = _list_keys(name), page_anchors()
    anchor = _skip_rows(name, keys, start)
    if anchor is None:
        return
    position, last = anchor.position, None if since is None else make_done_order(AFTER_ALL_IDS, since)
    for item in _merge(keys, anchor.key, page_size, ["ordered", *PROJECTED]):
        ordered = item["ordered"]["S"]
        if last is not None and ordered > last:
            return
        position += 1
        if position % ANCHOR_SPACING == 0:
            anchors.add(name, PageAnchor(ordered, position, anchor.version))
        if position > start:
            view = load_view(item["view"]["S"])
            yield ListedTask(view.id, int(item["owner"]["N"]), view, item["cancel"]["BOOL"])


def count_unfinished(kind: str) -> int:
    """Return the number of unfinished tasks of a kind, of all owners."""
    return sum(_count_until(key, "", "") for key in _list_keys(ListName(kind, TaskStatus.UNDONE, None)))


def _list_keys(name: ListName) -> list[IndexKey]:
    if name.owner is not None:
        return [IndexKey(OWNER_INDEX, make_owner_key(name.owner, name.kind, name.status))]
    return [IndexKey(SHARD_INDEX, key) for key in list_shard_keys(name.kind, name.status)]


def _skip_rows(name: ListName, keys: Sequence[IndexKey], start: int) -> PageAnchor | None:
    """Return the last anchor that is found without reading rows, with at most `start` rows up to it. None if the list
    is shorter.

    Counting costs a quarter of reading. With several keys, the first one determines the position, since all have about
    as many rows.
    """
    anchors, (first, *others) = page_anchors(), keys
    anchor = anchors.find(name, start)
    max_step = start
    while (limit := min((start - anchor.position) // len(keys), MAX_ROWS_PER_QUERY, max_step)) > 0:
        key, count = _count(first, anchor.key, limit)
        if not key:
            return anchor if others else None
        count += sum(_count_until(other, anchor.key, key) for other in others)
        if anchor.position + count > start:
            max_step = limit // 2
            continue
        anchor = anchor._replace(key=key, position=anchor.position + count)
        anchors.add(name, anchor)
    return anchor


def _count(index_key: IndexKey, after: str, limit: int | None, until: str = "") -> tuple[str, int]:
    """Count at most `limit` rows behind `after`. Return the sort key of the last row, "" at the end, and the count."""
    with translate_errors():
        page = get_connection(TaskRecord).query(
            TaskRecord.Meta.table_name, index_key.key, index_name=index_key.index_name, select="COUNT", limit=limit,
            range_key_condition=TaskRecord.ordered <= until if until else None,
            exclusive_start_key=_make_start_key(index_key, after),
        )  # fmt: skip
    last = page.get("LastEvaluatedKey")
    return (last["ordered"]["S"] if last else ""), int(page["Count"])


def _count_until(index_key: IndexKey, after: str, until: str) -> int:
    """Return the number of rows behind one sort key up to another one."""
    total, key = 0, after
    while True:
        key, count = _count(index_key, key, None, until)
        total += count
        if not key:
            return total


def _merge(keys: Sequence[IndexKey], after: str, page_size: int | None, attributes: list[str]) -> Iterator[Item]:
    """Yield the rows of all keys in order, from the first one behind `after`."""
    size = None if page_size is None else min(max(page_size, 1), MAX_ROWS_PER_QUERY)
    if size is not None and len(keys) > 1:
        size = max(size * 3 // (2 * SHARDS), MIN_ROWS_PER_QUERY)
    return heapq.merge(*(_query(key, after, size, attributes) for key in keys), key=_get_order)


def _get_order(item: Item) -> str:
    ordered: str = item["ordered"]["S"]
    return ordered


def _query(index_key: IndexKey, after: str, page_size: int | None, attributes: list[str]) -> Iterator[Item]:
    """Yield rows behind `after`."""
    start = _make_start_key(index_key, after)
    return query_index(TaskRecord, index_key.index_name, index_key.key, attributes, start, page_size)


def _make_start_key(index_key: IndexKey, after: str) -> Any:
    """Return a last key as DynamoDB would return it; the row need not exist."""
    if not after:
        return None
    return {"id": {"S": after.partition("#")[2]}, index_key.index_name: {"S": index_key.key}, "ordered": {"S": after}}


def list_ended(kind: str, before: float) -> Iterator[str]:
    """Yield the ids of the tasks of a kind that ended before a time, in seconds since the epoch. No later row is
    read."""
    for key in _list_keys(ListName(kind, TaskStatus.DONE, None)):
        start = make_done_order(AFTER_ALL_IDS, before)
        yield from (item["id"]["S"] for item in _query(key, start, MAX_ROWS_PER_QUERY, ["id"]))


def list_waiting(kind: str, holders: Collection[str]) -> list[str]:
    """Return the ids of the tasks of a kind that wait for a slot, those that wait longest first.

    Only the oldest tasks are read: as many as there are `holders` of slots, and MAX_ROWS_PER_QUERY more.
    """
    keys = _list_keys(ListName(kind, TaskStatus.UNDONE, None))
    limit = len(holders) + MAX_ROWS_PER_QUERY
    waiting = []
    for item in islice(_merge(keys, "", limit, ["ordered", *PROJECTED]), limit):
        view = load_view(item["view"]["S"])
        if view.waiting and view.id not in holders:
            waiting.append((view.waiting, item["ordered"]["S"], view.id))
    return [id for _, _, id in sorted(waiting)]


class UnfinishedStart(NamedTuple):
    """The start of a page of `list_unfinished`."""

    removed: bool
    """It is among the removed tasks, which follow the others."""
    key: str
    """The sort key of the row before it."""


class UnfinishedPage(NamedTuple):
    """A page of unfinished tasks."""

    owners: dict[str, int]
    """By the ids of the tasks."""
    next_start: UnfinishedStart | None
    """None at the end."""

    @property
    def ids(self) -> list[str]:
        """The ids of the tasks."""
        return list(self.owners)


def list_unfinished(kind: str, start: UnfinishedStart | None = None, limit: int = 500) -> UnfinishedPage:
    """Return a page of the unfinished tasks of a kind, the oldest first, then the removed ones."""
    removed, key = start or UnfinishedStart(False, "")
    keys = _list_keys(ListName(kind, TaskStatus.REMOVED if removed else TaskStatus.UNDONE, None))
    items = list(islice(_merge(keys, key, limit, ["id", "owner", "ordered"]), limit))
    next_start = UnfinishedStart(removed, _get_order(items[-1])) if len(items) == limit else None
    if next_start is None and not removed:
        next_start = UnfinishedStart(True, "")
    return UnfinishedPage({item["id"]["S"]: int(item["owner"]["N"]) for item in items}, next_start)
