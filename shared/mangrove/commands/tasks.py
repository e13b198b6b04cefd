"""`task`: tasks of the caller; an administrator has those of all users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mangrove.client import Client, ClientError
from mangrove.client.client import SUCCEEDED, name_state
from mangrove.client.models import TaskRow
from mangrove.client.operations import TASK_KINDS
from mangrove.commands.context import Context
from mangrove.commands.output import Status, make_notify

ADMINISTRATOR = 2


def list_tasks(context: Context) -> int:
    """Print tasks: those that are not finished, and with `--done` the finished ones, too."""
    client, options = context.client, context.options
    prefix = _choose_prefix(client)
    rows: list[dict[str, Any]] = []
    for kind in options.kind or TASK_KINDS:
        for name in ("undone", "done") if options.done else ("undone",):
            list_rows: Callable[[str], list[TaskRow]] = getattr(client, f"{prefix}_{name}")
            tasks = map(name_state, list_rows(kind) or ())
            rows += ({**task, "kind": kind, "progress": round(task["progress"])} for task in tasks)
    context.output.print_rows(rows, ("id", "kind", "state", "progress", "name", "error"))
    return Status.DONE


def _choose_prefix(client: Client) -> str:
    """Return the first part of the names of operations: those of the administrator, if the token may use them."""
    if client.me()["role"] == ADMINISTRATOR:
        try:
            client.admin_task_undone(TASK_KINDS[0], page="1", per_page="1")
            return "admin_task"
        except ClientError as error:
            if not error.is_denied:
                raise
    return "task"


def _find_kind(client: Client, prefix: str, task: str) -> tuple[str, TaskRow]:
    """Return the kind and the record of a task."""
    for kind in TASK_KINDS:
        try:
            return kind, _read(client, prefix, kind, task)
        except ClientError as error:
            if not error.is_missing and error.code not in (400, 404, 500):
                raise
    raise ClientError(f"there is no task {task}", problem="NotFound")


def _read(client: Client, prefix: str, kind: str, task: str) -> TaskRow:
    rows = getattr(client, f"{prefix}_info")(kind, tid=task)
    row: TaskRow = rows[0] if isinstance(rows, list) else rows
    return row


def cancel_tasks(context: Context) -> int:
    """Cancel tasks."""
    return _change(context, "cancel")


def retry_tasks(context: Context) -> int:
    """Retry failed tasks."""
    return _change(context, "retry")


def _change(context: Context, verb: str) -> int:
    client = context.client
    prefix = _choose_prefix(client)
    for task, kind in list(_iter_kinds(context, prefix)):
        getattr(client, f"{prefix}_{verb}")(kind, tid=task)
    context.output.print_result("done", tasks=context.options.ids)
    return Status.DONE


def _iter_kinds(context: Context, prefix: str) -> Iterator[tuple[str, str]]:
    for task in context.options.ids:
        yield task, _find_kind(context.client, prefix, task)[0]


def wait_for_tasks(context: Context) -> int:
    """Wait for tasks and print how they ended."""
    prefix = _choose_prefix(context.client)
    rows = [_wait(context, prefix, kind, task) for task, kind in list(_iter_kinds(context, prefix))]
    context.output.print_rows(rows, ("id", "state", "name", "error"))
    return Status.DONE if all(row["state"] == SUCCEEDED for row in rows) else Status.FAILED


def _wait(context: Context, prefix: str, kind: str, task: str) -> TaskRow:
    with context.output.open_bar(f"{kind} {task}", 100, "%") as bar:
        notify = make_notify(bar)
        return context.client.wait_for_end(lambda: _read(context.client, prefix, kind, task), notify=notify)
