"""Tasks: list, cancel, retry and delete them, for their owners and for administrators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, FailFast, Field

from mangrove import __version__
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, Problem, ResourceNotFound
from mangrove.identity.rights import Caller
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.overview import read_overview
from mangrove.web import flavours, models
from mangrove.web.api import Api, copy_endpoint, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.flavours import ApiFlavour
from mangrove.web.framework import Depends, EmptyBody, Path, Query, UnreadableBody
from mangrove.web.gates import Admin, Member, Page, RequestFlavour
from mangrove.web.overview_models import ServiceOverview

api = Api("tasks")


MAX_TASKS_PER_PAGE = 1000
MAX_ROW_NUMBER = 1 << 53
DONE = {State.SUCCEEDED, State.CANCELED, State.FAILED}


def _check_ids(ids: Any) -> Any:
    if isinstance(ids, EmptyBody):
        return []
    if not isinstance(ids, list | UnreadableBody):
        raise BadRequest("invalid request format")
    return ids


Kind = Annotated[
    str,
    Path(
        description="Kind of tasks: `upload`, `copy`, `move`, `offline_download`, `offline_download_transfer`, "
        "`decompress`, `decompress_upload` or `compress`."
    ),
]
TaskId = Annotated[str, Query(description="Id of the task.")]


Ids = Annotated[list[str], Field(max_length=10_000), FailFast(), BeforeValidator(_check_ids)]
NO_IDS: list[str] = []
Action = Callable[[str, str, Caller], None]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Reply])


def _require_kind(kind: str) -> str:
    if kind not in KINDS or not KINDS[kind].is_listed:
        raise ResourceNotFound(f"there is no kind of tasks {kind[:40]}")
    return kind


def _list_tasks(kind: str, done: bool, who: Caller, page: Page, flavour: ApiFlavour) -> Reply:
    start = min((page.page - 1) * page.per_page, MAX_ROW_NUMBER)
    rows = queue.list_views(_require_kind(kind), done, who, start, page.per_page or None)
    return ok([flavours.format_task(row, flavour) for row in islice(rows, page.per_page or None)])


def _apply_to_each(kind: str, ids: Ids, who: Caller, action: Action) -> Reply:
    """Apply the action to each task; return the ids of the failed ones with the reasons."""
    listed_kind, failed = _require_kind(kind), {}
    for id in dict.fromkeys(ids):
        try:
            action(listed_kind, id, who)
        except Problem as problem:
            failed[id] = problem.message
    return ok(failed)


def _clear(kind: str, who: Caller, states: set[State]) -> Reply:
    queue.clear(_require_kind(kind), states, who)
    return ok()


def _apply(kind: str, tid: str, who: Caller, action: Action) -> Reply:
    action(_require_kind(kind), tid, who)
    return ok()


async def _get_openlist() -> ApiFlavour:
    return ApiFlavour.OPENLIST


AdminFlavour = Annotated[ApiFlavour, Depends(_get_openlist)]  # routes of administrators have only this flavour


def _register(method: str, data_model: Any = None, admin_data_model: Any = None) -> Callable[[Endpoint], Endpoint]:
    """Register an endpoint for members at `/api/task`, and a copy of it for administrators at `/api/admin/task`."""

    def register(endpoint: Endpoint) -> Endpoint:
        name = endpoint.__name__
        admin_endpoint = copy_endpoint(endpoint, f"admin_{name}", {"who": Admin, "flavour": AdminFlavour})
        api.route(method, f"/api/task/{{kind}}/{name}", data_model)(endpoint)
        api.route(method, f"/api/admin/task/{{kind}}/{name}", admin_data_model or data_model)(admin_endpoint)
        return endpoint

    return register


@_register("GET", list[models.TaskRow])
def undone(who: Member, kind: Kind, page: Page, flavour: RequestFlavour) -> Reply:
    """List unfinished tasks; administrators see those of all users."""
    return _list_tasks(kind, False, who, page, flavour)


@_register("GET", list[models.TaskRow])
def done(who: Member, kind: Kind, page: Page, flavour: RequestFlavour) -> Reply:
    """List finished tasks; administrators see those of all users."""
    return _list_tasks(kind, True, who, page, flavour)


@_register("POST", list[models.TaskRow] | models.TaskRow, models.TaskRow)
def info(who: Member, kind: Kind, flavour: RequestFlavour, tid: TaskId = "") -> Reply:
    """Return a task."""
    view = queue.view(queue.get(_require_kind(kind), tid, who))
    return ok(flavours.format_task_info(view, flavour))


@_register("POST")
def cancel(who: Member, kind: Kind, tid: TaskId = "") -> Reply:
    """Cancel a task."""
    return _apply(kind, tid, who, queue.cancel)


@_register("POST", dict[str, str])
def cancel_some(who: Member, kind: Kind, ids: Ids = NO_IDS) -> Reply:
    """Cancel tasks; returns the ids that could not be cancelled, with the reasons."""
    return _apply_to_each(kind, ids, who, queue.cancel)


@_register("POST")
def delete(who: Member, kind: Kind, tid: TaskId = "") -> Reply:
    """Delete a finished task from the list."""
    return _apply(kind, tid, who, queue.delete)


@_register("POST", dict[str, str])
def delete_some(who: Member, kind: Kind, ids: Ids = NO_IDS) -> Reply:
    """Delete tasks from the list; returns the ids that could not be deleted, with the reasons."""
    return ok(dict.fromkeys(queue.delete_many(_require_kind(kind), ids, who), queue.NOT_FOUND))


@_register("POST")
def retry(who: Member, kind: Kind, tid: TaskId = "") -> Reply:
    """Retry a task."""
    return _apply(kind, tid, who, queue.retry)


@_register("POST", dict[str, str])
def retry_some(who: Member, kind: Kind, ids: Ids = NO_IDS) -> Reply:
    """Retry tasks; returns the ids that could not be retried, with the reasons."""
    return _apply_to_each(kind, ids, who, queue.retry)


@_register("POST")
def clear_done(who: Member, kind: Kind) -> Reply:
    """Delete all finished tasks from the list."""
    return _clear(kind, who, DONE)


@_register("POST")
def clear_succeeded(who: Member, kind: Kind) -> Reply:
    """Delete all succeeded tasks from the list."""
    return _clear(kind, who, {State.SUCCEEDED})


@_register("POST")
def retry_failed(who: Member, kind: Kind) -> Reply:
    """Retry all failed tasks."""
    for row in queue.list_views(_require_kind(kind), True, who, page_size=MAX_TASKS_PER_PAGE):
        if row.state == State.FAILED:
            queue.retry(kind, row.id, who)
    return ok()


@api.get("/api/admin/overview", data_model=ServiceOverview)
async def overview(who: Admin) -> Reply:
    """Return the state of the service: storages, tasks, the index, the last failures, and figures of its machine."""
    state = await read_overview(with_space=True)
    machine = await asyncio.to_thread(platform().read_figures)
    storages = [asdict(storage) | {"is_up": storage.is_up} for storage in state.storages]
    return ok(
        asdict(state)
        | {"version": __version__, "storages": storages, "machine": None if machine is None else asdict(machine)}
    )


app = api.app
handler = make_lambda_handler(app)
