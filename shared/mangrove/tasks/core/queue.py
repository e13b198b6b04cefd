"""The queue of tasks: opening one, and what its owner and administrators may see and do."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, TypeVar

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.problems import Problem, RecordNotFound, ResourceNotFound
from mangrove.identity.rights import Caller
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks.lists import TaskRow
from mangrove.records.tasks.model import NewTask, Task, TaskView
from mangrove.records.tasks.ordering import parse_end
from mangrove.records.users import User
from mangrove.tasks.core import dispatch
from mangrove.tasks.core.kinds import State
from mangrove.tasks.core.leases import get_held
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.core.specs import Spec

NOT_FOUND = "task not found"
SWEEP_SECONDS = 3600  # from one sweep to the next
AT_ONCE = 2  # transactions under way for many tasks: one is prepared while the other one is written
ID_LENGTH = 21
CANCELED = "context canceled"
Item = TypeVar("Item")


def make_id() -> str:
    """An id for a task to be opened."""
    return secrets.token_urlsafe(ID_LENGTH)[:ID_LENGTH]


def get_stage(task: Task) -> str:
    """The name in staging of what this run of a task brings for the next one."""
    return f"{task.id}.{task.attempt}"


def get_chained_id(stage: str) -> str:
    """The id of the task that goes on with what was brought under the name `stage`."""
    return base64.urlsafe_b64encode(hashlib.sha256(stage.encode()).digest()).decode()[:ID_LENGTH]


class TaskRequest(NamedTuple):
    """A task to be opened. `size` in bytes, 0 when it is not known."""

    name: str
    spec: Spec
    size: int = 0
    status: str = ""
    id: str = ""


def enqueue(kind: str, user: User, request: TaskRequest) -> Task:
    """Queue a new task and start it."""
    (task,) = enqueue_many(kind, user, [request])
    return task


def enqueue_many(kind: str, user: User, requests: Sequence[TaskRequest]) -> list[Task]:
    """The same for many tasks, in their order. When one cannot be stored or started, those before it stay, and the
    others do not."""
    tasks: list[Task] = []
    with ThreadPoolExecutor(AT_ONCE, "open") as pool:
        batches = [pool.submit(_create, kind, user, some) for some in task_batches.split(requests)]
        try:
            for batch in batches:
                made = batch.result()
                pass_checkpoint("queue.opened")
                for task in made:
                    dispatch.start(task)
                    tasks.append(task)
        except BaseException:
            for batch in batches:
                batch.cancel()
            _delete_all(batches, {task.id for task in tasks})
            raise
    return tasks


def _delete_all(batches: Sequence[Future[list[Task]]], kept: Container[str]) -> None:
    """Delete what was stored of tasks that are to be opened, but for those that were started and are `kept`."""
    for batch in batches:
        if batch.cancelled() or batch.exception() is not None:
            continue
        task_batches.delete_new([task for task in batch.result() if task.id not in kept])


def _create(kind: str, user: User, requests: Sequence[TaskRequest]) -> list[Task]:
    new = [
        NewTask(
            kind,
            user.id,
            make_view(request.id or make_id(), request.name, user.username, user.role, request.size, request.status),
            request.spec.dump(),
        )
        for request in requests
    ]
    return [records.create(new[0])] if len(new) == 1 else task_batches.create(new)


def chain(kind: str, task: Task, name: str, spec: Spec, size: int, status: str = "") -> None:
    """Open the transfer that goes on with what this run of `task` has brought; once, however often it is called."""
    id = get_chained_id(get_stage(task))
    view = make_view(id, name, task.view.creator, task.view.creator_role, size, status)
    try:
        chained = records.create(NewTask(kind, task.owner, view, spec.dump()))
    except RecordConflict:
        try:
            chained = records.get(id)
        except RecordNotFound:
            return  # opened before, and removed since
    pass_checkpoint("queue.chained")
    if not chained.done:
        dispatch.start(chained)


def is_chained(task: Task) -> bool:
    """Whether the transfer of what this run of `task` has brought is open."""
    return find_chained(task) is not None


def resume_chained(task: Task) -> bool:
    """The same; a transfer that waits is started."""
    chained = find_chained(task)
    if chained is not None and not chained.done:
        dispatch.start(chained)
    return chained is not None


def find_chained(task: Task) -> Task | None:
    """The transfer of what this run of `task` has brought; None when it was not opened, or is removed since."""
    try:
        return records.get(get_chained_id(get_stage(task)))
    except RecordNotFound:
        return None


def make_view(id: str, name: str, creator: str = "", role: int = 0, size: int = 0, status: str = "") -> TaskView:
    """A new task as lists show it; without a creator it is the service's own."""
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


def view(row: TaskRow | Task) -> TaskView:
    """What clients see of a task."""
    if row.cancel and row.view.end_time is None:
        return replace(row.view, state=State.CANCELING)
    return row.view


def list_views(
    kind: str, done: bool, caller: Caller, start: int = 0, page_size: int | None = None
) -> Iterator[TaskView]:
    """The tasks of a kind that the caller may see, from the `start`-th one; read lazily, `page_size` at a time. Those
    under way the oldest first, those that are done the last first, as long as they are kept."""
    owner, since = None if caller.is_admin else caller.user.id, time.time() - _get_retention() if done else None
    for row in task_lists.list_rows(kind, done, owner, start, page_size, since):
        yield view(row)


