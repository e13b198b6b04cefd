"""A target folder that a rule closes, and a token that is revoked, while tasks store something there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from mangrove.configuration.snapshot import known_users
from mangrove.core.problems import AccessDenied
from mangrove.drivers.base import Upload
from mangrove.identity import app_passwords
from mangrove.identity.app_passwords import NewToken
from mangrove.identity.rights import Caller, Right
from mangrove.identity.scopes import make_scope
from mangrove.records.credentials import app_passwords as token_records
from mangrove.tasks.core.model import State
from mangrove.tasks.upload import completion, multipart
from mangrove.tasks.upload.multipart import NewUpload
from mangrove.tasks.upload.sessions import Session
from mangrove.tree import access as tree_access
from tests.support import origin
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.test_decompress import FILES, pack

DENIED = (State.FAILED, "permission denied")


def close(task_env: TaskEnv, disk: Disk) -> None:
    task_env.rule(disk.mount, write_users=[9999], write_users_sub=True)


def end_with(task_env: TaskEnv, change: Callable[[], object]) -> tuple[int, str]:
    """Run the first task, make a change, and run the task that it has started. Return how that one ended."""
    task_env.run(task_env.started.pop(0))
    (chained,) = task_env.started
    change()
    task_env.run_all()
    return task_env.view(chained)


@pytest.mark.parametrize("is_chained", [False, True])
def test_archive_is_not_extracted_into_a_closed_folder(task_env: TaskEnv, is_chained: bool) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack(FILES))
    task = task_env.decompress(source.mount, target.mount, "a.zip")
    if is_chained:
        assert end_with(task_env, lambda: close(task_env, target)) == DENIED
    else:
        close(task_env, target)
        task_env.run_all()
        assert task_env.view(task) == DENIED
    assert target.files() == {}


@pytest.mark.parametrize("is_chained", [False, True])
def test_download_is_not_stored_in_a_closed_folder(task_env: TaskEnv, is_chained: bool) -> None:
    task_env.set(offline_download_allowed_hosts="127.0.0.1")
    target = task_env.disk()
    with origin.origin() as web:
        task = task_env.download(target.mount, web.at("/f", origin.file(b"f")))
        if is_chained:
            assert end_with(task_env, lambda: close(task_env, target)) == DENIED
        else:
            close(task_env, target)
            task_env.run_all()
            assert task_env.view(task) == DENIED
    assert target.files() == {}


async def read(content: bytes) -> AsyncIterator[bytes]:
    yield content


class TokenUpload:
    """An upload in two parts by a token, to a disk."""

    def __init__(self, task_env: TaskEnv, disk: Disk) -> None:
        self.task_env = task_env
        token, _ = app_passwords.add(task_env.user.id, NewToken(uuid4().hex, folder="/", protocols=["api"]))
        self.token_id = token.id
        self.caller = Caller(task_env.user, Right.WRITE, scope=make_scope(token))
        access = task_env.do(tree_access.at(self.caller, f"{disk.mount}/f"))
        new = NewUpload(Upload((1 << 20) + 1, 1.0), False, {}, "", 1 << 20)
        self.session: Session = task_env.do(multipart.begin(access, new))[0].session

    def send(self, index: int) -> None:
        content = b"x" * self.session.get_size_of(index + 1)
        self.task_env.do(multipart.write_chunk(self.caller, self.session, index, read(content), ""))

    def complete(self) -> None:
        self.task_env.do(completion.complete(self.caller, self.session, ""))


def test_rule_made_between_two_parts_refuses_the_rest(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    upload = TokenUpload(task_env, disk)
    upload.send(0)
    close(task_env, disk)
    for step in (lambda: upload.send(1), upload.complete):
        with pytest.raises(AccessDenied):
            step()
    assert (disk.files(), task_env.started) == ({}, [])


@pytest.mark.parametrize("way", ["rule", "token"])
def test_upload_in_parts_is_not_stored_after_the_right_ended(task_env: TaskEnv, way: str) -> None:
    disk = task_env.disk()
    upload = TokenUpload(task_env, disk)
    upload.send(0)
    upload.send(1)
    upload.complete()
    (task,) = task_env.started
    if way == "rule":
        close(task_env, disk)
    else:
        token_records.delete_any(upload.token_id)
        known_users().clear()
    task_env.run_all()
    message = "permission denied" if way == "rule" else "the token that requested this has expired or was removed"
    assert task_env.view(task) == (State.FAILED, message)
    assert disk.files() == {}
