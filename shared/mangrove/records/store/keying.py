"""The upgrade to version 3: tasks have the keys by which they are listed, of one owner and of all; users have the
claims that keep look-alikes apart."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from pynamodb.expressions.update import Action

from mangrove.records.accounts.users import KIND, UserRecord, make_looks
from mangrove.records.store import unique
from mangrove.records.store.base import Conflict, translate_errors
from mangrove.records.store.integrity import is_authentic
from mangrove.records.store.protection import Item, read_all
from mangrove.records.tasks.keys import (
    Status,
    find_status,
    make_done_order,
    make_order,
    make_owner_key,
    make_spread_key,
    parse_end,
)
from mangrove.records.tasks.model import TaskRecord


def key_all() -> None:
    """Give all records the keys that they do not have yet."""
    unique.claim_all(_find_looks())
    for item in read_all(TaskRecord):
        if "spread" not in item:
            key_task(item)


def _find_looks() -> Iterator[tuple[str, int]]:
    for item in read_all(UserRecord):
        if is_authentic(KIND, item):
            for name in make_looks(item["username"]["S"]):
                yield name, int(item["id"]["N"])


def key_task(item: Item) -> None:
    """Give a task of version 2 its keys, unless it changed meanwhile."""
    id, kind, owner, old = item["id"]["S"], item["kind"]["S"], int(item["owner"]["N"]), item["shelf"]["S"]
    status = find_status(old)
    if status is Status.DONE:
        ordered = make_done_order(id, parse_end(orjson.loads(item["shown"]["S"]).get("end_time")))
    else:
        ordered = make_order(id, float(item["created"]["N"]))
    actions: list[Action] = [
        TaskRecord.owner_key.set(make_owner_key(owner, kind, status)),
        TaskRecord.spread_key.set(make_spread_key(id, kind, status)),
        TaskRecord.ordered.set(ordered),
    ]
    try:
        with translate_errors():
            TaskRecord(id).update(actions=actions, condition=TaskRecord.owner_key == old)
    except Conflict:
        pass  # changed meanwhile, and keyed by that, or deleted
