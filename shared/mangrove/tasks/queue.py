"""The board of tasks: opening one, and what its owner and administrators may see and do (behaviour 6.4)."""

from __future__ import annotations

import base64
import hashlib
import secrets
import string
from collections.abc import Iterator, Mapping
from typing import Any

from mangrove.checkpoints import reached
from mangrove.identity.rights import Caller
from mangrove.problems import Missing, Problem
from mangrove.records import tasks as records
from mangrove.records.base import Conflict, RecordMissing
from mangrove.records.tasks import Row, Task
from mangrove.records.users import User
from mangrove.tasks import machines
from mangrove.tasks.kinds import State

NOT_FOUND = "task not found"
ID_LETTERS = string.ascii_letters + string.digits + "_-"
ID_LENGTH = 21
CANCELED = "context canceled"


def new_id() -> str:
    """An id for a task to be opened."""
    return "".join(secrets.choice(ID_LETTERS) for _ in range(ID_LENGTH))


def stage(task: Task) -> str:
    """The name in staging of what this run of a task brings for the next one."""
    return f"{task.id}.{task.attempt}"


def following(stage: str) -> str:
    """The id of the task that goes on with what was brought under the name `stage`."""
    return base64.urlsafe_b64encode(hashlib.sha256(stage.encode()).digest()).decode()[:ID_LENGTH]


def open(
    kind: str, user: User, name: str, spec: Mapping[str, Any], size: int = 0, status: str = "", id: str = ""
) -> Task:
    """Put a new task on the board and start it. `size` in bytes, 0 when it is not known."""
    view = _fresh(id or new_id(), name, user.username, user.role, size, status)
    task = records.create(view["id"], kind, user.id, view, spec)
    reached("board.opened")
    try:
        machines.start(task)
    except Problem:
        records.delete(task.id)  # nobody would ever work on it
        raise
    return task


def chain(kind: str, task: Task, name: str, spec: Mapping[str, Any], size: int, status: str = "") -> None:
    """Open the task that goes on with what `task` has brought; once, however often a worker comes to do it."""
    id = following(stage(task))
    view = _fresh(id, name, task.view["creator"], task.view["creator_role"], size, status)
    try:
        opened = records.create(id, kind, task.owner, view, spec)
    except Conflict:
        try:
            opened = records.get(id)
        except RecordMissing:
            return  # opened before, and removed since
    reached("board.handed")
    if not opened.done:
        machines.start(opened)


def is_chained(task: Task, *, start: bool = True) -> bool:
    """Whether the task that goes on with what this run of `task` has brought is open; with `start`, it is started if
    it waits."""
    try:
        opened = records.get(following(stage(task)))
    except RecordMissing:
        return False
    if start and not opened.done:
        machines.start(opened)
    return True


def _fresh(id: str, name: str, creator: str, role: int, size: int, status: str) -> dict[str, Any]:
    return {
        "id": id,
        "name": name,
        "creator": creator,
        "creator_role": role,
        "state": State.PENDING,
        "status": status,
        "progress": 0.0,
        "start_time": None,
        "end_time": None,
        "total_bytes": size,
        "error": "",
    }


def view(row: Row | Task) -> dict[str, Any]:
    """What clients see of a task."""
    found = dict(row.view)
    if row.cancel and found["end_time"] is None:
        found["state"] = State.CANCELING
    return found


def listed(kind: str, done: bool, caller: Caller, at_once: int | None = None) -> Iterator[dict[str, Any]]:
    """The tasks of a kind that the caller may see, oldest first; read as they are asked for, `at_once` at a time."""
    for row in records.rows(kind, done, at_once):
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
    if task.kind != kind or task.gone or not (caller.is_admin or task.owner == caller.user.id):
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
    fresh = {"state": State.WAITING_RETRY, "error": "", "end_time": None, "status": ""}
    try:
        again = records.reopen(task, task.view | fresh)
    except Conflict:
        return  # somebody else retried it at the same time
    try:
        machines.start(again)
    except Problem:
        records.shelve(again, task.view)
        raise


def delete(kind: str, id: str, caller: Caller) -> None:
    """Take a task off the board; one that is under way is cancelled first and cleans up after itself."""
    task = get(kind, id, caller)
    if not task.done:
        records.take_down(task)
        machines.expedite(task)
    elif task.view["state"] == State.SUCCEEDED:
        records.delete_done(kind, task.id)
    else:
        _clean_up(task)


def _clean_up(task: Task) -> None:
    """Run a task once more, only to remove what was kept for a retry."""
    try:
        machines.start(records.reopen(task, task.view, gone=True))
    except Conflict:
        pass  # somebody else deletes or retries it at the same time
