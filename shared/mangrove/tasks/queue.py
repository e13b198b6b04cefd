"""The queue of tasks: opening one, and what its owner and administrators may see and do (behaviour 6.4)."""

from __future__ import annotations

import base64
import hashlib
import secrets
import string
from collections.abc import Iterator
from dataclasses import replace

from mangrove.checkpoints import pass_checkpoint
from mangrove.identity.rights import Caller
from mangrove.problems import Missing, Problem
from mangrove.records import tasks as records
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Row, Task, TaskView
from mangrove.records.users import User
from mangrove.tasks import machines
from mangrove.tasks.kinds import State
from mangrove.tasks.specs import Spec, TransferSpec

NOT_FOUND = "task not found"
ID_LETTERS = string.ascii_letters + string.digits + "_-"
ID_LENGTH = 21
CANCELED = "context canceled"


def make_id() -> str:
    """An id for a task to be opened."""
    return "".join(secrets.choice(ID_LETTERS) for _ in range(ID_LENGTH))


def get_stage(task: Task) -> str:
    """The name in staging of what this run of a task brings for the next one."""
    return f"{task.id}.{task.attempt}"


def get_chained_id(stage: str) -> str:
    """The id of the task that goes on with what was brought under the name `stage`."""
    return base64.urlsafe_b64encode(hashlib.sha256(stage.encode()).digest()).decode()[:ID_LENGTH]


def open(kind: str, user: User, name: str, spec: Spec, size: int = 0, status: str = "", id: str = "") -> Task:
    """Queue a new task and start it. `size` in bytes, 0 when it is not known."""
    view = _make_view(id or make_id(), name, user.username, user.role, size, status)
    task = records.create(kind, user.id, view, spec.dump())
    pass_checkpoint("queue.opened")
    try:
        machines.start(task)
    except Problem:
        records.delete(task.id)  # no worker would ever come to it
        raise
    return task


def chain(kind: str, task: Task, name: str, spec: TransferSpec, size: int, status: str = "") -> None:
    """Open the transfer that goes on with what this run of `task` has brought; once, however often it is called."""
    id = get_chained_id(get_stage(task))
    view = _make_view(id, name, task.view.creator, task.view.creator_role, size, status)
    try:
        chained = records.create(kind, task.owner, view, spec.dump())
    except Conflict:
        try:
            chained = records.get(id)
        except RecordMissing:
            return  # opened before, and removed since
    pass_checkpoint("queue.chained")
    if not chained.done:
        machines.start(chained)


def is_chained(task: Task) -> bool:
    """Whether the transfer of what this run of `task` has brought is open."""
    return find_chained(task) is not None


def resume_chained(task: Task) -> bool:
    """The same; a transfer that waits is started."""
    chained = find_chained(task)
    if chained is not None and not chained.done:
        machines.start(chained)
    return chained is not None


def find_chained(task: Task) -> Task | None:
    """The transfer of what this run of `task` has brought; None when it was not opened, or is removed since."""
    try:
        return records.get(get_chained_id(get_stage(task)))
    except RecordMissing:
        return None


def _make_view(id: str, name: str, creator: str, role: int, size: int, status: str) -> TaskView:
    return TaskView(
        id=id,
        name=name,
        creator=creator,
        creator_role=role,
        state=State.PENDING,
        status=status,
        progress=0.0,
        start_time=None,
        end_time=None,
        total_bytes=size,
        error="",
    )


def view(row: Row | Task) -> TaskView:
    """What clients see of a task."""
    if row.cancel and row.view.end_time is None:
        return replace(row.view, state=State.CANCELING)
    return row.view


def list_views(kind: str, done: bool, caller: Caller, page_size: int | None = None) -> Iterator[TaskView]:
    """The tasks of a kind that the caller may see, oldest first; read lazily, `page_size` at a time."""
    for row in records.list_rows(kind, done, page_size):
        if caller.is_admin or row.owner == caller.user.id:
            yield view(row)


def get(kind: str, id: str, caller: Caller) -> Task:
    """One task; Missing when there is none that the caller may see."""
    if len(id) != ID_LENGTH:
        raise Missing(NOT_FOUND)
    try:
        task = records.get(id)
    except RecordMissing:
        raise Missing(NOT_FOUND) from None
    if task.kind != kind or task.removed or not (caller.is_admin or task.owner == caller.user.id):
        raise Missing(NOT_FOUND)
    return task


def cancel(kind: str, id: str, caller: Caller) -> None:
    """Stop a task; one that is done stays as it is."""
    task = get(kind, id, caller)
    if not task.done:
        records.mark_cancelled(task.id)
        machines.expedite(task)


def retry(kind: str, id: str, caller: Caller) -> None:
    """Run a task that is done once more; one that is under way goes on."""
    task = get(kind, id, caller)
    if not task.done:
        return
    waiting = replace(task.view, state=State.WAITING_RETRY, error="", end_time=None, status="")
    try:
        again = records.reopen(task, waiting)
    except Conflict:
        return  # another request retried it at the same time
    try:
        machines.start(again)
    except Problem:
        records.mark_done(again, task.view)
        raise


def delete(kind: str, id: str, caller: Caller) -> None:
    """Remove a task; one that is under way is cancelled first and cleans up after itself."""
    task = get(kind, id, caller)
    if not task.done:
        records.mark_removed(task)
        machines.expedite(task)
    elif task.view.state == State.SUCCEEDED:
        records.delete_done(kind, task.id)
    else:
        _clean_up(task)


def _clean_up(task: Task) -> None:
    """Run a task once more, only to remove what was kept for a retry."""
    try:
        machines.start(records.reopen(task, task.view, removed=True))
    except Conflict:
        pass  # another request deletes or retries it at the same time
