"""Tasks: listed, cancelled, retried and removed by their owners and by administrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mangrove.identity.rights import Caller
from mangrove.problems import BadRequest, Missing, Problem
from mangrove.tasks import queue
from mangrove.tasks.kinds import KINDS, State
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import EmptyBody, UnreadableBody
from mangrove.web.dialects import Dialect, RequestDialect
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Member, Page

api = Api("tasks")


def _check_ids(given: Any) -> Any:
    if isinstance(given, EmptyBody):
        return []
    if not isinstance(given, list | UnreadableBody):
        raise BadRequest("invalid request format")
    return given


Ids = Annotated[list[str], Field(max_length=10_000), BeforeValidator(_check_ids)]
NONE: list[str] = []
Verb = Callable[[str, str, Caller], None]


def _require_kind(kind: str) -> str:
    if kind not in KINDS:
        raise Missing(f"there is no kind of tasks {kind[:40]}")
    return kind


def _list_tasks(kind: str, done: bool, who: Caller, page: Page, dialect: Dialect) -> Reply:
    rows = queue.list_views(_require_kind(kind), done, who, page.end)
    return ok([dialects.format_task(row, dialect) for row in page.iterate(rows)])


def _apply_to_each(kind: str, ids: Ids, who: Caller, verb: Verb) -> Reply:
    """Apply `verb` to every task; answers the ids that failed, with the reason."""
    checked, failed = _require_kind(kind), {}
    for id in dict.fromkeys(ids):
        try:
            verb(checked, id, who)
        except Problem as problem:
            failed[id] = problem.message
    return ok(failed)


def _apply_to_all(kind: str, who: Caller, states: set[State], verb: Verb) -> Reply:
    for row in queue.list_views(_require_kind(kind), True, who, PAGE):
        if row.state in states:
            verb(kind, row.id, who)
    return ok()


def _show_task(kind: str, tid: str, who: Caller, dialect: Dialect) -> Reply:
    view = queue.view(queue.get(_require_kind(kind), tid, who))
    return ok(dialects.format_task_info(view, dialect))


def _apply_to_one(kind: str, tid: str, who: Caller, verb: Verb) -> Reply:
    verb(_require_kind(kind), tid, who)
    return ok()


PAGE = 1000  # rows of one pass
DONE = {State.SUCCEEDED, State.CANCELED, State.FAILED}


@api.get("/api/task/{kind}/undone", data_model=list[models.TaskRow])
def undone(who: Member, kind: str, page: Page, dialect: RequestDialect) -> Reply:
    return _list_tasks(kind, False, who, page, dialect)


@api.get("/api/task/{kind}/done", data_model=list[models.TaskRow])
def done(who: Member, kind: str, page: Page, dialect: RequestDialect) -> Reply:
    return _list_tasks(kind, True, who, page, dialect)


@api.post("/api/task/{kind}/info", data_model=list[models.TaskRow] | models.TaskRow)
def info(who: Member, kind: str, dialect: RequestDialect, tid: str = "") -> Reply:
    return _show_task(kind, tid, who, dialect)


@api.post("/api/task/{kind}/cancel")
def cancel(who: Member, kind: str, tid: str = "") -> Reply:
    return _apply_to_one(kind, tid, who, queue.cancel)


@api.post("/api/task/{kind}/cancel_some", data_model=dict[str, str])
def cancel_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    return _apply_to_each(kind, ids, who, queue.cancel)


@api.post("/api/task/{kind}/delete")
def delete(who: Member, kind: str, tid: str = "") -> Reply:
    return _apply_to_one(kind, tid, who, queue.delete)


@api.post("/api/task/{kind}/delete_some", data_model=dict[str, str])
def delete_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    return _apply_to_each(kind, ids, who, queue.delete)


@api.post("/api/task/{kind}/retry")
def retry(who: Member, kind: str, tid: str = "") -> Reply:
    return _apply_to_one(kind, tid, who, queue.retry)


@api.post("/api/task/{kind}/retry_some", data_model=dict[str, str])
def retry_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    return _apply_to_each(kind, ids, who, queue.retry)


@api.post("/api/task/{kind}/clear_done")
def clear_done(who: Member, kind: str) -> Reply:
    return _apply_to_all(kind, who, DONE, queue.delete)


@api.post("/api/task/{kind}/clear_succeeded")
def clear_succeeded(who: Member, kind: str) -> Reply:
    return _apply_to_all(kind, who, {State.SUCCEEDED}, queue.delete)


@api.post("/api/task/{kind}/retry_failed")
def retry_failed(who: Member, kind: str) -> Reply:
    return _apply_to_all(kind, who, {State.FAILED}, queue.retry)


@api.get("/api/admin/task/{kind}/undone", data_model=list[models.TaskRow])
def admin_undone(who: Admin, kind: str, page: Page) -> Reply:
    return _list_tasks(kind, False, who, page, Dialect.OPENLIST)


@api.get("/api/admin/task/{kind}/done", data_model=list[models.TaskRow])
def admin_done(who: Admin, kind: str, page: Page) -> Reply:
    return _list_tasks(kind, True, who, page, Dialect.OPENLIST)


@api.post("/api/admin/task/{kind}/info", data_model=models.TaskRow)
def admin_info(who: Admin, kind: str, tid: str = "") -> Reply:
    return _show_task(kind, tid, who, Dialect.OPENLIST)


@api.post("/api/admin/task/{kind}/cancel")
def admin_cancel(who: Admin, kind: str, tid: str = "") -> Reply:
    return _apply_to_one(kind, tid, who, queue.cancel)


@api.post("/api/admin/task/{kind}/cancel_some", data_model=dict[str, str])
def admin_cancel_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    return _apply_to_each(kind, ids, who, queue.cancel)


@api.post("/api/admin/task/{kind}/delete")
def admin_delete(who: Admin, kind: str, tid: str = "") -> Reply:
    return _apply_to_one(kind, tid, who, queue.delete)


@api.post("/api/admin/task/{kind}/delete_some", data_model=dict[str, str])
def admin_delete_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    return _apply_to_each(kind, ids, who, queue.delete)


@api.post("/api/admin/task/{kind}/retry")
def admin_retry(who: Admin, kind: str, tid: str = "") -> Reply:
    return _apply_to_one(kind, tid, who, queue.retry)


@api.post("/api/admin/task/{kind}/retry_some", data_model=dict[str, str])
def admin_retry_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    return _apply_to_each(kind, ids, who, queue.retry)


@api.post("/api/admin/task/{kind}/clear_done")
def admin_clear_done(who: Admin, kind: str) -> Reply:
    return _apply_to_all(kind, who, DONE, queue.delete)


@api.post("/api/admin/task/{kind}/clear_succeeded")
def admin_clear_succeeded(who: Admin, kind: str) -> Reply:
    return _apply_to_all(kind, who, {State.SUCCEEDED}, queue.delete)


@api.post("/api/admin/task/{kind}/retry_failed")
def admin_retry_failed(who: Admin, kind: str) -> Reply:
    return _apply_to_all(kind, who, {State.FAILED}, queue.retry)


app = api.app
handler = make_lambda_handler(app)
