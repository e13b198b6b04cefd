"""Task records: what a piece of long work is, how far it came, and which worker holds it.

A worker holds a lease under a token of its own; every write of progress names the token, so that a worker whose lease
went to another one changes nothing. Whether a lease is over is nowhere decided by comparing clocks: see `Lease`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from pynamodb.attributes import BooleanAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.constants import BINARY, STRING
from pynamodb.exceptions import DoesNotExist
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection
from pynamodb.models import Model

from mangrove.core.problems import RecordNotFound
from mangrove.records.store.base import Record, RecordConflict, TableMeta, get_connection, table_name, translate_errors
from mangrove.records.store.integrity import Clear, Sealed
from mangrove.records.tasks.keys import (
    OWNER_INDEX,
    SHARD_INDEX,
    Status,
    find_status,
    make_done_order,
    make_order,
    make_owner_key,
    make_shard_key,
    parse_end,
)
from mangrove.records.tasks.marks import get_marks


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
        """The JSON object; progress is an integer where it is whole."""
        return {
            "id": self.id,
            "name": self.name,
            "creator": self.creator,
            "creator_role": self.creator_role,
            "state": self.state,
            "status": self.status,
            "progress": self.progress if self.progress % 1 else int(self.progress),
            "start_time": self.start_time,
            "end_time": self.end_time,
            "total_bytes": self.total_bytes,
            "error": self.error,
        }


class Lease(NamedTuple):
    """Who held a task last, and until when by its own clock (seconds since the epoch).

    Every renewal writes another `until`: to everybody else it is a mark that changes as long as the holder lives, and
    not a time. It is negative, the time of that, after the holder let go; 0 before the first one.
    """

    token: str = ""
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """`view` is what lists show; `spec` what the work is, sealed in the table; `cursor` how far it came (both as
    stored, see `tasks.specs`).

    `attempt` counts the runs: 0 for the first, one more for each retry. `removed`: it is shown no more, its machine is
    to clean up. `created` is in seconds since the epoch.
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
    lease: Lease

    @property
    def touched(self) -> float:
        """About when a worker last held it, in seconds since the epoch: a hint, as clocks are."""
        return max(abs(self.lease.until), self.created)


PROJECTED = ["owner", "view", "cancel"]  # what the indexes have beside the keys


class OwnerIndex(GlobalSecondaryIndex["TaskRecord"]):  # type: ignore[no-untyped-call]
    """The tasks of an owner, by kind and status."""

    class Meta:
        index_name = OWNER_INDEX
        projection = IncludeProjection(PROJECTED)

    owner_key = UnicodeAttribute(hash_key=True)
    ordered = UnicodeAttribute(range_key=True)


class ShardIndex(GlobalSecondaryIndex["TaskRecord"]):  # type: ignore[no-untyped-call]
    """The tasks of all owners, by kind and status."""

    class Meta:
        index_name = SHARD_INDEX
        projection = IncludeProjection(PROJECTED)

    shard_key = UnicodeAttribute(hash_key=True)
    ordered = UnicodeAttribute(range_key=True)


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
    spec = Sealed(beside=("kind", "owner"))
    cursor = UnicodeAttribute(default="{}")
    cancel = BooleanAttribute(default=False)
    attempt = NumberAttribute(default=0)
    created = NumberAttribute()
    lease = UnicodeAttribute(default="")
    until = NumberAttribute(default=0)

    by_owner = OwnerIndex()
    by_shard = ShardIndex()


def _dump(value: Mapping[str, Any] | TaskView) -> str:
    return orjson.dumps(value).decode()


def load_view(text: str) -> TaskView:
    """The view of its stored JSON object."""
    return TaskView(**orjson.loads(text))


def make_task(record: TaskRecord) -> Task:
    """The task of a record."""
    status = find_status(record.owner_key)
    return Task(
        id=record.id,
        kind=record.kind,
        owner=int(record.owner),
        view=load_view(record.view),
        spec=orjson.loads(record.spec),
        cursor=orjson.loads(record.cursor),
        cancel=bool(record.cancel),
        done=status is Status.DONE,
        removed=status is Status.REMOVED,
        attempt=int(record.attempt),
        created=float(record.created),
        lease=Lease(record.lease, float(record.until)),
    )


