"""Task records: what a piece of long work is, how far it came, and who works on it now.

A worker holds a lease under a token of its own; every write of progress names the token, so that a worker that
wakes after its lease went to another one changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection

from mangrove.records.base import (
    Conflict,
    Record,
    RecordMissing,
    Sealed,
    TableMeta,
    get_connection,
    table_name,
    translate_errors,
)

CLOCKS_DIFFER = 5.0  # seconds, at most, between two workers' machines


@dataclass(frozen=True, slots=True)
class Task:
    """`shown` is what lists show; `facts` what the work is, sealed in the table; `cursor` how far it came.

    `turn` counts the runs: 0 for the first, one more for each retry. `created`, and `touched` (when a worker last held
    it, or held it no longer), are seconds since the epoch.
    """

    id: str
    kind: str
    owner: int
    view: dict[str, Any]
    spec: dict[str, Any]
    cursor: dict[str, Any]
    cancel: bool
    done: bool
    gone: bool
    attempt: int
    created: float
    touched: float


@dataclass(frozen=True, slots=True)
class Row:
    """A task as lists need it."""

    id: str
    owner: int
    view: dict[str, Any]
    cancel: bool


class StatusIndex(GlobalSecondaryIndex["TaskRecord"]):  # type: ignore[no-untyped-call]
    """The tasks of a kind that are done, or that are not, oldest first."""

    class Meta:
        index_name = "shelf"
        projection = IncludeProjection(["owner", "shown", "cancel"])

    status_key = UnicodeAttribute(hash_key=True, attr_name="shelf")
    ordered = UnicodeAttribute(range_key=True)


class TaskRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("tasks")

    id = UnicodeAttribute(hash_key=True)
    status_key = UnicodeAttribute(attr_name="shelf")
    ordered = UnicodeAttribute()
    kind = UnicodeAttribute()
    owner = NumberAttribute()
    view = UnicodeAttribute(attr_name="shown")
    spec = Sealed(attr_name="facts")
    cursor = UnicodeAttribute(default="{}")
    cancel = BooleanAttribute(default=False)
    attempt = NumberAttribute(default=0, attr_name="turn")
    created = NumberAttribute()
    lease = UnicodeAttribute(default="")
    until = NumberAttribute(default=0)

    by_status = StatusIndex()


def _status_key(kind: str, done: bool) -> str:
    return f"{kind}#{'done' if done else 'undone'}"


def _gone(kind: str) -> str:
    """The shelf of tasks that were removed while somebody worked on them."""
    return f"{kind}#gone"


def _text(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()


def _task(record: TaskRecord) -> Task:
    return Task(
        id=record.id,
        kind=record.kind,
        owner=int(record.owner),
        view=orjson.loads(record.view),
        spec=orjson.loads(record.spec),
        cursor=orjson.loads(record.cursor),
        cancel=bool(record.cancel),
        done=record.status_key == _status_key(record.kind, True),
        gone=record.status_key == _gone(record.kind),
        attempt=int(record.attempt),
        created=float(record.created),
        touched=max(float(record.until), float(record.created)),
    )


def create(id: str, kind: str, owner: int, view: Mapping[str, Any], spec: Mapping[str, Any]) -> Task:
    """A new task that nobody works on yet."""
    created = time.time()
    record = TaskRecord(
        id, status_key=_status_key(kind, False), ordered=f"{int(created * 1000):015d}#{id}", kind=kind, owner=owner,
        view=_text(view), spec=_text(spec), created=created,
    )  # fmt: skip
    with translate_errors():
        record.save(condition=TaskRecord.id.does_not_exist())
    return _task(record)


def get(id: str) -> Task:
    """One task; RecordMissing."""
    with translate_errors():
        try:
            return _task(TaskRecord.get(id, consistent_read=True))
        except DoesNotExist:
            raise RecordMissing from None


def rows(kind: str, done: bool, at_once: int | None = None) -> Iterator[Row]:
    """The tasks of a kind that are done, or that are not, oldest first; `at_once` are asked of the engine at a time."""
    yield from _on(_status_key(kind, done), at_once)


def _on(status_key: str, at_once: int | None = None) -> Iterator[Row]:
    """Read as they come: models of thousands of rows that are only shown cost more than the rows."""
    table, connection = TaskRecord.Meta.table_name, get_connection(TaskRecord)
    wanted, following = ["owner", "shown", "cancel"], None
    while True:
        with translate_errors():
            page = connection.query(
                table, status_key, index_name="shelf", attributes_to_get=wanted, exclusive_start_key=following,
                limit=at_once,
            )  # fmt: skip
        for item in page["Items"]:
            view = orjson.loads(item["shown"]["S"])
            yield Row(view["id"], int(item["owner"]["N"]), view, item["cancel"]["BOOL"])
        following = page.get("LastEvaluatedKey")
        if not following:
            return


def take(id: str, token: str, seconds: float) -> Task:
    """Work on the task under `token` for the next `seconds`; Conflict while somebody else does, or it is gone."""
    now = time.time()
    record = TaskRecord(id)
    free = TaskRecord.id.exists() & ((TaskRecord.until < now) | (TaskRecord.lease == token))
    with translate_errors():
        record.update(actions=[TaskRecord.lease.set(token), TaskRecord.until.set(now + seconds)], condition=free)
    return _task(record)


def keep(
    task: Task,
    token: str,
    seconds: float,
    *,
    view: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    cursor: Mapping[str, Any] | None = None,
    done: bool | None = None,
) -> Task:
    """Write what changed, as the holder of `token`, and hold it `seconds` more; 0 lets go. Conflict for others.

    The answer tells whether a cancel mark was set meanwhile. `done` puts the task on the other shelf, unless it was
    taken down: a Conflict, too.
    """
    record = TaskRecord(task.id)
    actions: list[Action] = [TaskRecord.until.set(time.time() + (seconds or -CLOCKS_DIFFER))]
    for attribute, value in ((TaskRecord.view, view), (TaskRecord.cursor, cursor), (TaskRecord.spec, spec)):
        if value is not None:
            actions.append(attribute.set(_text(value)))
    condition = TaskRecord.lease == token
    if done is not None:
        actions.append(TaskRecord.status_key.set(_status_key(task.kind, done)))
        condition &= TaskRecord.status_key != _gone(task.kind)
    with translate_errors():
        record.update(actions=actions, condition=condition)
    return _task(record)


def mark_cancelled(id: str) -> None:
    """Ask whoever works on the task to stop."""
    with translate_errors():
        TaskRecord(id).update(actions=[TaskRecord.cancel.set(True)], condition=TaskRecord.id.exists())


def unfinished(kind: str) -> Iterator[Row]:
    """The tasks of a kind that somebody is to work on, also those that nobody sees any more."""
    yield from _on(_status_key(kind, False))
    yield from _on(_gone(kind))


def reopen(task: Task, view: Mapping[str, Any], *, gone: bool = False) -> Task:
    """Make a task undone once more, as its next run; who worked on it so far no longer does.

    `gone`: nobody sees it any more, and all that this run does is to clean up. Conflict when somebody else has begun
    that run.
    """
    record = TaskRecord(task.id)
    actions: list[Action] = [
        TaskRecord.view.set(_text(view)),
        TaskRecord.status_key.set(_gone(task.kind) if gone else _status_key(task.kind, False)),
        TaskRecord.cancel.set(gone),
        TaskRecord.attempt.set(task.attempt + 1),
        TaskRecord.lease.set(""),
        TaskRecord.until.set(0),
    ]
    with translate_errors():
        record.update(actions=actions, condition=TaskRecord.attempt == task.attempt)
    return _task(record)


def release_all(kind: str) -> list[Row]:
    """Let go of every lease of a kind, and answer the tasks that are to go on: for a machine that knows that nobody
    else works on them."""
    found: list[Row] = []
    for row in list(unfinished(kind)):
        try:
            with translate_errors():
                TaskRecord(row.id).update(actions=[TaskRecord.until.set(0)], condition=TaskRecord.id.exists())
        except Conflict:
            continue  # removed meanwhile
        found.append(row)
    return found


def take_down(task: Task) -> None:
    """Ask whoever works on the task to stop, and show it to nobody; its machine deletes it at the end."""
    actions: list[Action] = [TaskRecord.cancel.set(True), TaskRecord.status_key.set(_gone(task.kind))]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.id.exists())


def shelve(task: Task, view: Mapping[str, Any]) -> None:
    """Put a task that nobody could begin to work on back among those that are done."""
    actions: list[Action] = [TaskRecord.view.set(_text(view)), TaskRecord.status_key.set(_status_key(task.kind, True))]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.attempt == task.attempt)


def delete_gone(id: str) -> None:
    """Forget a task if it was taken down."""
    with translate_errors():
        try:
            record = TaskRecord.get(id, consistent_read=True)
        except DoesNotExist:
            return
        if record.status_key == _gone(record.kind):
            record.delete()


def delete_done(kind: str, id: str) -> None:
    """Forget a task that is done; one that somebody has just begun again stays."""
    try:
        with translate_errors():
            TaskRecord(id).delete(condition=TaskRecord.status_key == _status_key(kind, True))
    except Conflict:
        pass  # begun again, or gone


def delete(id: str) -> None:
    """Forget a task."""
    with translate_errors():
        TaskRecord(id).delete()
