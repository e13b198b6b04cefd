"""Tasks: listed, cancelled, retried and removed by their owners and by administrators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any

from pydantic import BeforeValidator, FailFast, Field

from mangrove.core.problems import BadRequest, Missing, Problem
from mangrove.identity.rights import Caller
from mangrove.tasks.core import queue
from mangrove.tasks.core.kinds import State
from mangrove.tasks.core.registry import KINDS
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import EmptyBody, UnreadableBody
from mangrove.web.dialects import Dialect
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Member, Page
from mangrove.web.parameters import RequestDialect

api = Api("tasks")


def _check_ids(given: Any) -> Any:
    if isinstance(given, EmptyBody):
        return []
    if not isinstance(given, list | UnreadableBody):
        raise BadRequest("invalid request format")
    return given


Ids = Annotated[list[str], Field(max_length=10_000), FailFast(), BeforeValidator(_check_ids)]
NONE: list[str] = []
Verb = Callable[[str, str, Caller], None]


def _require_kind(kind: str) -> str:
    if kind not in KINDS or not KINDS[kind].is_listed:
        raise Missing(f"there is no kind of tasks {kind[:40]}")
    return kind


def _list_tasks(kind: str, done: bool, who: Caller, page: Page, dialect: Dialect) -> Reply:
    start = min((page.page - 1) * page.per_page, MOST_ROWS)
    rows = queue.list_views(_require_kind(kind), done, who, start, page.per_page or None)
    return ok([dialects.format_task(row, dialect) for row in islice(rows, page.per_page or None)])


def _apply_to_each(kind: str, ids: Ids, who: Caller, verb: Verb) -> Reply:
    """Apply `verb` to every task; answers the ids that failed, with the reason."""
    checked, failed = _require_kind(kind), {}
    for id in dict.fromkeys(ids):
        try:
            verb(checked, id, who)
        except Problem as problem:
            failed[id] = problem.message
    return ok(failed)


def _delete_some(kind: str, ids: Ids, who: Caller) -> Reply:
    return ok(dict.fromkeys(queue.delete_many(_require_kind(kind), ids, who), queue.NOT_FOUND))


def _clear(kind: str, who: Caller, states: set[State]) -> Reply:
    queue.clear(_require_kind(kind), states, who)
    return ok()


def _retry_failed(kind: str, who: Caller) -> Reply:
    for row in queue.list_views(_require_kind(kind), True, who, page_size=PAGE):
        if row.state == State.FAILED:
            queue.retry(kind, row.id, who)
    return ok()


def _show_task(kind: str, tid: str, who: Caller, dialect: Dialect) -> Reply:
    view = queue.view(queue.get(_require_kind(kind), tid, who))
    return ok(dialects.format_task_info(view, dialect))


def _apply_to_one(kind: str, tid: str, who: Caller, verb: Verb) -> Reply:
    verb(_require_kind(kind), tid, who)
    return ok()


PAGE = 1000  # rows of one pass
MOST_ROWS = 1 << 53  # more than any list has
DONE = {State.SUCCEEDED, State.CANCELED, State.FAILED}


@api.get("/api/task/{kind}/undone", data_model=list[models.TaskRow])
def undone(who: Member, kind: str, page: Page, dialect: RequestDialect) -> Reply:
    """Tasks that are under way; administrators see everybody's."""
    return _list_tasks(kind, False, who, page, dialect)


@api.get("/api/task/{kind}/done", data_model=list[models.TaskRow])
def done(who: Member, kind: str, page: Page, dialect: RequestDialect) -> Reply:
    """Tasks that have ended; administrators see everybody's."""
    return _list_tasks(kind, True, who, page, dialect)


@api.post("/api/task/{kind}/info", data_model=list[models.TaskRow] | models.TaskRow)
def info(who: Member, kind: str, dialect: RequestDialect, tid: str = "") -> Reply:
    """One task."""
    return _show_task(kind, tid, who, dialect)


@api.post("/api/task/{kind}/cancel")
def cancel(who: Member, kind: str, tid: str = "") -> Reply:
    """Cancel a task."""
    return _apply_to_one(kind, tid, who, queue.cancel)


@api.post("/api/task/{kind}/cancel_some", data_model=dict[str, str])
def cancel_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    """Cancel tasks; the answer has those that could not be, and why."""
    return _apply_to_each(kind, ids, who, queue.cancel)