class NewTask(NamedTuple):
    """What a task is made of; see `Task`."""

    kind: str
    owner: int
    view: TaskView
    spec: Mapping[str, Any]


def create(new: NewTask) -> Task:
    """Store a new task that no worker holds; RecordConflict when its id is taken."""
    record = make_record(new)
    with translate_errors():
        record.save(condition=is_free_or_same(record))
    note_new(record)
    return make_new_task(new, record)


def note_new(record: TaskRecord) -> None:
    """Move the marks of the lists that a new task is in."""
    get_marks().move(int(record.owner), record.kind, Status.UNDONE, record.ordered, 1)


def is_free_or_same(record: TaskRecord) -> Condition:
    """That the id is free, or taken by this very write, whose answer was lost."""
    free: Condition = TaskRecord.id.does_not_exist() | (TaskRecord.ordered == record.ordered)
    return free


def make_record(new: NewTask) -> TaskRecord:
    """The record of a new task, which is not stored yet."""
    created = time.time()
    return TaskRecord(
        new.view.id, owner_key=make_owner_key(new.owner, new.kind, Status.UNDONE), kind=new.kind, owner=new.owner,
        shard_key=make_shard_key(new.view.id, new.kind, Status.UNDONE), view=_dump(new.view), spec=_dump(new.spec),
        ordered=make_order(new.view.id, created), created=created,
    )  # fmt: skip


def make_new_task(new: NewTask, record: TaskRecord) -> Task:
    """The task of a record that was just made of `new`."""
    return Task(
        id=new.view.id, kind=new.kind, owner=new.owner, view=new.view, spec=new.spec, cursor={}, cancel=False,
        done=False, removed=False, attempt=0, created=record.created, lease=Lease(),
    )  # fmt: skip


def get(id: str) -> Task:
    """One task; RecordNotFound."""
    with translate_errors():
        try:
            return make_task(TaskRecord.get(id, consistent_read=True))
        except DoesNotExist:
            raise RecordNotFound from None


def get_unreadable(id: str) -> Task:
    """A task whose spec or cursor cannot be read, without them; RecordNotFound."""
    with translate_errors():
        answer = get_connection(TaskRecord).get_item(TaskRecord.Meta.table_name, id, consistent_read=True)
    item = answer.get("Item")
    if item is None:
        raise RecordNotFound
    return make_opened_task(item | {"spec": {BINARY: Clear("{}")}, "cursor": {STRING: "{}"}})


def make_opened_task(item: Mapping[str, Any]) -> Task:
    """Return the task of a record whose specification is in clear."""
    return make_task(Model.from_raw_data.__func__(TaskRecord, dict(item)))  # type: ignore[attr-defined]


def acquire_lease(id: str, token: str, seconds: float, over: Lease | None = None) -> Task:
    """Hold the task under `token`, for `seconds` without a sign of life; RecordConflict when there is none, or when
    another worker holds it, unless that is by the lease `over`, which the caller knows to be at its end."""
    record = TaskRecord(id)
    free = (TaskRecord.until <= 0) | (TaskRecord.lease == token)
    if over is not None:
        free |= _is_lease(over)
    actions: list[Action] = [TaskRecord.lease.set(token), TaskRecord.until.set(time.time() + seconds)]
    with translate_errors():
        record.update(actions=actions, condition=TaskRecord.id.exists() & free)
    return make_task(record)


def _is_lease(lease: Lease) -> Condition:
    same: Condition = (TaskRecord.lease == lease.token) & (TaskRecord.until == lease.until)
    return same


