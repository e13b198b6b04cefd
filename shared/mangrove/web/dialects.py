"""The two dialects: where the document and existing clients differ, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from html import unescape
from typing import Any, Literal

from starlette.requests import Request

from mangrove.core.problems import EntryNotFound, NotAFile, NotAFolder, NotMounted, Problem
from mangrove.records.accounts.app_passwords import AppPassword
from mangrove.records.accounts.sshkeys import SshKey
from mangrove.records.accounts.users import User
from mangrove.records.files.locks import Lock
from mangrove.records.tasks.model import Task, TaskView
from mangrove.tasks.core.kinds import State
from mangrove.tree.operations.uploads import FileInPath, FormNotMounted

_TAG = re.compile(r"<[^>]*>")
OPENLIST_PREFIX = "/openlist"  # of the paths that are answered in the dialect of existing clients
_SENTENCES: tuple[tuple[type[Problem], str], ...] = (  # of a path that does not exist or is of the other kind
    (EntryNotFound, "there is nothing at this address"),
    (NotMounted, "no storage is mounted at this address"),
    (FormNotMounted, "no storage is mounted at this address"),
    (FileInPath, "a file stands where a folder is needed"),
    (NotAFolder, "this is not a folder"),
    (NotAFile, "this is not a file"),
)


class Dialect(StrEnum):
    """`DOCUMENT` is the published interface, `OPENLIST` what existing clients expect."""

    DOCUMENT = "document"
    OPENLIST = "openlist"


async def find_dialect(request: Request) -> Dialect:
    """The dialect of a request, which the Front that cut the prefix off keeps in its state."""
    dialect: Dialect = request.scope.get("state", {}).get("dialect", Dialect.DOCUMENT)
    return dialect


def format_message(problem: Problem, dialect: Dialect) -> str:
    """Return the problem's message; in the document's dialect one sentence for each class of a path without its file.

    The message of such a problem says how the path was looked up, as existing clients expect it.
    """
    if dialect is Dialect.OPENLIST:
        return problem.message
    return next((text for kind, text in _SENTENCES if isinstance(problem, kind)), problem.message)


def format_fingerprint(text: str, dialect: Dialect) -> str:
    """In full for existing clients, with its middle masked by the document."""
    return text if dialect is Dialect.OPENLIST else f"{text[:12]}{'*' * max(len(text) - 16, 0)}{text[-4:]}"


def format_sshkey(key: SshKey, dialect: Dialect) -> dict[str, Any]:
    """An SSH key's record."""
    return {
        "id": key.id,
        "title": key.title,
        "fingerprint": format_fingerprint(key.fingerprint, dialect),
        "added_time": key.added,
        "last_used_time": key.last_used,
    }


def format_app_password(one: AppPassword) -> dict[str, Any]:
    """An application password's record, without what it is."""
    return {"id": one.id, "title": one.title, "added_time": one.added, "last_used_time": one.last_used}


def format_lock(lock: Lock, user: User | None) -> dict[str, Any]:
    """Return a lock of WebDAV for an administrator."""
    return {
        "token": lock.token,
        "path": lock.path,
        "username": "" if user is None else user.username,
        "owner": unescape(_TAG.sub("", lock.owner)),
        "exclusive": lock.is_exclusive,
        "deep": lock.is_deep,
        "expires": datetime.fromtimestamp(lock.expires, UTC),
    }


def format_setting_delete(dialect: Dialect) -> dict[str, Any] | None:
    """What setting/delete answers."""
    return None if dialect is Dialect.OPENLIST else {}


def format_transfer(verb: Literal["Move", "Copy"], tasks: Sequence[Task], dialect: Dialect) -> dict[str, Any] | None:
    """What a move or copy answers: it was done at once, or these tasks were opened."""
    if dialect is not Dialect.OPENLIST:
        return None
    if not tasks:
        return {"message": f"{verb} operations completed immediately"}
    return format_left(tasks, dialect)


def format_left(tasks: Sequence[Task], dialect: Dialect) -> dict[str, Any] | None:
    """What a verb answers that is usually done at once: nothing, but for the tasks that go on with what it left."""
    if dialect is not Dialect.OPENLIST or not tasks:
        return None
    message = f"Successfully created {len(tasks)} {tasks[0].kind} task(s)"
    return {"message": message, "tasks": [one.view.to_wire() for one in tasks]}


def format_task(view: TaskView, dialect: Dialect) -> dict[str, Any]:
    """A task's record: its state a number for existing clients, a word by the document."""
    row = view.to_wire()
    return row if dialect is Dialect.OPENLIST else row | {"state": State(view.state).name.lower()}


def format_task_info(view: TaskView, dialect: Dialect) -> dict[str, Any] | list[dict[str, Any]]:
    """What task/info answers."""
    row = format_task(view, dialect)
    return row if dialect is Dialect.OPENLIST else [row]


def format_created_task(task: Task, dialect: Dialect) -> dict[str, Any]:
    """A task in the answer of the request that opened it, where progress is an integer."""
    if dialect is Dialect.OPENLIST:
        return task.view.to_wire()
    shown = {key: getattr(task.view, key) for key in ("id", "name", "state", "status", "progress", "error")}
    return shown | {"progress": int(task.view.progress)}


def format_recursive_move(count: int, tasks: Sequence[Task], dialect: Dialect) -> str:
    """The message of a recursive move; the document knows but one message of success."""
    if dialect is not Dialect.OPENLIST:
        return "success"
    moved = f"Successfully moved {count} {'file' if count == 1 else 'files'}"
    return f"{moved}, tasks move the others" if tasks else moved


def format_user(user: User) -> dict[str, Any]:
    """A user's record, the same in both dialects; the password is never shown."""
    return {
        "id": user.id,
        "username": user.username,
        "password": "",
        "base_path": user.base_path,
        "role": user.role,
        "disabled": user.disabled,
        "permission": user.permission,
        "sso_id": user.sso_id,
        "allow_ldap": user.allow_ldap,
    }
