"""Tasks: what is under way and what is done, cancelled, retried and removed by their owners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mangrove.identity.rights import Caller
from mangrove.problems import BadRequest, Missing, Problem
from mangrove.tasks import queue
from mangrove.tasks.kinds import KINDS, State
from mangrove.web import dialects, models
from mangrove.web.api import NOTHING, UNREADABLE, Api, lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Dialect, Member, Page

api = Api("tasks")


def _ids(given: Any) -> Any:
    if given == NOTHING:
        return []
    if given != UNREADABLE and not isinstance(given, list):
        raise BadRequest("invalid request format")
    return given


Ids = Annotated[list[str], Field(max_length=10_000), BeforeValidator(_ids)]
NONE: list[str] = []
Verb = Callable[[str, str, Caller], None]


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise Missing(f"there is no kind of tasks {kind[:40]}")
    return kind


def _rows(kind: str, done: bool, who: Caller, page: Page, dialect: str) -> Reply:
    rows = queue.list_views(_known(kind), done, who, page.end)
    return ok([dialects.task(row, dialect) for row in page.part(rows)])


def _each(kind: str, ids: Ids, who: Caller, verb: Verb) -> Reply:
    """Do it to every task; the ones that failed, with the reason."""
    known, failed = _known(kind), {}
    for id in dict.fromkeys(ids):
        try:
            verb(known, id, who)
        except Problem as problem:
            failed[id] = problem.message
    return ok(failed)


def _all(kind: str, who: Caller, states: set[State], verb: Verb) -> Reply:
    for row in queue.list_views(_known(kind), True, who, PAGE):
        if row.state in states:
            verb(kind, row.id, who)
    return ok()


def _info(kind: str, tid: str, who: Caller, dialect: str) -> Reply:
    row = dialects.task(queue.view(queue.get(_known(kind), tid, who)), dialect)
    return ok(dialects.task_info(row, dialect))


def _one(kind: str, tid: str, who: Caller, verb: Verb) -> Reply:
    verb(_known(kind), tid, who)
    return ok()


PAGE = 1000  # rows that are looked at together
DONE = {State.SUCCEEDED, State.CANCELED, State.FAILED}


@api.get("/api/task/{kind}/undone", gives=list[models.TaskRow])
def undone(who: Member, kind: str, page: Page, dialect: Dialect) -> Reply:
    return _rows(kind, False, who, page, dialect)


@api.get("/api/task/{kind}/done", gives=list[models.TaskRow])
def done(who: Member, kind: str, page: Page, dialect: Dialect) -> Reply:
    return _rows(kind, True, who, page, dialect)


@api.post("/api/task/{kind}/info", gives=list[models.TaskRow] | models.TaskRow)
def info(who: Member, kind: str, dialect: Dialect, tid: str = "") -> Reply:
    return _info(kind, tid, who, dialect)


@api.post("/api/task/{kind}/cancel")
def cancel(who: Member, kind: str, tid: str = "") -> Reply:
    return _one(kind, tid, who, queue.cancel)


@api.post("/api/task/{kind}/cancel_some", gives=dict[str, str])
def cancel_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    return _each(kind, ids, who, queue.cancel)


@api.post("/api/task/{kind}/delete")
def delete(who: Member, kind: str, tid: str = "") -> Reply:
    return _one(kind, tid, who, queue.delete)


@api.post("/api/task/{kind}/delete_some", gives=dict[str, str])
def delete_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    return _each(kind, ids, who, queue.delete)


@api.post("/api/task/{kind}/retry")
def retry(who: Member, kind: str, tid: str = "") -> Reply:
    return _one(kind, tid, who, queue.retry)


@api.post("/api/task/{kind}/retry_some", gives=dict[str, str])
def retry_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    return _each(kind, ids, who, queue.retry)


@api.post("/api/task/{kind}/clear_done")
def clear_done(who: Member, kind: str) -> Reply:
    return _all(kind, who, DONE, queue.delete)


@api.post("/api/task/{kind}/clear_succeeded")
def clear_succeeded(who: Member, kind: str) -> Reply:
    return _all(kind, who, {State.SUCCEEDED}, queue.delete)


@api.post("/api/task/{kind}/retry_failed")
def retry_failed(who: Member, kind: str) -> Reply:
    return _all(kind, who, {State.FAILED}, queue.retry)


@api.get("/api/admin/task/{kind}/undone", gives=list[models.TaskRow])
def admin_undone(who: Admin, kind: str, page: Page) -> Reply:
    return _rows(kind, False, who, page, dialects.OPENLIST)


@api.get("/api/admin/task/{kind}/done", gives=list[models.TaskRow])
def admin_done(who: Admin, kind: str, page: Page) -> Reply:
    return _rows(kind, True, who, page, dialects.OPENLIST)


@api.post("/api/admin/task/{kind}/info", gives=models.TaskRow)
def admin_info(who: Admin, kind: str, tid: str = "") -> Reply:
    return _info(kind, tid, who, dialects.OPENLIST)


@api.post("/api/admin/task/{kind}/cancel")
def admin_cancel(who: Admin, kind: str, tid: str = "") -> Reply:
    return _one(kind, tid, who, queue.cancel)


@api.post("/api/admin/task/{kind}/cancel_some", gives=dict[str, str])
def admin_cancel_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    return _each(kind, ids, who, queue.cancel)


@api.post("/api/admin/task/{kind}/delete")
def admin_delete(who: Admin, kind: str, tid: str = "") -> Reply:
    return _one(kind, tid, who, queue.delete)


@api.post("/api/admin/task/{kind}/delete_some", gives=dict[str, str])
def admin_delete_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    return _each(kind, ids, who, queue.delete)


@api.post("/api/admin/task/{kind}/retry")
def admin_retry(who: Admin, kind: str, tid: str = "") -> Reply:
    return _one(kind, tid, who, queue.retry)


@api.post("/api/admin/task/{kind}/retry_some", gives=dict[str, str])
def admin_retry_some(who: Admin, kind: str, ids: Ids = NONE) -> Reply:
    return _each(kind, ids, who, queue.retry)


@api.post("/api/admin/task/{kind}/clear_done")
def admin_clear_done(who: Admin, kind: str) -> Reply:
    return _all(kind, who, DONE, queue.delete)


@api.post("/api/admin/task/{kind}/clear_succeeded")
def admin_clear_succeeded(who: Admin, kind: str) -> Reply:
    return _all(kind, who, {State.SUCCEEDED}, queue.delete)


@api.post("/api/admin/task/{kind}/retry_failed")
def admin_retry_failed(who: Admin, kind: str) -> Reply:
    return _all(kind, who, {State.FAILED}, queue.retry)


app = api.app
handler = lambda_handler(app)
