"""Requests that become tasks, and those that are refused before anything is done."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import pytest

from mangrove.core.problems import AccessDenied, BadRequest, EntryNotFound, Problem, StorageProblem
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.records import storages, users
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks.model import Task
from mangrove.records.users import User
from mangrove.tasks import submit
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.decompress.declaration import DecompressSpec
from mangrove.tasks.download.declaration import DownloadSpec
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.operations.plans import TransferRequest
from tests.support.platforms import use_dispatcher
from tests.support.task_env import ALL_RIGHTS, WAIT_SECONDS, RecordingDispatcher, TaskEnv


async def send(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


def upload(task_env: TaskEnv, path: str, *blocks: bytes, **hashes: str) -> Task:
    sent = Upload(sum(map(len, blocks)), 1.0)
    access = task_env.access(path, Right.WRITE)
    return task_env.do(submit.upload(access, send(*blocks), sent, True, hashes))


def test_too_many_names_are_refused_before_anything_is_done(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f0", b"f")
    names = [f"f{number}" for number in range(submit.MAX_TASKS_PER_REQUEST + 1)]
    for verb in ("copy", "move"):
        with pytest.raises(BadRequest, match="10001 names in one request, at most 10000 are taken"):
            task_env.transfer(verb, source.mount, target.mount, *names)
    assert (task_env.started, target.files(), source.files()) == ([], {}, {"f0": b"f"})
    assert list(task_lists.list_rows("copy", False)) == []


@pytest.mark.parametrize(
    ("conflict", "overwrite", "keep_existing", "word"),
    [
        ({}, False, False, "copy"),
        ({"overwrite": True}, True, False, "copy"),
        ({"skip": True}, False, True, "copy"),
        ({"merge": True}, False, True, "merge"),
    ],
)
def test_a_copy_between_storages_is_a_task_that_says_all(
    task_env: TaskEnv, conflict: dict[str, bool], overwrite: bool, keep_existing: bool, word: str
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("d/f", b"f")
    task = task_env.copy(f"{source.mount}/d", target.mount, "f", **conflict)
    assert task.view.name == f"{word} [{source.mount}](/d/f) to [{target.mount}](/)"
    assert TransferSpec.load(task.spec) == TransferSpec(
        source=f"{source.mount}/d/f", target_dir=target.mount, name="f", overwrite=overwrite,
        keep_existing=keep_existing,
    )  # fmt: skip
    assert (task.kind, task.owner, task.view.total_bytes) == ("copy", task_env.user.id, 0)


def test_within_one_storage_nothing_is_left_for_a_task(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    disk.put("a/f", b"f")
    disk.put("b/g", b"g")
    assert task_env.transfer("move", f"{disk.mount}/a", f"{disk.mount}/b", "f") == []
    assert disk.files() == {"b/f": b"f", "b/g": b"g"}


def test_an_upload_is_staged_then_stored(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    task = upload(task_env, f"{disk.mount}/d/f.txt", b"con", b"tent")
    assert (task.view.name, task.view.status, task.view.total_bytes) == (
        f"upload f.txt to [{disk.mount}](/d)", "uploading", 7,
    )  # fmt: skip
    assert TransferSpec.load(task.spec).source == f"/{task.id}/body"
    assert (disk.files(), task_env.list_staged()) == ({}, [task.id])
    task_env.run_all()
    assert (disk.files(), task_env.list_staged()) == ({"d/f.txt": b"content"}, [])
    assert task_env.view(task) == (State.SUCCEEDED, "")


def test_an_upload_whose_bytes_do_not_fit_leaves_nothing(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    with pytest.raises(BadRequest, match="do not match X-File-Md5"):
        upload(task_env, f"{disk.mount}/f", b"content", md5="0" * 32)
    assert (task_env.started, task_env.list_staged()) == ([], [])


def test_an_upload_whose_machine_cannot_be_started_leaves_nothing(task_env: TaskEnv) -> None:
    class Refusing(RecordingDispatcher):
        def start(self, task: Task, suffix: str = "") -> None:
            raise Problem("the task cannot be started")

    disk = task_env.disk()
    use_dispatcher(Refusing())
    with pytest.raises(Problem, match="the task cannot be started"):
        upload(task_env, f"{disk.mount}/f", b"content")
    assert (task_env.list_staged(), list(task_lists.list_rows("upload", False))) == ([], [])


@pytest.mark.parametrize("policy", ["", "delete_always", "upload_download_stream", "other"])
def test_a_download_is_a_task_for_each_address(task_env: TaskEnv, policy: str) -> None:
    disk = task_env.disk()
    access = task_env.access(disk.mount, Right.OFFLINE_DOWNLOAD)
    urls = ["https://example.com/a", " ", " https://example.com/b "]
    tasks = task_env.do(submit.download(access, urls, "SimpleHttp", policy))
    policy = policy if "_" in policy else "delete_never"
    assert [DownloadSpec.load(task.spec) for task in tasks] == [
        DownloadSpec(url=url, tool="SimpleHttp", delete_policy=policy, target_dir=disk.mount)
        for url in ("https://example.com/a", "https://example.com/b")
    ]
    assert tasks[0].view.name == f"download https://example.com/a to ({disk.mount})"


def test_a_download_without_the_right_is_refused(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    access = task_env.access(disk.mount, Right.OFFLINE_DOWNLOAD)
    task_env.may(ALL_RIGHTS & ~Right.OFFLINE_DOWNLOAD)
    access = task_env.access(disk.mount, Right.OFFLINE_DOWNLOAD)
    with pytest.raises(AccessDenied):
        task_env.do(submit.download(access, ["https://example.com/a"], "SimpleHttp", ""))
    assert task_env.started == []


def test_a_storage_of_addresses_stores_them_without_a_task(task_env: TaskEnv) -> None:
    mount = task_env.mount("UrlTree", {"url_structure": "a:https://example.com/a", "writable": True})
    access = task_env.access(f"{mount}/new", Right.OFFLINE_DOWNLOAD)
    assert task_env.do(submit.download(access, ["https://example.com/dir/b.txt"], "SimpleHttp", "")) == []
    (storage,) = [storage_found for storage_found in storages.all() if storage_found.mount_path == mount]
    lines = [line.strip() for line in json.loads(storage.addition)["url_structure"].splitlines()]
    assert lines == ["https://example.com/a", "new:", "https://example.com/dir/b.txt"]


def test_an_archive_is_a_task_that_hides_its_password(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.tar.gz", b"x")
    task = task_env.decompress(
        source.mount, target.mount, "a.tar.gz", password="secret", inner="/in", into_new_dir=True, cache_full=True
    )
    where = f"decompress [{source.mount}](/a.tar.gz)[/in] to [{target.mount}](/)"
    assert task.view.name == f"{where} with password <***>"
    assert DecompressSpec.load(task.spec) == DecompressSpec(
        source=f"{source.mount}/a.tar.gz", password="", archive_password="secret", inner="/in", cache_full=True,
        target_dir=target.mount, name="a", overwrite=False,
    )  # fmt: skip


def test_what_cannot_be_extracted_to_is_refused_at_once(task_env: TaskEnv) -> None:
    source = task_env.disk()
    source.put("a.zip", b"x")
    tree = task_env.mount("UrlTree", {"url_structure": "a:https://example.com/a"})
    with pytest.raises(StorageProblem, match="upload not supported"):
        task_env.decompress(source.mount, tree, "a.zip")
    with pytest.raises(EntryNotFound):
        task_env.decompress(source.mount, source.mount, "none.zip")
    assert task_env.started == []


def test_requests_of_an_owner_open_tasks_in_turn_and_others_do_not_wait(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"f")
    enqueue_many = queue.enqueue_many
    is_open, may_go_on, opened = threading.Event(), threading.Event(), list[int]()

    def hold_owner(kind: str, user: User, requests: Sequence[TaskRequest], token: int) -> list[Task]:
        opened.append(user.id)
        if user.id == owner.id:
            is_open.set()
            assert may_go_on.wait(WAIT_SECONDS)
        return enqueue_many(kind, user, requests, token)

    monkeypatch.setattr(queue, "enqueue_many", hold_owner)
    owner = task_env.user
    ends = task_env.access(source.mount, Right.COPY), task_env.access(target.mount, Right.COPY)
    requests = [
        asyncio.run_coroutine_threadsafe(submit.transfer(TransferRequest(Right.COPY, *ends, ["f"])), task_env.loop)
        for _ in range(40)
    ]
    assert is_open.wait(WAIT_SECONDS)
    while not opened:
        time.sleep(0.01)
    other = users.create(username=uuid4().hex, password_hash="x", role=0, permission=ALL_RIGHTS)
    task_env.user = other
    task_env.copy(source.mount, target.mount, "f")
    assert (opened.count(owner.id), opened.count(other.id)) == (1, 1)
    may_go_on.set()
    assert [len(request.result(WAIT_SECONDS)) for request in requests] == [1] * 40
