"""Rights and rules that change while a task is under way."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from mangrove.configuration.snapshot import known_users
from mangrove.core.problems import AccessDenied
from mangrove.identity import app_passwords
from mangrove.identity.app_passwords import NewToken
from mangrove.identity.rights import Caller, Right
from mangrove.identity.scopes import make_scope
from mangrove.records import storages
from mangrove.records.credentials import app_passwords as token_records
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tasks.core import authorization, queue
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer import batches
from mangrove.tree import access as tree_access
from mangrove.tree.operations.plans import OnConflict, TransferRequest
from tests.support.task_env import ALL_RIGHTS, Bucket, TaskEnv
from tests.unit.tasks.copying import LARGE, SUCCEEDED, Side

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.mark.parametrize(
    ("verb", "rule"), [("copy", {"write_users": [9999], "write_users_sub": True}), ("move", {"read_users": [9999]})]
)
def test_closed_target_folder_gets_nothing_and_rest_is_copied(
    task_env: TaskEnv, target: Side, verb: str, rule: dict[str, Any]
) -> None:
    source = task_env.disk()
    files = {"tree/a": b"a", "tree/closed/b": b"b", "tree/open/c": b"c"}
    for name, content in files.items():
        source.put(name, content)
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.rule(f"{target.mount}/tree/closed", **rule)
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, "1 of 6 items failed: closed/b: permission denied")
    closed = {"tree/closed/b": b"b"}
    assert target.files() == {name: content for name, content in files.items() if name not in closed}
    assert source.files() == (files if verb == "copy" else closed)


def test_hidden_name_at_target_is_not_overwritten(task_env: TaskEnv, target: Side) -> None:
    source = task_env.disk()
    for name in ("tree/a", "tree/secret", "tree/d/secret"):
        source.put(name, b"mine")
    task_env.may(ALL_RIGHTS & ~1)  # may not see what is hidden
    task = task_env.copy(source.mount, target.mount, "tree", overwrite=True)
    target.put("tree/secret", b"theirs")
    task_env.rule(f"{target.mount}/tree", hide="^secret$", h_sub=True)
    task_env.run(task)
    state, error = task_env.view(task)
    assert state == State.FAILED
    assert error == "2 of 5 items failed: secret: permission denied; d/secret: permission denied"
    assert target.files() == {"tree/a": b"mine", "tree/secret": b"theirs"}


@pytest.mark.parametrize(("verb", "large"), [("copy", True), ("move", False)])
def test_a_right_that_is_taken_within_a_slice_stops_the_next_one(
    task_env: TaskEnv, target: Side, verb: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MAX_BATCH_FILES", 1)
    monkeypatch.setattr(batches, "MAX_DIRECT_BATCH_FILES", 1)
    monkeypatch.setattr("mangrove.tasks.core.steps.Run.has_time", lambda run: False)
    source = task_env.disk()
    files = {f"tree/f{number}": LARGE if large else b"%d" % number for number in range(3)}
    for name, content in files.items():
        source.put(name, content)
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.run(
        task, lambda name, nth: task_env.may(ALL_RIGHTS, disabled=True) if (name, nth) == ("Move", 3) else None
    )
    task_env.may(disabled=False)
    assert task_env.view(task) == (State.FAILED, "the account that requested this does not exist any more")
    assert len(target.files()) == (1 if large and isinstance(target, Bucket) else 2)  # a large file is two slices there
    assert source.files() | target.files() == files
    assert target.unfinished() == []
    queue.retry(verb, task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, files)


def test_a_target_storage_that_is_gone_midway_fails_the_task(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("tree/f", b"f")
    task = task_env.copy(source.mount, target.mount, "tree")

    def before(name: str, nth: int) -> None:
        if name == "Move":
            gone = next(storage for storage in storages.all() if storage.mount_path == target.mount)
            storages.delete(gone.id)

    task_env.run(task, before)
    state, error = task_env.view(task)
    assert state == State.FAILED
    assert "storage not found" in error
    assert target.files() == {}


def test_the_caller_is_the_owner_as_the_account_is_now(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"f")
    task = task_env.copy(source.mount, target.mount, "f")
    task_env.may(Right.COPY)
    caller = task_env.do(authorization.authorize_caller(task, Right.COPY))
    assert (caller.user, caller.declared_right) == (task_env.user, Right.COPY)
    task_env.may(disabled=True)
    for gone in (task, replace(task, owner=10**9)):
        with pytest.raises(AccessDenied, match="the account that requested this does not exist any more"):
            task_env.do(authorization.authorize_caller(gone, Right.COPY))


def test_paths_outside_the_base_path_are_denied(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    task_env.may(base_path=f"{disk.mount}/home")
    caller = task_env.caller(Right.COPY)
    assert task_env.do(authorization.access_path(caller, f"{disk.mount}/home/f")).path == f"{disk.mount}/home/f"
    for path in (disk.mount, f"{disk.mount}/home2", "/"):
        with pytest.raises(AccessDenied):
            task_env.do(authorization.access_path(caller, path))


def test_a_target_is_resolved_and_its_folder_made_where_the_caller_may(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    target = task_env.do(authorization.resolve_target(task_env.caller(Right.WRITE), f"{disk.mount}/a/b", "f"))
    assert (target.storage_path.path, target.storage_path.mount.path, target.name) == ("/a/b/f", disk.mount, "f")
    task_env.do(authorization.make_target_folder(target))
    assert (disk.root / "a/b").is_dir()
    whole = task_env.do(authorization.resolve_target(task_env.caller(Right.WRITE), f"{disk.mount}/c", ""))
    assert whole.storage_path.path == "/c"
    task_env.do(authorization.make_target_folder(whole))
    assert (disk.root / "c").is_dir()
    task_env.rule(f"{disk.mount}/c", write_users=[9999], write_users_sub=True)
    with pytest.raises(AccessDenied):
        task_env.do(authorization.resolve_target(task_env.caller(Right.WRITE), f"{disk.mount}/c", "f"))


def test_an_item_below_another_mount_is_refused(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    storages.create(
        mount_path=f"{disk.mount}/tree/inner", driver="Local", modified=datetime.now(UTC),
        addition=json.dumps({"root_folder_path": str(task_env.folder)}),
    )  # fmt: skip
    target = task_env.do(authorization.resolve_target(task_env.caller(Right.COPY), disk.mount, "tree"))
    assert [target.find_refusal(item) is None for item in ("", "f", "inner/f", "other/f")] == [True, True, False, True]
    assert str(target.find_refusal("inner/f")) == "permission denied"


def copy_with_token(task_env: TaskEnv, source: str, target: str, folder: str) -> tuple[Task, int]:
    """Return the task of a copy that a token for a folder requests, and the id of the token."""
    token, _ = app_passwords.add(task_env.user.id, NewToken(uuid4().hex, folder=folder, protocols=["api"]))
    caller = Caller(task_env.user, Right.COPY, scope=make_scope(token))
    ends = (task_env.do(tree_access.at(caller, path)) for path in (source, target))
    (task,) = task_env.do(submit.transfer(TransferRequest(Right.COPY, *ends, ("tree",), OnConflict())))
    assert task.view.token == token.id
    return task, token.id


def test_task_of_a_token_ends_with_the_token(task_env: TaskEnv, target: Side) -> None:
    source = task_env.disk()
    source.put("tree/a", b"a")
    task, _ = copy_with_token(task_env, source.mount, target.mount, "/")
    task_env.run(task)
    assert task_env.view(task) == (State.SUCCEEDED, "")
    target.clear()
    task, id = copy_with_token(task_env, source.mount, target.mount, "/")
    token_records.delete_any(id)
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, "the token that requested this has expired or was removed")
    assert target.files() == {}


@pytest.mark.parametrize(
    "change", [{"folder": "/elsewhere"}, {"mode": "read"}, {"expires": 1}], ids=["folder", "mode", "expires"]
)
def test_task_of_a_token_keeps_to_the_present_scope(task_env: TaskEnv, target: Side, change: dict[str, Any]) -> None:
    source = task_env.disk()
    source.put("tree/a", b"a")
    task, id = copy_with_token(task_env, source.mount, target.mount, "/")
    token_records.change(id, **change)
    known_users().clear()  # no route changes the scope of a token
    task_env.run(task)
    assert task_env.view(task)[0] == State.FAILED
    assert target.files() == {}
