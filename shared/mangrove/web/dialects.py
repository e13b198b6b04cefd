"""The two dialects: where the document and existing clients differ, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mangrove.records.sshkeys import SshKey
from mangrove.records.tasks import Task, TaskView
from mangrove.records.users import User
from mangrove.tasks.kinds import State

OPENLIST = "openlist"


def fingerprint(text: str, dialect: str) -> str:
    """In full for existing clients, with its middle masked by the document."""
    return text if dialect == OPENLIST else f"{text[:12]}{'*' * max(len(text) - 16, 0)}{text[-4:]}"


def sshkey(key: SshKey, dialect: str) -> dict[str, Any]:
    """An SSH key's record."""
    return {
        "id": key.id,
        "title": key.title,
        "fingerprint": fingerprint(key.fingerprint, dialect),
        "added_time": key.added,
        "last_used_time": key.last_used,
    }


def deleted_setting(dialect: str) -> dict[str, Any] | None:
    """What setting/delete answers."""
    return None if dialect == OPENLIST else {}


def transferred(verb: Literal["Move", "Copy"], tasks: Sequence[Task], dialect: str) -> dict[str, Any] | None:
    """What a move or copy answers that was done at once, or put on the board."""
    if dialect != OPENLIST:
        return None
    if not tasks:
        return {"message": f"{verb} operations completed immediately"}
    message = f"Successfully created {len(tasks)} {verb.lower()} task(s)"
    return {"message": message, "tasks": [one.view.to_wire() for one in tasks]}


def task(view: TaskView, dialect: str) -> dict[str, Any]:
    """A task's record: its state a number for existing clients, a word by the document."""
    if dialect == OPENLIST:
        return view.to_wire()
    return view.to_wire() | {"state": State(view.state).name.lower()}


def task_info(row: dict[str, Any], dialect: str) -> dict[str, Any] | list[dict[str, Any]]:
    """What task/info answers."""
    return row if dialect == OPENLIST else [row]


def created_task(one: Task, dialect: str) -> dict[str, Any]:
    """A task in the answer of what opened it."""
    if dialect == OPENLIST:
        return one.view.to_wire()
    return {key: getattr(one.view, key) for key in ("id", "name", "state", "status", "progress", "error")}


def flattened(count: int, dialect: str) -> str:
    """The message of a recursive move; the document knows but one message of success."""
    return f"Successfully moved {count} {'file' if count == 1 else 'files'}" if dialect == OPENLIST else "success"


def user(one: User) -> dict[str, Any]:
    """A user's record, the same in both dialects; the password is never shown."""
    return {
        "id": one.id,
        "username": one.username,
        "password": "",
        "base_path": one.base_path,
        "role": one.role,
        "disabled": one.disabled,
        "permission": one.permission,
        "sso_id": one.sso_id,
        "allow_ldap": one.allow_ldap,
    }
