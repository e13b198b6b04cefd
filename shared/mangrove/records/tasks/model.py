"""Task records: the specification of a task, its progress, and the lease of its worker.

A worker holds a lease under a token of its own. Each write of progress names the token, so that a worker that lost its
lease changes nothing. Clocks are not compared to decide whether a lease has expired: see `Lease`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from pynamodb.attributes import BooleanAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.constants import BINARY, STRING
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.indexes import IncludeProjection
from pynamodb.models import Model

from mangrove.core.problems import RecordNotFound
from mangrove.records.store.attributes import make_index
from mangrove.records.store.base import Record, RecordConflict, TableMeta, get_connection, table_name, translate_errors
from mangrove.records.store.encryption import EncryptedAttribute, Plaintext
from mangrove.records.tasks.ordering import (
    OWNER_INDEX,
    SHARD_INDEX,
    TaskStatus,
    find_status,
    make_done_order,
    make_order,
    make_owner_key,
    make_shard_key,
    page_anchors,
    parse_end,
)


@dataclass(slots=True)
class TaskView:
    """A task as clients see it; it is stored as a JSON object."""

    id: str
    name: str
    creator: str
    creator_role: int
    state: int
    """A number of `tasks.core.model.State`."""
    status: str
    progress: float
    """In percent."""
    start_time: str | None
    """In ISO 8601, as `end_time`."""
    end_time: str | None
    total_bytes: int
    """0 if it is unknown."""
    error: str
    token: int = 0
    """The id of the token that requested the task, 0 for a session; not sent to clients."""
    request_id: str = ""
    """The id of the request that created the task, for the log; not sent to clients."""
    done_bytes: int = 0
    """Of `total_bytes`."""
    done_items: int = 0
    """Of `total_items`."""
    total_items: int = 0
    """0 if it is unknown."""
    current_item: str = ""
    """The path of the last item that was begun, below the source; at most MAX_ITEM_CHARACTERS, its end."""
    waiting: float = 0.0
    """The time since which it waits for a slot, in seconds since the epoch; 0 if it does not; not sent to clients."""

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object that clients of both dialects read. A whole progress is an integer in it."""
        row = asdict(self) | {"progress": self.progress if self.progress % 1 else int(self.progress)}
        for name in ("token", "request_id", "waiting", *TASK_DETAILS):
            del row[name]
        return row

    def get_details(self) -> dict[str, Any]:
        """Return the fields of the progress in bytes and items."""
        return {name: getattr(self, name) for name in TASK_DETAILS}


TASK_DETAILS = ("done_bytes", "done_items", "total_items", "current_item")
MAX_ITEM_CHARACTERS = 300