def get(kind: str, id: str, caller: Caller) -> Task:
    """One task; ResourceNotFound when there is none that the caller may see."""
    if len(id) != ID_LENGTH:
        raise ResourceNotFound(NOT_FOUND)
    try:
        task = records.get(id)
    except RecordNotFound:
        raise ResourceNotFound(NOT_FOUND) from None
    if not _may_see(task, kind, caller):
        raise ResourceNotFound(NOT_FOUND)
    return task


def _may_see(task: Task, kind: str, caller: Caller) -> bool:
    if task.kind != kind or task.removed or not (caller.is_admin or task.owner == caller.user.id):
        return False
    return not task.done or parse_end(task.view.end_time) > time.time() - _get_retention()


def _get_retention() -> float:
    """The seconds for which tasks that are done are shown: until the next sweep after they are kept no longer."""
    return configuration.get_sync().settings.task_retention_days * 24 * 3600 + SWEEP_SECONDS


def cancel(kind: str, id: str, caller: Caller) -> None:
    """Stop a task; one that is done stays as it is."""
    task = get(kind, id, caller)
    if not task.done:
        records.mark_cancelled(task.id)
        dispatch.expedite(task)


def retry(kind: str, id: str, caller: Caller) -> None:
    """Run a task that is done once more; one that is under way goes on."""
    task = get(kind, id, caller)
    if not task.done:
        return
    waiting = replace(task.view, state=State.WAITING_RETRY, error="", end_time=None, status="")
    try:
        again = records.reopen(task, waiting)
    except RecordConflict:  # another request retried it at the same time, or this one did and the answer was lost
        again = records.get(id)
        if again.done:
            return
    try:
        dispatch.start(again)
    except Problem:
        records.mark_done(again, task.view)
        raise


def delete(kind: str, id: str, caller: Caller) -> None:
    """Remove a task; one that is under way is cancelled first and cleans up after itself. ResourceNotFound."""
    if delete_many(kind, [id], caller):
        raise ResourceNotFound(NOT_FOUND)


def delete_many(kind: str, ids: Sequence[str], caller: Caller) -> list[str]:
    """The same for many tasks; the ids of those that there are not, or that the caller may not see."""
    missing: list[str] = []

    def delete_some(ids: Sequence[str]) -> None:
        found = task_batches.read([id for id in ids if len(id) == ID_LENGTH])
        tasks = {task.id: task for task in found if _may_see(task, kind, caller)}
        missing.extend(id for id in ids if id not in tasks)
        remove(kind, list(tasks.values()))

    _do_batches(delete_some, task_batches.split(dict.fromkeys(ids)))
    return missing


def _do_batches(work: Callable[[list[Item]], None], batches: Iterable[list[Item]]) -> None:
    """Do the work on every batch, AT_ONCE of them at a time; the first failure ends it."""
    under_way: deque[Future[None]] = deque()
    with ThreadPoolExecutor(AT_ONCE, "batches") as pool:
        for batch in batches:
            if len(under_way) == AT_ONCE:
                under_way.popleft().result()
            under_way.append(pool.submit(work, batch))
        for one in under_way:
            one.result()


def clear(kind: str, states: Collection[int], caller: Caller) -> None:
    """Remove all tasks that the caller may see, and that are done, in one of the `states`."""
    views = list_views(kind, True, caller, page_size=task_lists.MAX_ROWS_PER_QUERY)

    def clear_some(views: Sequence[TaskView]) -> None:
        task_batches.delete_done(kind, [view.id for view in views if view.state == State.SUCCEEDED])
        rest = [view.id for view in views if view.state != State.SUCCEEDED]
        if rest:
            delete_many(kind, rest, caller)

    _do_batches(clear_some, task_batches.split(view for view in views if view.state in states))


def remove(kind: str, tasks: Sequence[Task]) -> None:
    """Remove tasks of anybody; at most as many as one transaction takes."""
    succeeded = [task.id for task in tasks if task.done and task.view.state == State.SUCCEEDED]
    new = task_batches.delete_new([task for task in tasks if _is_new(task)])
    kept = [task for task in tasks if task.done and task.view.state != State.SUCCEEDED]
    task_batches.delete_done(kind, succeeded)
    for task in new:
        dispatch.forget(task)
    for task in task_batches.remove_done(kept):
        dispatch.start(task)
    deleted = {task.id for task in new}
    for task in tasks:
        if not task.done and task.id not in deleted:
            _remove(task)


def _is_new(task: Task) -> bool:
    """Whether there is nothing of a task but its record: no worker has begun, and nothing was staged for it."""
    is_touched = task.done or task.attempt or task.lease.token or get_held().has(task.id)
    return not is_touched and not KINDS[task.kind].is_staged and not task.spec.get("count")


def _remove(task: Task) -> None:
    try:
        records.mark_removed(task)
    except RecordConflict:
        return  # deleted meanwhile
    dispatch.expedite(task)
