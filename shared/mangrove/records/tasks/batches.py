"""Many task records at once: a call for each would cost more than all that is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from pynamodb.transactions import TransactWrite

from mangrove.core.problems import RecordsUnavailable
from mangrove.core.telemetry import log_warning
from mangrove.records.store.base import RecordConflict, get_connection, transaction, translate_errors
from mangrove.records.store.crypto import DecryptionError
from mangrove.records.store.integrity import MAX_KEY_LETTERS
from mangrove.records.tasks.keys import Status, make_shard_key
from mangrove.records.tasks.marks import get_marks
from mangrove.records.tasks.model import (
    NewTask,
    Task,
    TaskRecord,
    is_free_or_same,
    make_new_task,
    make_record,
    make_reopening,
    make_task,
    note_new,
)

MOST = 100  # writes of one transaction, and reads of one batch: the limits of DynamoDB
Item = TypeVar("Item")


def split(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items in lists of MOST."""
    rest = iter(items)
    while some := list(islice(rest, MOST)):
        yield some


def create(new: Sequence[NewTask]) -> list[Task]:
    """Store new tasks that no worker holds, all or none, in their order; at most MOST."""
    records = [make_record(one) for one in new]
    with translate_errors(), transaction(TaskRecord) as write:
        for record in records:
            write.save(record, condition=is_free_or_same(record))
    for record in records:
        note_new(record)
    return [make_new_task(one, record) for one, record in zip(new, records, strict=True)]


def read(ids: Sequence[str]) -> list[Task]:
    """Those of the tasks that there are and can be read, in no order; at most MOST."""
    left, found = [{"id": id} for id in ids], list[Task]()
    while left:
        with translate_errors():
            answer = get_connection(TaskRecord).batch_get_item(TaskRecord.Meta.table_name, left, consistent_read=True)
        table = TaskRecord.Meta.table_name
        found += [task for item in answer["Responses"].get(table, ()) if (task := _make_readable(item)) is not None]
        left = [{"id": key["id"]["S"]} for key in answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", ())]
    return found


def _make_readable(item: dict[str, Any]) -> Task | None:
    """The task of a record; None for one that another program wrote: the others are not held up by it."""
    try:
        return make_task(TaskRecord.from_raw_data(item))
    except DecryptionError as problem:
        log_warning("a task cannot be read", tid=item["id"]["S"][:MAX_KEY_LETTERS], reason=problem.message)
        return None


def remove_done(tasks: Sequence[Task]) -> list[Task]:
    """Show tasks that are done no more, and open a run of each that only cleans up. Those of which another request
    opened the next run meanwhile are left out; at most MOST."""

    def reopen(write: TransactWrite, task: Task) -> None:
        condition = TaskRecord.attempt == task.attempt
        write.update(TaskRecord(task.id), actions=make_reopening(task, None), condition=condition)

    done = _write_what_holds(tasks, reopen)
    return [replace(task, attempt=task.attempt + 1, removed=True, cancel=True, done=False) for task in done]


def delete_done(kind: str, ids: Sequence[str]) -> None:
    """Delete tasks of a kind that are done; those that were just reopened stay. At most MOST."""

    def delete(write: TransactWrite, id: str) -> None:
        condition = TaskRecord.shard_key == make_shard_key(id, kind, Status.DONE)
        write.delete(TaskRecord(id), condition=condition)

    _write_what_holds(ids, delete)


def delete_new(tasks: Sequence[Task]) -> list[Task]:
    """Delete tasks that no worker has touched yet; those that were deleted. At most MOST."""

    def delete(write: TransactWrite, task: Task) -> None:
        condition = (TaskRecord.lease == "") & (TaskRecord.attempt == 0)
        write.delete(TaskRecord(task.id), condition=condition)

    return _write_what_holds(tasks, delete)


def _write_what_holds(items: Sequence[Item], add: Callable[[TransactWrite, Item], None]) -> list[Item]:
    """Write what `add` adds for each item in one transaction; those whose condition does not hold are left out."""
    left = list(items)
    while left:
        try:
            with translate_errors(), transaction(TaskRecord) as write:
                for item in left:
                    add(write, item)
        except RecordConflict as conflict:
            if not any(conflict.failed):
                raise RecordsUnavailable from conflict  # it met another transaction: worth a retry
            left = [item for item, failed in zip(left, conflict.failed, strict=True) if not failed]
            continue
        get_marks().forget()
        return left
    return []
