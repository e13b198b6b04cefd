"""The two flavours of the API, and the records of answers: every difference between the flavours is in this module."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from html import unescape
from typing import TYPE_CHECKING, Any, Literal

import orjson
from starlette.requests import Request

from mangrove.core.problems import EntryNotFound, NotAFile, NotAFolder, NotMounted, Problem
from mangrove.tree.operations.upload_problems import FileInPath, FormNotMounted

if TYPE_CHECKING:  # each function imports this module, and few of them have all of these records
    from mangrove.records.credentials import AppPassword, SshKey
    from mangrove.records.passkeys import Passkey
    from mangrove.records.tasks.model import Task, TaskView
    from mangrove.records.users import User
    from mangrove.records.webdav_locks import Lock

_TAG = re.compile(r"<[^>]*>")
MAX_INLINE_TASKS = 20  # of an answer that is encoded in the event loop
OPENLIST_PREFIX = "/openlist"  # of the paths that are answered as existing clients expect
_MISSING_PATH_MESSAGES: tuple[tuple[type[Problem], str], ...] = (
    (EntryNotFound, "there is nothing at this address"),
    (NotMounted, "no storage is mounted at this address"),
    (FormNotMounted, "no storage is mounted at this address"),
    (FileInPath, "a file stands where a folder is needed"),
    (NotAFolder, "this is not a folder"),
    (NotAFile, "this is not a file"),
)


class ApiFlavour(StrEnum):
    """`NATIVE` is the documented interface, `OPENLIST` the one that existing clients expect."""

    NATIVE = "native"
    OPENLIST = "openlist"


async def find_flavour(request: Request) -> ApiFlavour:
    """Return the flavour of a request, which the application has stored in the state."""
    flavour: ApiFlavour = request.scope.get("state", {}).get("flavour", ApiFlavour.NATIVE)
    return flavour


def format_message(problem: Problem, flavour: ApiFlavour) -> str:
    """Return the problem's message; in the native flavour its plain one, and a fixed one for a missing path.

    The own message of such a problem describes the lookup of the path, as existing clients expect it.
    """
    if flavour is ApiFlavour.OPENLIST:
        return problem.message
    return next((text for kind, text in _MISSING_PATH_MESSAGES if isinstance(problem, kind)), problem.describe())


def format_fingerprint(text: str, flavour: ApiFlavour) -> str:
    """Return a fingerprint, its middle masked except for existing clients."""
    return text if flavour is ApiFlavour.OPENLIST else f"{text[:12]}{'*' * max(len(text) - 16, 0)}{text[-4:]}"


def format_sshkey(key: SshKey, flavour: ApiFlavour) -> dict[str, Any]:
    """Return an SSH key's record."""
    return format_credential(key, fingerprint=format_fingerprint(key.fingerprint, flavour))


def format_passkey(passkey: Passkey) -> dict[str, Any]:
    """Return a passkey's record."""
    id = b64encode(urlsafe_b64decode(f"{passkey.name}{'=' * (-len(passkey.name) % 4)}")).decode()
    fingerprint = bytes.fromhex(passkey.aaguid.replace("-", "")).hex(" ").upper()
    return format_credential(passkey, fingerprint=fingerprint) | {"id": id}


def format_credential(credential: SshKey | AppPassword | Passkey, **own: str) -> dict[str, Any]:
    """Return a credential's record with fields of its `own`, without its text."""
    used = {"added_time": credential.added, "last_used_time": credential.last_used}
    return {"id": credential.id, "title": credential.title} | own | used


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


def format_setting_delete(flavour: ApiFlavour) -> dict[str, Any] | None:
    """Return the answer of setting/delete."""
    return None if flavour is ApiFlavour.OPENLIST else {}


def format_transfer(verb: Literal["Move", "Copy"], tasks: Sequence[Task], flavour: ApiFlavour) -> dict[str, Any] | None:
    """Return the answer of a move or copy: the work is done, or these tasks were created."""
    if flavour is not ApiFlavour.OPENLIST:
        return None
    if not tasks:
        return {"message": f"{verb} operations completed immediately"}
    return format_remaining(tasks, flavour)


async def encode_transfer(verb: Literal["Move", "Copy"], tasks: list[Task], flavour: ApiFlavour) -> orjson.Fragment:
    """Encode the answer of a move or copy, and empty `tasks`: of many tasks in a thread, since releasing thousands
    takes time, too."""

    def encode() -> orjson.Fragment:
        answer = orjson.dumps(format_transfer(verb, tasks, flavour))
        tasks.clear()
        return orjson.Fragment(answer)

    return await asyncio.to_thread(encode) if len(tasks) > MAX_INLINE_TASKS else encode()


def format_remaining(tasks: Sequence[Task], flavour: ApiFlavour) -> dict[str, Any] | None:
    """Return the answer of an operation that is usually done within the request: nothing, or the tasks for the rest."""
    if flavour is not ApiFlavour.OPENLIST or not tasks:
        return None
    message = f"Successfully created {len(tasks)} {tasks[0].kind} task(s)"
    return {"message": message, "tasks": [task.view.to_wire() for task in tasks]}


def format_task(view: TaskView, flavour: ApiFlavour) -> dict[str, Any]:
    """Return a task's record. For existing clients its state is a number, otherwise a word, and there are details."""
    from mangrove.tasks.core.model import State  # see above

    row = view.to_wire()
    if flavour is ApiFlavour.OPENLIST:
        return row
    return row | {"state": State(view.state).name.lower()} | view.get_details()


def format_task_info(view: TaskView, flavour: ApiFlavour) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the answer of task/info."""
    row = format_task(view, flavour)
    return row if flavour is ApiFlavour.OPENLIST else [row]


def format_created_task(task: Task, flavour: ApiFlavour) -> dict[str, Any]:
    """Return a task in the answer of the request that created it. Its progress is an integer."""
    if flavour is ApiFlavour.OPENLIST:
        return task.view.to_wire()
    fields = {key: getattr(task.view, key) for key in ("id", "name", "state", "status", "progress", "error")}
    return fields | {"progress": int(task.view.progress)}


def format_recursive_move(count: int, tasks: Sequence[Task], flavour: ApiFlavour) -> str:
    """Return the message of a recursive move."""
    if flavour is not ApiFlavour.OPENLIST:
        return "success"
    message = f"Successfully moved {count} {'file' if count == 1 else 'files'}"
    return f"{message}, tasks move the others" if tasks else message


def format_user(user: User) -> dict[str, Any]:
    """Return a user's record, always with an empty password."""
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