@api.post("/api/task/{kind}/delete")
def delete(who: Member, kind: str, tid: str = "") -> Reply:
    """Remove a task that has ended from the list."""
    return _apply_to_one(kind, tid, who, queue.delete)


@api.post("/api/task/{kind}/delete_some", data_model=dict[str, str])
def delete_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    """Remove tasks from the list; the answer has those that could not be, and why."""
    return _delete_some(kind, ids, who)


@api.post("/api/task/{kind}/retry")
def retry(who: Member, kind: str, tid: str = "") -> Reply:
    """Begin a task anew."""
    return _apply_to_one(kind, tid, who, queue.retry)


@api.post("/api/task/{kind}/retry_some", data_model=dict[str, str])
def retry_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    """Begin tasks anew; the answer has those that could not be, and why."""
    return _apply_to_each(kind, ids, who, queue.retry)


@api.post("/api/task/{kind}/clear_done")
def clear_done(who: Member, kind: str) -> Reply:
    """Remove all tasks that have ended from the list."""
    return _clear(kind, who, DONE)


@api.post("/api/task/{kind}/clear_succeeded")
def clear_succeeded(who: Member, kind: str) -> Reply:
    """Remove all tasks that have succeeded from the list."""
    return _clear(kind, who, {State.SUCCEEDED})


@api.post("/api/task/{kind}/retry_failed")
def retry_failed(who: Member, kind: str) -> Reply:
    """Begin all tasks anew that have failed."""
    return _retry_failed(kind, who)


@api.get("/api/admin/task/{kind}/undone", data_model=list[models.TaskRow])
def admin_undone(who: Admin, kind: str, page: Page) -> Reply:
    """Tasks that are under way; administrators see everybody's."""
    return _list_tasks(kind, False, who, page, Dialect.OPENLIST)


@api.get("/api/admin/task/{kind}/done", data_model=list[models.TaskRow])
def admin_done(who: Admin, kind: str, page: Page) -> Reply:
    """Tasks that have ended; administrators see everybody's."""
    return _list_tasks(kind, True, who, page, Dialect.OPENLIST)


@api.post("/api/admin/task/{kind}/info", data_model=models.TaskRow)
def admin_info(who: Admin, kind: str, tid: str = "") -> Reply:
    """One task."""
    return _show_task(kind, tid, who, Dialect.OPENLIST)


@api.post("/api/admin/task/{kind}/cancel")
def admin_cancel(who: Admin, kind: str, tid: str = "") -> Reply:
    """Cancel a task."""
    return _apply_to_one(kind, tid, who, queue.cancel)


@api.post("/api/admin/task/{kind}/cancel_some", data_model=dict[str, str])
def admin_cancel_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    """Cancel tasks; the answer has those that could not be, and why."""
    return _apply_to_each(kind, ids, who, queue.cancel)


@api.post("/api/admin/task/{kind}/delete")
def admin_delete(who: Admin, kind: str, tid: str = "") -> Reply:
    """Remove a task that has ended from the list."""
    return _apply_to_one(kind, tid, who, queue.delete)


@api.post("/api/admin/task/{kind}/delete_some", data_model=dict[str, str])
def admin_delete_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    """Remove tasks from the list; the answer has those that could not be, and why."""
    return _delete_some(kind, ids, who)


@api.post("/api/admin/task/{kind}/retry")
def admin_retry(who: Admin, kind: str, tid: str = "") -> Reply:
    """Begin a task anew."""
    return _apply_to_one(kind, tid, who, queue.retry)


@api.post("/api/admin/task/{kind}/retry_some", data_model=dict[str, str])
def admin_retry_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    """Begin tasks anew; the answer has those that could not be, and why."""
    return _apply_to_each(kind, ids, who, queue.retry)


@api.post("/api/admin/task/{kind}/clear_done")
def admin_clear_done(who: Admin, kind: str) -> Reply:
    """Remove all tasks that have ended from the list."""
    return _clear(kind, who, DONE)


@api.post("/api/admin/task/{kind}/clear_succeeded")
def admin_clear_succeeded(who: Admin, kind: str) -> Reply:
    """Remove all tasks that have succeeded from the list."""
    return _clear(kind, who, {State.SUCCEEDED})


@api.post("/api/admin/task/{kind}/retry_failed")
def admin_retry_failed(who: Admin, kind: str) -> Reply:
    """Begin all tasks anew that have failed."""
    return _retry_failed(kind, who)


app = api.app
handler = make_lambda_handler(app)
