"""The queue of tasks: creation, and the operations of owners and administrators."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeVar

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordNotFound, ResourceNotFound
from mangrove.core.telemetry import get_request_id, use_request_id
from mangrove.identity.rights import Caller
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import batches as task_batches
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks import runs
from mangrove.records.tasks.lists import ListedTask
from mangrove.records.tasks.model import NewTask, Task, TaskView
from mangrove.records.tasks.ordering import parse_end
from mangrove.records.users import User
from mangrove.tasks.core.leases import get_held
from mangrove.tasks.core.model import Spec, State
from mangrove.tasks.core.registry import KINDS

NOT_FOUND = "task not found"
SWEEP_INTERVAL_SECONDS = 3600
BATCH_CONCURRENCY = 2  # transactions: one is prepared while the other is written
ID_LENGTH = 21
Item = TypeVar("Item")


def make_id() -> str:
    """Return an id for a new task."""
    return secrets.token_urlsafe(ID_LENGTH)[:ID_LENGTH]


def get_stage(task: Task) -> str:
    """Return the name in staging of the result of this run of a task, for the next task."""
    return f"{task.id}.{task.attempt}"


def get_chained_id(stage: str) -> str:
    """Return the id of the task that continues with the files under the name `stage`."""
    return base64.urlsafe_b64encode(hashlib.sha256(stage.encode()).digest()).decode()[:ID_LENGTH]


class TaskRequest(NamedTuple):
    """A task to be enqueued."""

    name: str
    spec: Spec
    size: int = 0
    """Bytes; 0 if unknown."""
    status: str = ""
    id: str = ""


def enqueue(kind: str, user: User, request: TaskRequest, token: int = 0) -> Task:
    """Store a new task and start it. `token`: the id of the token of the user that requests it."""
    (task,) = enqueue_many(kind, user, [request], token)
    return task


def enqueue_many(kind: str, user: User, requests: Sequence[TaskRequest], token: int = 0) -> list[Task]:
    """Store new tasks and start them, in their order; `token` as in `enqueue`.

    If a task cannot be stored or started, those that were started stay, and the others are deleted.
    """
    if len(requests) == 1:
        return [_enqueue_one(kind, user, requests[0], token)]  # without threads for it
    started: list[Task] = []
    with ThreadPoolExecutor(BATCH_CONCURRENCY, "enqueue") as pool:
        batches = [
            pool.submit(copy_context().run, _create, kind, user, batch, token) for batch in task_batches.split(requests)
        ]
        try:
            for batch in batches:
                tasks = batch.result()
                pass_checkpoint("queue.opened")
                for task in tasks:
                    platform().dispatcher.start(task)
                    started.append(task)
        except BaseException:
            for batch in batches:
                batch.cancel()
            _delete_unstarted(batches, {task.id for task in started})
            raise
    return started


def _enqueue_one(kind: str, user: User, request: TaskRequest, token: int) -> Task:
    (task,) = _create(kind, user, [request], token)
    try:
        pass_checkpoint("queue.opened")
        platform().dispatcher.start(task)
    except BaseException:
        task_batches.delete_new([task])
        raise
    return task


def _delete_unstarted(batches: Sequence[Future[list[Task]]], started_ids: Container[str]) -> None:
    for batch in batches:
        if batch.cancelled() or batch.exception() is not None:
            continue
        task_batches.delete_new([task for task in batch.result() if task.id not in started_ids])


def _create(kind: str, user: User, requests: Sequence[TaskRequest], token: int) -> list[Task]:
    new = [
        NewTask(
            kind,
            user.id,
            make_view(
                request.id or make_id(), request.name, user.username, user.role, request.size, request.status, token
            ),
            request.spec.dump(),
        )
        for request in requests
    ]
    return [records.create(new[0])] if len(new) == 1 else task_batches.create(new)


def chain(kind: str, task: Task, stage: str, name: str, spec: Spec, size: int) -> None:
    """Enqueue the transfer of a result of `task`, which is staged under `stage`: once, however often it is called."""
    id = get_chained_id(stage)
    with use_request_id(task.view.request_id):
        view = make_view(id, name, task.view.creator, task.view.creator_role, size, token=task.view.token)
    try:
        chained = records.create(NewTask(kind, task.owner, view, spec.dump()))
    except RecordConflict:
        try:
            chained = records.get(id)
        except RecordNotFound:
            return  # enqueued before, and removed since
    pass_checkpoint("queue.chained")
    if not chained.done:
        platform().dispatcher.start(chained)


def resume_chained(stage: str) -> bool:
    """True if the transfer of the result under the name `stage` exists; start it if it waits."""
    chained = find_chained(stage)
    if chained is not None and not chained.done:
        platform().dispatcher.start(chained)
    return chained is not None


def find_chained(stage: str) -> Task | None:
    """Return the transfer of the result under the name `stage`; None before it is enqueued, or after its removal."""
    try:
        return records.get(get_chained_id(stage))
    except RecordNotFound:
        return None


def make_view(
    id: str, name: str, creator: str = "", role: int = 0, size: int = 0, status: str = "", token: int = 0
) -> TaskView:
    """Return a new task as lists show it. Internal tasks have no creator."""
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
        token=token,
        request_id=get_request_id(),
    )


def view(row: ListedTask | Task) -> TaskView:
    """Return what clients see of a task."""
    if row.cancel and row.view.end_time is None:
        return replace(row.view, state=State.CANCELING)
    return row.view


def list_views(
    kind: str, done: bool, caller: Caller, start: int = 0, page_size: int | None = None
) -> Iterator[TaskView]:
    """Yield the tasks of a kind that the caller may see, from row `start` on; `page_size` rows are read at a time.

    Unfinished tasks are in the order of their creation, finished ones in the reverse order of their end. A caller with
    a token sees the tasks of that token.
    """
    owner, since = None if caller.is_admin else caller.user.id, time.time() - _get_retention() if done else None
    if caller.is_admin or not caller.token_id:
        rows = task_lists.list_rows(kind, done, owner, start, page_size, since)
    else:
        own = (row for row in task_lists.list_rows(kind, done, owner, since=since) if _is_requested_by(row, caller))
        rows = islice(own, start, None)
    for row in rows:
        yield view(row)


def get(kind: str, id: str, caller: Caller) -> Task:
    """Return a task. Raise ResourceNotFound if there is none that the caller may see."""
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
    if task.kind != kind or task.removed or not (caller.is_admin or _is_requested_by(task, caller)):
        return False
    return not task.done or parse_end(task.view.end_time) > time.time() - _get_retention()


def _is_requested_by(row: ListedTask | Task, caller: Caller) -> bool:
    return row.owner == caller.user.id and caller.token_id in (0, row.view.token)


def _get_retention() -> float:
    """Return the seconds for which finished tasks are shown. The next sweep after that deletes them."""
    return configuration.get_sync().settings.task_retention_days * 24 * 3600 + SWEEP_INTERVAL_SECONDS


def cancel(kind: str, id: str, caller: Caller) -> None:
    """Stop a task; a finished task stays as it is."""
    task = get(kind, id, caller)
    if not task.done:
        runs.mark_cancelled(task.id)
        platform().dispatcher.expedite(task)


def retry(kind: str, id: str, caller: Caller) -> None:
    """Run a finished task again; an unfinished one continues."""
    task = get(kind, id, caller)
    if not task.done:
        return
    waiting = replace(task.view, state=State.WAITING_RETRY, error="", end_time=None, status="")
    try:
        reopened = runs.reopen(task, waiting)
    except RecordConflict:  # another request retried it at the same time, or the answer to this write was lost
        reopened = records.get(id)
        if reopened.done:
            return
    try:
        platform().dispatcher.start(reopened)
    except Problem:
        runs.mark_done(reopened, task.view)
        raise


def delete(kind: str, id: str, caller: Caller) -> None:
    """Remove a task; an unfinished one is cancelled and cleans up first. Raise ResourceNotFound if there is none."""
    if delete_many(kind, [id], caller):
        raise ResourceNotFound(NOT_FOUND)


def delete_many(kind: str, ids: Sequence[str], caller: Caller) -> list[str]:
    """Remove tasks as `delete` does. Return the ids that belong to no task of the caller."""
    missing: list[str] = []

    def delete_batch(ids: Sequence[str]) -> None:
        read = task_batches.read([id for id in ids if len(id) == ID_LENGTH])
        tasks = {task.id: task for task in read if _may_see(task, kind, caller)}
        missing.extend(id for id in ids if id not in tasks)
        remove(kind, list(tasks.values()))

    _do_batches(delete_batch, task_batches.split(dict.fromkeys(ids)))
    return missing


def _do_batches(work: Callable[[list[Item]], None], batches: Iterable[list[Item]]) -> None:
    """Call `work` with every batch, BATCH_CONCURRENCY at a time. The first failure ends it."""
    running: deque[Future[None]] = deque()
    with ThreadPoolExecutor(BATCH_CONCURRENCY, "batches") as pool:
        for batch in batches:
            if len(running) == BATCH_CONCURRENCY:
                running.popleft().result()
            running.append(pool.submit(work, batch))
        for future in running:
            future.result()


def clear(kind: str, states: Collection[int], caller: Caller) -> None:
    """Remove all finished tasks in one of the `states` that are visible to the caller."""
    views = list_views(kind, True, caller, page_size=task_lists.MAX_ROWS_PER_QUERY)

    def clear_batch(views: Sequence[TaskView]) -> None:
        task_batches.delete_done(kind, [view.id for view in views if view.state == State.SUCCEEDED])
        rest = [view.id for view in views if view.state != State.SUCCEEDED]
        if rest:
            delete_many(kind, rest, caller)

    _do_batches(clear_batch, task_batches.split(view for view in views if view.state in states))


def remove(kind: str, tasks: Sequence[Task]) -> None:
    """Remove tasks of any owner; at most as many as a transaction supports."""
    succeeded = [task.id for task in tasks if task.done and task.view.state == State.SUCCEEDED]
    deleted = task_batches.delete_new([task for task in tasks if _is_new(task)])
    unsuccessful = [task for task in tasks if task.done and task.view.state != State.SUCCEEDED]
    task_batches.delete_done(kind, succeeded)
    for task in deleted:
        platform().dispatcher.forget(task)
    for task in task_batches.remove_done(unsuccessful):
        platform().dispatcher.start(task)
    deleted_ids = {task.id for task in deleted}
    for task in tasks:
        if not task.done and task.id not in deleted_ids:
            _remove(task)


def _is_new(task: Task) -> bool:
    """True if a task is only its record: no worker has started, and nothing was staged for it."""
    is_touched = task.done or task.attempt or task.lease.token or get_held().has(task.id)
    return not is_touched and not KINDS[task.kind].is_staged and not task.spec.get("count")


def _remove(task: Task) -> None:
    try:
        runs.mark_removed(task)
    except RecordConflict:
        return  # deleted meanwhile
    platform().dispatcher.expedite(task)
