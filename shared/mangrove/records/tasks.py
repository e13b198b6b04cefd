"""Task records: what a piece of long work is, how far it came, and which worker holds it.

A worker holds a lease under a token of its own; every write of progress names the token, so that a worker whose lease
went to another one changes nothing.
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


@dataclass(slots=True)
class TaskView:
    """What clients see of a task, and the JSON object that is stored of it. `state` is a number of `tasks.kinds.State`,
    times are ISO 8601, `progress` is in percent; `total_bytes` is 0 when it is not known."""

    id: str
    name: str
    creator: str
    creator_role: int
    state: int
    status: str
    progress: float
    start_time: str | None
    end_time: str | None
    total_bytes: int
    error: str

    def to_wire(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "id": self.id,
            "name": self.name,
            "creator": self.creator,
            "creator_role": self.creator_role,
            "state": self.state,
            "status": self.status,
            "progress": self.progress,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "total_bytes": self.total_bytes,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Task:
    """`view` is what lists show; `spec` what the work is, sealed in the table; `cursor` how far it came (both as
    stored, see `tasks.specs`).

    `attempt` counts the runs: 0 for the first, one more for each retry. `removed`: it is shown no more, its machine is
    to clean up. `created`, and `touched` (the end of the last lease), are seconds since the epoch.
    """

    id: str
    kind: str
    owner: int
    view: TaskView
    spec: Mapping[str, Any]
    cursor: Mapping[str, Any]
    cancel: bool
    done: bool
    removed: bool
    attempt: int
    created: float
    touched: float


@dataclass(frozen=True, slots=True)
class Row:
    """A task as lists need it."""

    id: str
    owner: int
    view: TaskView
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


def _make_status_key(kind: str, done: bool) -> str:
    return f"{kind}#{'done' if done else 'undone'}"


def _make_removed_key(kind: str) -> str:
    """The status of tasks that were removed while a worker held them."""
    return f"{kind}#gone"


def _dump(value: Mapping[str, Any] | TaskView) -> str:
    return orjson.dumps(value).decode()


def _load_view(text: str) -> TaskView:
    return TaskView(**orjson.loads(text))


def _make_task(record: TaskRecord) -> Task:
    return Task(
        id=record.id,
        kind=record.kind,
        owner=int(record.owner),
        view=_load_view(record.view),
        spec=orjson.loads(record.spec),
        cursor=orjson.loads(record.cursor),
        cancel=bool(record.cancel),
        done=record.status_key == _make_status_key(record.kind, True),
        removed=record.status_key == _make_removed_key(record.kind),
        attempt=int(record.attempt),
        created=float(record.created),
        touched=max(float(record.until), float(record.created)),
    )


def create(kind: str, owner: int, view: TaskView, spec: Mapping[str, Any]) -> Task:
    """Store a new task that no worker holds; Conflict when its id is taken."""
    created = time.time()
    record = TaskRecord(
        view.id, status_key=_make_status_key(kind, False), ordered=f"{int(created * 1000):015d}#{view.id}",
        kind=kind, owner=owner, view=_dump(view), spec=_dump(spec), created=created,
    )  # fmt: skip
    with translate_errors():
        record.save(condition=TaskRecord.id.does_not_exist())
    return _make_task(record)


def get(id: str) -> Task:
    """One task; RecordMissing."""
    with translate_errors():
        try:
            return _make_task(TaskRecord.get(id, consistent_read=True))
        except DoesNotExist:
            raise RecordMissing from None


def list_rows(kind: str, done: bool, page_size: int | None = None) -> Iterator[Row]:
    """The tasks of a kind that are done, or that are not, oldest first; read `page_size` at a time."""
    yield from _query(_make_status_key(kind, done), page_size)


def _query(status_key: str, page_size: int | None = None) -> Iterator[Row]:
    """Without models: those of thousands of rows that are only shown cost more than the rows."""
    table, connection = TaskRecord.Meta.table_name, get_connection(TaskRecord)
    attributes, start = ["owner", "shown", "cancel"], None
    while True:
        with translate_errors():
            page = connection.query(
                table, status_key, index_name="shelf", attributes_to_get=attributes, exclusive_start_key=start,
                limit=page_size,
            )  # fmt: skip
        for item in page["Items"]:
            view = _load_view(item["shown"]["S"])
            yield Row(view.id, int(item["owner"]["N"]), view, item["cancel"]["BOOL"])
        start = page.get("LastEvaluatedKey")
        if not start:
            return


def acquire_lease(id: str, token: str, seconds: float) -> Task:
    """Hold the task under `token` for the next `seconds`; Conflict while another worker does, or there is no task."""
    now = time.time()
    record = TaskRecord(id)
    free = TaskRecord.id.exists() & ((TaskRecord.until < now) | (TaskRecord.lease == token))
    with translate_errors():
        record.update(actions=[TaskRecord.lease.set(token), TaskRecord.until.set(now + seconds)], condition=free)
    return _make_task(record)


def save(
    task: Task,
    token: str,
    seconds: float,
    *,
    view: TaskView | None = None,
    cursor: Mapping[str, Any] | None = None,
    done: bool | None = None,
) -> Task:
    """Write what changed, as the holder of `token`, and hold the lease `seconds` more; 0 releases it.

    Conflict when another worker holds it. The answer says whether a cancel mark was set meanwhile. `done` changes the
    status, unless the task was removed: a Conflict, too.
    """
    record = TaskRecord(task.id)
    actions: list[Action] = [TaskRecord.until.set(time.time() + (seconds or -CLOCKS_DIFFER))]
    for attribute, value in ((TaskRecord.view, view), (TaskRecord.cursor, cursor)):
        if value is not None:
            actions.append(attribute.set(_dump(value)))
    condition = TaskRecord.lease == token
    if done is not None:
        actions.append(TaskRecord.status_key.set(_make_status_key(task.kind, done)))
        condition &= TaskRecord.status_key != _make_removed_key(task.kind)
    with translate_errors():
        record.update(actions=actions, condition=condition)
    return _make_task(record)


def mark_cancelled(id: str) -> None:
    """Ask the worker of a task to stop."""
    with translate_errors():
        TaskRecord(id).update(actions=[TaskRecord.cancel.set(True)], condition=TaskRecord.id.exists())


def list_unfinished(kind: str) -> Iterator[Row]:
    """The tasks of a kind that are to be worked on, also those that were removed."""
    yield from _query(_make_status_key(kind, False))
    yield from _query(_make_removed_key(kind))


def reopen(task: Task, view: TaskView, *, removed: bool = False) -> Task:
    """Make a task undone once more, as its next run; a worker that holds it loses its lease.

    `removed`: it is shown no more, and all that this run does is to clean up. Conflict when that run was opened before.
    """
    record = TaskRecord(task.id)
    actions: list[Action] = [
        TaskRecord.view.set(_dump(view)),
        TaskRecord.status_key.set(_make_removed_key(task.kind) if removed else _make_status_key(task.kind, False)),
        TaskRecord.cancel.set(removed),
        TaskRecord.attempt.set(task.attempt + 1),
        TaskRecord.lease.set(""),
        TaskRecord.until.set(0),
    ]
    with translate_errors():
        record.update(actions=actions, condition=TaskRecord.attempt == task.attempt)
    return _make_task(record)


def release_leases(kind: str) -> list[Row]:
    """End every lease of a kind; the tasks that are unfinished. For the only process that works on them."""
    found: list[Row] = []
    for row in list(list_unfinished(kind)):
        try:
            with translate_errors():
                TaskRecord(row.id).update(actions=[TaskRecord.until.set(0)], condition=TaskRecord.id.exists())
        except Conflict:
            continue  # removed meanwhile
        found.append(row)
    return found


def mark_removed(task: Task) -> None:
    """Ask the worker of a task to stop, and show the task no more; its machine deletes it at the end."""
    actions: list[Action] = [TaskRecord.cancel.set(True), TaskRecord.status_key.set(_make_removed_key(task.kind))]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.id.exists())


def mark_done(task: Task, view: TaskView) -> None:
    """Count a task whose machine could not be started as done."""
    actions: list[Action] = [
        TaskRecord.view.set(_dump(view)),
        TaskRecord.status_key.set(_make_status_key(task.kind, True)),
    ]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.attempt == task.attempt)


def delete_removed(id: str) -> None:
    """Delete a task if it was removed."""
    with translate_errors():
        try:
            record = TaskRecord.get(id, consistent_read=True)
        except DoesNotExist:
            return
        if record.status_key == _make_removed_key(record.kind):
            record.delete()


def delete_done(kind: str, id: str) -> None:
    """Delete a task that is done; one that was just reopened stays."""
    try:
        with translate_errors():
            TaskRecord(id).delete(condition=TaskRecord.status_key == _make_status_key(kind, True))
    except Conflict:
        pass  # reopened, or deleted


def delete(id: str) -> None:
    """Delete a task."""
    with translate_errors():
        TaskRecord(id).delete()
