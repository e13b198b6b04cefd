"""How far the index runs came, as clients see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson

from mangrove import configuration
from mangrove.core.problems import Problem, UnreadableTask
from mangrove.core.telemetry import log_exception
from mangrove.records import settings
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import queue
from mangrove.tasks.core.kinds import State
from mangrove.tasks.core.steps import Run
from mangrove.tasks.index.declaration import IndexCursor, IndexSpec

KIND = "index"
SERVICE = 0  # the owner of these tasks


@dataclass(frozen=True, slots=True)
class Progress:
    """`obj_count`: names that the indexes have, and that the runs have found which build one; `last_done_time`: ISO
    8601."""

    obj_count: int
    is_done: bool
    last_done_time: str | None
    error: str


def read_tasks(done: bool) -> list[Task]:
    """The tasks of all storages that are done, or that are not."""
    ids = (row.id for row in task_lists.list_rows(KIND, done, SERVICE))
    return [task for some in task_batches.split(ids) for task in task_batches.read(some)]


def load_cursor(task: Task) -> IndexCursor:
    """How far a task came; nothing is known of one that another version wrote."""
    try:
        return IndexCursor.load(task.cursor)
    except UnreadableTask:
        return IndexCursor()


def make_task_id(storage_id: int) -> str:
    """The id of the task of a storage."""
    return f"{KIND}-{storage_id:0{queue.ID_LENGTH - len(KIND) - 1}d}"


def read() -> Progress:
    """How it is now."""
    return _compute(_read_all())


def _read_all() -> dict[str, Task]:
    """The tasks of the storages that there are, and all that are not done."""
    ids = dict.fromkeys(row.id for row in task_lists.list_rows(KIND, False, SERVICE))
    ids |= dict.fromkeys(make_task_id(storage.id) for storage in configuration.get_sync().storages)
    return {task.id: task for some in task_batches.split(ids) for task in task_batches.read(some)}


def _compute(tasks: Mapping[str, Task]) -> Progress:
    count, finished, errors = 0, list[str](), list[str]()
    for task in tasks.values():
        cursor = load_cursor(task)
        is_building = cursor.attempt == task.attempt and cursor.is_whole and not cursor.walked
        count += (cursor.indexed or 0) if task.done else cursor.seen if is_building else cursor.indexed or cursor.seen
        finished += [cursor.finished] if cursor.finished else []
        if task.done and task.view.state == State.FAILED:
            errors.append(f"{task.view.name}: {task.view.error}")
    is_done = all(task.done for task in tasks.values())
    return Progress(count, is_done, max(finished, default=None), "; ".join(errors))


def save(run: Run[IndexSpec, IndexCursor], state: State) -> None:
    """Show in the setting that clients know how it is once this run, which ends in `state`, is over."""
    view = replace(run.view, state=state)
    ended = replace(run.task, view=view, cursor=run.cursor.dump(), done=True)
    try:
        tasks = _read_all()
        tasks.pop(ended.id, None)
        progress = _compute(tasks if ended.removed else tasks | {ended.id: ended})
        settings.save({"index_progress": orjson.dumps(progress).decode()})
    except Problem:  # whoever asks for the progress gets it from the tasks
        log_exception("the progress of the index could not be saved")
