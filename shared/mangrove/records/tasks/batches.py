"""Operations on many task records, with fewer calls than one per task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from pynamodb.transactions import TransactWrite

from mangrove.core.problems import RecordsUnavailable
from mangrove.core.telemetry import log_warning
from mangrove.records.store.base import RecordConflict, get_connection, transaction, translate_errors
from mangrove.records.store.encryption import MAX_LOGGED_KEY_LENGTH, DecryptionError
from mangrove.records.tasks.model import (
    NewTask,
    Task,
    TaskRecord,
    follow_new,
    is_free_or_same,
    make_new_task,
    make_record,
    make_task,
)
from mangrove.records.tasks.ordering import TaskStatus, make_shard_key, page_anchors
from mangrove.records.tasks.runs import make_reopening

MAX_TASKS_PER_CALL = 100  # of a transaction, and of a batch of reads: limits of DynamoDB
Item = TypeVar("Item")


def split(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the items in lists of MAX_TASKS_PER_CALL."""
    rest = iter(items)
    while batch := list(islice(rest, MAX_TASKS_PER_CALL)):
        yield batch


def create(new: Sequence[NewTask]) -> list[Task]:
    """Store new tasks, all or none; at most MAX_TASKS_PER_CALL."""
    records = [make_record(task) for task in new]
    with translate_errors(), transaction(TaskRecord) as write:
        for record in records:
            write.save(record, condition=is_free_or_same(record))
    for record in records:
        follow_new(record)
    return [make_new_task(task, record) for task, record in zip(new, records, strict=True)]


def read(ids: Sequence[str]) -> list[Task]:
    """Return the tasks that exist and can be read, in any order; at most MAX_TASKS_PER_CALL."""
    left, tasks = [{"id": id} for id in ids], list[Task]()
    while left:
        with translate_errors():
            answer = get_connection(TaskRecord).batch_get_item(TaskRecord.Meta.table_name, left, consistent_read=True)
        table = TaskRecord.Meta.table_name
        tasks += [task for item in answer["Responses"].get(table, ()) if (task := _make_readable(item)) is not None]
        left = [{"id": key["id"]["S"]} for key in answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", ())]
    return tasks


def _make_readable(item: dict[str, Any]) -> Task | None:
    """Return the task of a record, None if another program wrote it: the other tasks are not affected."""
    try:
        return make_task(TaskRecord.from_raw_data(item))
    except DecryptionError as problem:
        log_warning("unreadable task skipped", tid=item["id"]["S"][:MAX_LOGGED_KEY_LENGTH], reason=problem.message)
        return None


def remove_done(tasks: Sequence[Task]) -> list[Task]:
    """Hide finished tasks, and start a run of each that only cleans up.

    Return those tasks, without tasks whose next run another request started; at most MAX_TASKS_PER_CALL.
    """

    def reopen(write: TransactWrite, task: Task) -> None:
        condition = TaskRecord.attempt == task.attempt
        write.update(TaskRecord(task.id), actions=make_reopening(task, None), condition=condition)

    removed = _write_possible(tasks, reopen)
    return [replace(task, attempt=task.attempt + 1, removed=True, cancel=True, done=False) for task in removed]


def delete_done(kind: str, ids: Sequence[str]) -> None:
    """Delete finished tasks of a kind, except those that were just reopened; at most MAX_TASKS_PER_CALL."""

    def delete(write: TransactWrite, id: str) -> None:
        condition = TaskRecord.shard_key == make_shard_key(id, kind, TaskStatus.DONE)
        write.delete(TaskRecord(id), condition=condition)

    _write_possible(ids, delete)


def delete_new(tasks: Sequence[Task]) -> list[Task]:
    """Delete tasks that no worker has acquired yet, and return them; at most MAX_TASKS_PER_CALL."""

    def delete(write: TransactWrite, task: Task) -> None:
        condition = (TaskRecord.lease == "") & (TaskRecord.attempt == 0)
        write.delete(TaskRecord(task.id), condition=condition)

    return _write_possible(tasks, delete)


def _write_possible(items: Sequence[Item], add: Callable[[TransactWrite, Item], None]) -> list[Item]:
    """Do the writes that `add` adds for each item in one transaction. Leave out items whose condition does not hold,
    and return the others."""
    left = list(items)
    while left:
        try:
            with translate_errors(), transaction(TaskRecord) as write:
                for item in left:
                    add(write, item)
        except RecordConflict as conflict:
            if not any(conflict.failed):
                raise RecordsUnavailable from conflict  # another transaction was in progress: retry
            left = [item for item, failed in zip(left, conflict.failed, strict=True) if not failed]
            continue
        page_anchors().clear()
        return left
    return []
