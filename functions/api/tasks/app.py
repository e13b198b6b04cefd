"""Tasks: listed, cancelled, retried and removed by their owners and by administrators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from types import FunctionType
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, FailFast, Field

from mangrove.core.problems import BadRequest, Problem, ResourceNotFound
from mangrove.identity.rights import Caller
from mangrove.tasks.core import queue
from mangrove.tasks.core.kinds import State
from mangrove.tasks.core.registry import KINDS
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import EmptyBody, UnreadableBody
from mangrove.web.dialects import Dialect
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Depends
from mangrove.web.gates import Admin as Admin
from mangrove.web.gates import Member, Page
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
Endpoint = TypeVar("Endpoint", bound=Callable[..., Reply])


def _require_kind(kind: str) -> str:
    if kind not in KINDS or not KINDS[kind].is_listed:
        raise ResourceNotFound(f"there is no kind of tasks {kind[:40]}")
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


def _clear(kind: str, who: Caller, states: set[State]) -> Reply:
    queue.clear(_require_kind(kind), states, who)
    return ok()


def _apply_to_one(kind: str, tid: str, who: Caller, verb: Verb) -> Reply:
    verb(_require_kind(kind), tid, who)
    return ok()


PAGE = 1000  # rows of one pass
MOST_ROWS = 1 << 53  # more than any list has
DONE = {State.SUCCEEDED, State.CANCELED, State.FAILED}


async def _get_openlist() -> Dialect:
    return Dialect.OPENLIST


AdminDialect = Annotated[Dialect, Depends(_get_openlist)]  # the routes of administrators have one dialect


def _register(method: str, data_model: Any = None, admin_data_model: Any = None) -> Callable[[Endpoint], Endpoint]:
    """Register an endpoint for members at `/api/task`, and a copy of it for administrators at `/api/admin/task`."""

    def register(endpoint: Endpoint) -> Endpoint:
        name = endpoint.__name__
        admin = FunctionType(endpoint.__code__, endpoint.__globals__, f"admin_{name}", endpoint.__defaults__)
        admin.__doc__ = endpoint.__doc__
        admin.__annotations__ = endpoint.__annotations__ | {"who": "Admin"}
        if "dialect" in admin.__annotations__:
            admin.__annotations__["dialect"] = "AdminDialect"
        api.route(method, f"/api/task/{{kind}}/{name}", data_model)(endpoint)
        api.route(method, f"/api/admin/task/{{kind}}/{name}", admin_data_model or data_model)(admin)
        return endpoint

    return register


@_register("GET", list[models.TaskRow])
def undone(who: Member, kind: str, page: Page, dialect: RequestDialect) -> Reply:
    """Tasks that are under way; administrators see everybody's."""
    return _list_tasks(kind, False, who, page, dialect)


@_register("GET", list[models.TaskRow])
def done(who: Member, kind: str, page: Page, dialect: RequestDialect) -> Reply:
    """Tasks that have ended; administrators see everybody's."""
    return _list_tasks(kind, True, who, page, dialect)


@_register("POST", list[models.TaskRow] | models.TaskRow, models.TaskRow)
def info(who: Member, kind: str, dialect: RequestDialect, tid: str = "") -> Reply:
    """One task."""
    view = queue.view(queue.get(_require_kind(kind), tid, who))
    return ok(dialects.format_task_info(view, dialect))


@_register("POST")
def cancel(who: Member, kind: str, tid: str = "") -> Reply:
    """Cancel a task."""
    return _apply_to_one(kind, tid, who, queue.cancel)


@_register("POST", dict[str, str])
def cancel_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    """Cancel tasks; the answer has those that could not be, and why."""
    return _apply_to_each(kind, ids, who, queue.cancel)


@_register("POST")
def delete(who: Member, kind: str, tid: str = "") -> Reply:
    """Remove a task that has ended from the list."""
    return _apply_to_one(kind, tid, who, queue.delete)


@_register("POST", dict[str, str])
def delete_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    """Remove tasks from the list; the answer has those that could not be, and why."""
    return ok(dict.fromkeys(queue.delete_many(_require_kind(kind), ids, who), queue.NOT_FOUND))


@_register("POST")
def retry(who: Member, kind: str, tid: str = "") -> Reply:
    """Begin a task anew."""
    return _apply_to_one(kind, tid, who, queue.retry)


@_register("POST", dict[str, str])
def retry_some(who: Member, kind: str, ids: Ids = NONE) -> Reply:
    """Begin tasks anew; the answer has those that could not be, and why."""
    return _apply_to_each(kind, ids, who, queue.retry)


@_register("POST")
def clear_done(who: Member, kind: str) -> Reply:
    """Remove all tasks that have ended from the list."""
    return _clear(kind, who, DONE)


@_register("POST")
def clear_succeeded(who: Member, kind: str) -> Reply:
    """Remove all tasks that have succeeded from the list."""
    return _clear(kind, who, {State.SUCCEEDED})


@_register("POST")
def retry_failed(who: Member, kind: str) -> Reply:
    """Begin all tasks anew that have failed."""
    for row in queue.list_views(_require_kind(kind), True, who, page_size=PAGE):
        if row.state == State.FAILED:
            queue.retry(kind, row.id, who)
    return ok()


app = api.app
handler = make_lambda_handler(app)