class Lease(NamedTuple):
    """The last lease of a task.

    Each renewal writes another `until`. To other workers it is not a time, but a value that changes while the holder is
    alive.
    """

    token: str = ""
    """Of its holder."""
    until: float = 0.0
    """Its end by the clock of the holder, in seconds since the epoch; after a release the negated time of the
    release; 0 before the first lease.
    """


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is stored."""

    id: str
    kind: str
    owner: int
    view: TaskView
    spec: Mapping[str, Any]
    """The stored form of a `tasks.core.model.Spec`."""
    cursor: Mapping[str, Any]
    """The stored form of a `tasks.core.model.Cursor`."""
    cancel: bool
    """Its worker has to stop."""
    done: bool
    removed: bool
    """It is not listed any more; its state machine has to clean up."""
    attempt: int
    """The number of the run: 0 for the first, incremented by each retry."""
    created: float
    """In seconds since the epoch."""
    lease: Lease

    @property
    def touched(self) -> float:
        """The approximate time at which a worker last held it, in seconds since the epoch."""
        return max(abs(self.lease.until), self.created)


PROJECTED = ["owner", "view", "cancel"]  # the attributes in the indexes in addition to the keys


class TaskRecord(Record):
    class Meta(TableMeta):
        table_name = table_name("tasks")

    id = UnicodeAttribute(hash_key=True)
    owner_key = UnicodeAttribute()
    shard_key = UnicodeAttribute()
    ordered = UnicodeAttribute()
    expires = TTLAttribute(null=True)
    kind = UnicodeAttribute()
    owner = NumberAttribute()
    view = UnicodeAttribute()
    spec = EncryptedAttribute(bound_to=("kind", "owner"))
    cursor = UnicodeAttribute(default="{}")
    cancel = BooleanAttribute(default=False)
    attempt = NumberAttribute(default=0)
    created = NumberAttribute()
    lease = UnicodeAttribute(default="")
    until = NumberAttribute(default=0)

    by_owner = make_index(
        OWNER_INDEX, IncludeProjection(PROJECTED), owner_key=UnicodeAttribute, ordered=UnicodeAttribute
    )
    """The index of the tasks of an owner, by kind and status."""
    by_shard = make_index(
        SHARD_INDEX, IncludeProjection(PROJECTED), shard_key=UnicodeAttribute, ordered=UnicodeAttribute
    )
    """The index of those of all owners."""


def dump_json(value: Mapping[str, Any] | TaskView) -> str:
    """Return the stored form of a value."""
    return orjson.dumps(value).decode()


def load_view(text: str) -> TaskView:
    """Return the view of a stored JSON object."""
    return TaskView(**orjson.loads(text))


def make_task(record: TaskRecord) -> Task:
    """Return the task of a record."""
    status = find_status(record.owner_key)
    return Task(
        id=record.id,
        kind=record.kind,
        owner=int(record.owner),
        view=load_view(record.view),
        spec=orjson.loads(record.spec),
        cursor=orjson.loads(record.cursor),
        cancel=bool(record.cancel),
        done=status is TaskStatus.DONE,
        removed=status is TaskStatus.REMOVED,
        attempt=int(record.attempt),
        created=float(record.created),
        lease=Lease(record.lease, float(record.until)),
    )


class NewTask(NamedTuple):
    """A task to be created; see `Task`."""

    kind: str
    owner: int
    view: TaskView
    spec: Mapping[str, Any]


def create(new: NewTask) -> Task:
    """Store a new task. Raise RecordConflict if its id is taken."""
    record = make_record(new)
    with translate_errors():
        record.save(condition=is_free_or_same(record))
    follow_new(record)
    return make_new_task(new, record)


def follow_new(record: TaskRecord) -> None:
    """Update the anchors of the lists that have a new task."""
    page_anchors().move(int(record.owner), record.kind, TaskStatus.UNDONE, record.ordered, 1)


def is_free_or_same(record: TaskRecord) -> Condition:
    """Return the condition that the id is free, or taken by this same write, whose answer was lost."""
    free: Condition = TaskRecord.id.does_not_exist() | (TaskRecord.created == record.created)
    return free


def make_record(new: NewTask) -> TaskRecord:
    """Return the record of a new task, which is not stored yet."""
    created = time.time()
    return TaskRecord(
        new.view.id, owner_key=make_owner_key(new.owner, new.kind, TaskStatus.UNDONE), kind=new.kind, owner=new.owner,
        shard_key=make_shard_key(new.view.id, new.kind, TaskStatus.UNDONE), view=dump_json(new.view),
        spec=dump_json(new.spec), ordered=make_order(new.view.id, created), created=created,
    )  # fmt: skip


def make_new_task(new: NewTask, record: TaskRecord) -> Task:
    """Return the task of a record that was just made of `new`."""
    return Task(
        id=new.view.id, kind=new.kind, owner=new.owner, view=new.view, spec=new.spec, cursor={}, cancel=False,
        done=False, removed=False, attempt=0, created=record.created, lease=Lease(),
    )  # fmt: skip


def get(id: str) -> Task:
    """Return a task. Raise RecordNotFound."""
    record = TaskRecord.find(id)
    if record is None:
        raise RecordNotFound
    return make_task(record)


def get_unreadable(id: str) -> Task:
    """Return a task without its spec and cursor, which cannot be read. Raise RecordNotFound."""
    with translate_errors():
        answer = get_connection(TaskRecord).get_item(TaskRecord.Meta.table_name, id, consistent_read=True)
    item = answer.get("Item")
    if item is None:
        raise RecordNotFound
    return make_decrypted_task(item | {"spec": {BINARY: Plaintext("{}")}, "cursor": {STRING: "{}"}})


def make_decrypted_task(item: Mapping[str, Any]) -> Task:
    """Return the task of an item whose spec is in plaintext."""
    return make_task(Model.from_raw_data.__func__(TaskRecord, dict(item)))  # type: ignore[attr-defined]


def acquire_lease(id: str, token: str, seconds: float, expired: Lease | None = None) -> Task:
    """Acquire the lease of a task for `seconds`. Raise RecordConflict if there is no such task, or if another worker
    holds it by a lease other than `expired`."""
    record = TaskRecord(id)
    free = (TaskRecord.until <= 0) | (TaskRecord.lease == token)
    if expired is not None:
        free |= _is_lease(expired)
    actions: list[Action] = [TaskRecord.lease.set(token), TaskRecord.until.set(time.time() + seconds)]
    with translate_errors():
        record.update(actions=actions, condition=TaskRecord.id.exists() & free)
    return make_task(record)


def _is_lease(lease: Lease) -> Condition:
    condition: Condition = (TaskRecord.lease == lease.token) & (TaskRecord.until == lease.until)
    return condition


def touch(task: Task, view: TaskView | None = None) -> bool:
    """Write the time and the view of a task that no worker holds. Return False, and write nothing, if a worker holds it
    now or another process wrote it."""
    actions: list[Action] = [TaskRecord.until.set(-time.time())]
    if view is not None:
        actions.append(TaskRecord.view.set(dump_json(view)))
    try:
        with translate_errors():
            TaskRecord(task.id).update(actions=actions, condition=TaskRecord.until == task.lease.until)
    except RecordConflict:
        return False
    return True


def save(
    task: Task,
    token: str,
    seconds: float,
    *,
    view: TaskView | None = None,
    cursor: Mapping[str, Any] | None = None,
    done: bool | None = None,
    expires: datetime | None = None,
) -> Task:
    """Write changes as the holder of `token`, and extend the lease by `seconds`; 0 releases it.

    The lease of `task` may belong to another worker if it has expired. Raise RecordConflict if another worker holds the
    task, or if `done` would change the status of a removed task. The record of a finished task may be deleted when it
    `expires`. The result has the present `cancel`.
    """
    record, now = TaskRecord(task.id), time.time()
    actions: list[Action] = [TaskRecord.until.set(now + seconds if seconds else -now), TaskRecord.lease.set(token)]
    for attribute, value in ((TaskRecord.view, view), (TaskRecord.cursor, cursor)):
        if value is not None:
            actions.append(attribute.set(dump_json(value)))
    condition = (TaskRecord.attempt == task.attempt) & ((TaskRecord.lease == token) | _is_lease(task.lease))
    if done is not None:
        actions += make_done(task, view or task.view, expires) if done else make_undone(task)
        condition &= TaskRecord.owner_key != make_owner_key(task.owner, task.kind, TaskStatus.REMOVED)
    with translate_errors():
        record.update(actions=actions, condition=condition)
    if done:
        page_anchors().move(task.owner, task.kind, TaskStatus.DONE, record.ordered, 1)
        page_anchors().move(task.owner, task.kind, TaskStatus.UNDONE, make_order(task.id, task.created), -1)
    elif done is not None:
        page_anchors().clear()
    return make_task(record)


def make_done(task: Task, view: TaskView, expires: datetime | None = None) -> list[Action]:
    """Return the actions that make a task done."""
    ordered = make_done_order(task.id, parse_end(view.end_time))
    keys = _make_keys(task, TaskStatus.DONE, ordered)
    return keys if expires is None else [*keys, TaskRecord.expires.set(expires)]


def make_undone(task: Task, status: TaskStatus = TaskStatus.UNDONE) -> list[Action]:
    """Return the actions that make a task undone, in its former position."""
    return [*_make_keys(task, status, make_order(task.id, task.created)), TaskRecord.expires.remove()]


def _make_keys(task: Task, status: TaskStatus, ordered: str) -> list[Action]:
    return [
        TaskRecord.owner_key.set(make_owner_key(task.owner, task.kind, status)),
        TaskRecord.shard_key.set(make_shard_key(task.id, task.kind, status)),
        TaskRecord.ordered.set(ordered),
    ]


def delete(id: str) -> None:
    """Delete a task."""
    with translate_errors():
        TaskRecord(id).delete()
    page_anchors().clear()