def touch(task: Task, view: TaskView | None = None) -> bool:
    """Note that somebody looks after a task which no worker holds, and what is to be shown of it. False, and nothing of
    it, when a worker holds it by now, or somebody else noted something."""
    actions: list[Action] = [TaskRecord.until.set(-time.time())]
    if view is not None:
        actions.append(TaskRecord.view.set(_dump(view)))
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
    """Write what changed, as the holder of `token`, and hold the lease `seconds` more; 0 releases it. It may be the
    first write of a worker that found the lease of `task` to be over.

    RecordConflict when another worker holds it. The answer says whether a cancel mark was set meanwhile. `done` changes
    the status, unless the task was removed: a RecordConflict, too. `expires`: when a task that is done may go.
    """
    record, now = TaskRecord(task.id), time.time()
    actions: list[Action] = [TaskRecord.until.set(now + seconds if seconds else -now), TaskRecord.lease.set(token)]
    for attribute, value in ((TaskRecord.view, view), (TaskRecord.cursor, cursor)):
        if value is not None:
            actions.append(attribute.set(_dump(value)))
    condition = (TaskRecord.attempt == task.attempt) & ((TaskRecord.lease == token) | _is_lease(task.lease))
    if done is not None:
        actions += make_done(task, view or task.view, expires) if done else make_undone(task)
        condition &= TaskRecord.owner_key != make_owner_key(task.owner, task.kind, Status.REMOVED)
    with translate_errors():
        record.update(actions=actions, condition=condition)
    if done:
        get_marks().move(task.owner, task.kind, Status.DONE, record.ordered, 1)
        get_marks().move(task.owner, task.kind, Status.UNDONE, make_order(task.id, task.created), -1)
    elif done is not None:
        get_marks().forget()
    return make_task(record)


def make_done(task: Task, view: TaskView, expires: datetime | None = None) -> list[Action]:
    """What puts a task among those that are done."""
    ordered = make_done_order(task.id, parse_end(view.end_time))
    keys = _make_keys(task, Status.DONE, ordered)
    return keys if expires is None else [*keys, TaskRecord.expires.set(expires)]


def make_undone(task: Task, status: Status = Status.UNDONE) -> list[Action]:
    """What puts a task among those that are not, where it was before."""
    return [*_make_keys(task, status, make_order(task.id, task.created)), TaskRecord.expires.remove()]


def _make_keys(task: Task, status: Status, ordered: str) -> list[Action]:
    return [
        TaskRecord.owner_key.set(make_owner_key(task.owner, task.kind, status)),
        TaskRecord.shard_key.set(make_shard_key(task.id, task.kind, status)),
        TaskRecord.ordered.set(ordered),
    ]


def mark_cancelled(id: str) -> None:
    """Ask the worker of a task to stop."""
    with translate_errors():
        TaskRecord(id).update(actions=[TaskRecord.cancel.set(True)], condition=TaskRecord.id.exists())


def reopen(task: Task, view: TaskView) -> Task:
    """Make a task undone once more, as its next run; a worker that holds it loses its lease. RecordConflict when that
    run was opened before."""
    record = TaskRecord(task.id)
    with translate_errors():
        record.update(actions=make_reopening(task, view), condition=TaskRecord.attempt == task.attempt)
    get_marks().forget()
    return make_task(record)


def renew(task: Task, new: NewTask) -> Task:
    """Put a new task in the place of one of the same id that is done, as its next run, which may go on from its cursor.
    RecordConflict when another one was put there before."""
    record = make_record(new)
    record.attempt, record.cursor = task.attempt + 1, _dump(task.cursor)
    done = TaskRecord.owner_key == make_owner_key(task.owner, task.kind, Status.DONE)
    with translate_errors():
        record.save(condition=((TaskRecord.attempt == task.attempt) & done) | (TaskRecord.ordered == record.ordered))
    get_marks().forget()
    return make_task(record)


def make_reopening(task: Task, view: TaskView | None) -> list[Action]:
    """What opens the next run; without a `view` it only cleans up, and the task is shown no more."""
    actions: list[Action] = [
        *make_undone(task, Status.REMOVED if view is None else Status.UNDONE),
        TaskRecord.cancel.set(view is None),
        TaskRecord.attempt.set(task.attempt + 1),
        TaskRecord.lease.set(""),
        TaskRecord.until.set(0),
    ]
    return actions if view is None else [*actions, TaskRecord.view.set(_dump(view))]


def mark_removed(task: Task) -> None:
    """Ask the worker of a task to stop, and show the task no more; its machine deletes it at the end."""
    actions: list[Action] = [TaskRecord.cancel.set(True), *make_undone(task, Status.REMOVED)]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.id.exists())
    get_marks().forget()


def mark_done(task: Task, view: TaskView) -> None:
    """Count a task whose machine could not be started as done."""
    actions: list[Action] = [TaskRecord.view.set(_dump(view)), *make_done(task, view)]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.attempt == task.attempt)
    get_marks().forget()


def delete(id: str) -> None:
    """Delete a task."""
    with translate_errors():
        TaskRecord(id).delete()
    get_marks().forget()
