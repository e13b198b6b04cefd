"""The runs of a task: cancelled, retried, replaced by a new task, removed.

A write names the run that it changes, so that it has no effect on a later one.
"""

from __future__ import annotations

from pynamodb.expressions.update import Action

from mangrove.records.store.base import translate_errors
from mangrove.records.tasks.model import (
    NewTask,
    Task,
    TaskRecord,
    TaskView,
    dump_json,
    make_done,
    make_record,
    make_task,
    make_undone,
)
from mangrove.records.tasks.ordering import TaskStatus, make_owner_key, page_anchors


def mark_cancelled(id: str) -> None:
    """Request the worker of a task to stop."""
    with translate_errors():
        TaskRecord(id).update(actions=[TaskRecord.cancel.set(True)], condition=TaskRecord.id.exists())


def reopen(task: Task, view: TaskView) -> Task:
    """Start the next run of a task. A worker that holds it loses its lease. Raise RecordConflict if another request
    started that run."""
    record = TaskRecord(task.id)
    with translate_errors():
        record.update(actions=make_reopening(task, view), condition=TaskRecord.attempt == task.attempt)
    page_anchors().clear()
    return make_task(record)


def renew(task: Task, new: NewTask) -> Task:
    """Replace a finished task by a new one with the same id, as its next run, with its cursor.

    Raise RecordConflict if another request replaced it.
    """
    record = make_record(new)
    record.attempt, record.cursor = task.attempt + 1, dump_json(task.cursor)
    done = TaskRecord.owner_key == make_owner_key(task.owner, task.kind, TaskStatus.DONE)
    with translate_errors():
        record.save(condition=((TaskRecord.attempt == task.attempt) & done) | (TaskRecord.created == record.created))
    page_anchors().clear()
    return make_task(record)


def make_reopening(task: Task, view: TaskView | None) -> list[Action]:
    """Return the actions that start the next run. Without a `view` it only cleans up, and the task is not listed any
    more."""
    actions: list[Action] = [
        *make_undone(task, TaskStatus.REMOVED if view is None else TaskStatus.UNDONE),
        TaskRecord.cancel.set(view is None),
        TaskRecord.attempt.set(task.attempt + 1),
        TaskRecord.lease.set(""),
        TaskRecord.until.set(0),
    ]
    return actions if view is None else [*actions, TaskRecord.view.set(dump_json(view))]


def mark_removed(task: Task) -> None:
    """Request the worker of a task to stop, and hide the task. Its state machine deletes it at the end."""
    actions: list[Action] = [TaskRecord.cancel.set(True), *make_undone(task, TaskStatus.REMOVED)]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.id.exists())
    page_anchors().clear()


def mark_done(task: Task, view: TaskView) -> None:
    """Make a task done whose state machine could not be started."""
    actions: list[Action] = [TaskRecord.view.set(dump_json(view)), *make_done(task, view)]
    with translate_errors():
        TaskRecord(task.id).update(actions=actions, condition=TaskRecord.attempt == task.attempt)
    page_anchors().clear()
