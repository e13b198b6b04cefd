"""The trash of a bucket without versioning: entries go into the hidden folder file by file, and come back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mangrove.core import deadlines
from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, OutOfTime, StorageProblem, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import TRASH
from mangrove.drivers.s3 import copy
from mangrove.drivers.s3.driver import S3
from mangrove.identity.rights import Right
from mangrove.records import trash
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tasks.core import leases
from mangrove.tasks.core.model import State
from mangrove.tree import access
from mangrove.tree.operations import uploads
from mangrove.tree.trash import entries, moving, repair, restoring
from mangrove.tree.trash.claims import GONE
from mangrove.tree.trash.entries import TrashItem, TrashQuery, TrashResult
from mangrove.tree.trash.moving import MoveInterrupted
from tests.support.task_env import Bucket, TaskEnv

LARGE_BYTES = 12 << 20
SUCCEEDED = (State.SUCCEEDED, "")
FILES = {f"d/{folder}/{number}": f"{folder} {number}".encode() for folder in ("a", "b/c") for number in range(6)}


@pytest.fixture
def bucket(task_env: TaskEnv) -> Bucket:
    bucket = task_env.bucket(trash_days=30)
    for key, content in FILES.items():
        bucket.put(key, content)
    return bucket


def remove(task_env: TaskEnv, bucket: Bucket, name: str = "d") -> list[Task]:
    async def submit_removal() -> list[Task]:
        return await submit.remove(await access.at(task_env.caller(Right.DELETE), bucket.mount), [name])

    return task_env.do(submit_removal())


def restore(task_env: TaskEnv, *items: TrashItem, overwrite: bool = False) -> tuple[TrashResult, Task | None]:
    return task_env.do(submit.restore(task_env.caller(Right.DELETE), [item.id for item in items], overwrite, ""))


def write(task_env: TaskEnv, bucket: Bucket, name: str, content: bytes) -> None:
    async def store() -> None:
        target = await access.at(task_env.caller(Right.WRITE), f"{bucket.mount}/{name}")
        await uploads.write(target, stream(content), Upload(len(content), time.time()), hashes={})

    task_env.do(store())


def find_items(task_env: TaskEnv) -> list[TrashItem]:
    return task_env.do(entries.list_page(TrashQuery(task_env.caller()), "", 0))[0]


def list_shown(bucket: Bucket) -> dict[str, bytes]:
    return {key: content for key, content in bucket.files().items() if not key.startswith(TRASH) and content}


def list_hidden(bucket: Bucket) -> list[bytes]:
    return sorted(content for key, content in bucket.files().items() if key.startswith(TRASH) and content)


@contextmanager
def no_time() -> Iterator[None]:
    """Give requests no time for any work."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deadlines.TimeBudget, "covers", lambda *_: False)
        yield


class Killed(BaseException):
    """The process ends here."""


def run_and_kill(task_env: TaskEnv, task: Task, checkpoint: str) -> None:
    """Run a task until it reaches a checkpoint, where its process dies. Then run it to its end."""

    def die(name: str) -> None:
        if name == checkpoint:
            raise Killed("Killed")

    with pytest.MonkeyPatch.context() as patched:
        for module in (moving, restoring):
            patched.setattr(module, "pass_checkpoint", die)
        with pytest.raises(BaseException, match="Killed"):
            task_env.run(task)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(leases, "LEASE_SECONDS", 0)
        task_env.restart_process()
        task_env.run(task)
    assert task_env.view(task) == SUCCEEDED


def test_removed_folder_is_moved_and_restored_whole(task_env: TaskEnv, bucket: Bucket) -> None:
    assert remove(task_env, bucket) == []
    assert (list_shown(bucket), list_hidden(bucket)) == ({}, sorted(FILES.values()))
    listing = task_env.do(task_env.access(bucket.mount, Right.READ).list_folder())
    assert list(listing.entries) == []
    (item,) = find_items(task_env)
    assert (item.access.path, item.entry.is_dir) == (f"{bucket.mount}/d", True)
    assert item.entry.remover == task_env.caller().user.username
    outcome, task = restore(task_env, item)
    assert (outcome.done, task) == ([(item.id, f"{bucket.mount}/d")], None)
    assert (list_shown(bucket), list_hidden(bucket)) == (FILES, [])
    assert find_items(task_env) == []
    assert trash.list_intents(10) == []


def test_removed_file_gets_a_number_if_its_name_is_taken(task_env: TaskEnv, bucket: Bucket) -> None:
    remove(task_env, bucket)
    bucket.put("a.txt", b"old")
    remove(task_env, bucket, "a.txt")
    bucket.put("a.txt", b"new")
    item = find_items(task_env)[0]
    assert restore(task_env, item)[0].done == [(item.id, f"{bucket.mount}/a (2).txt")]
    assert list_shown(bucket) == {"a.txt": b"new", "a (2).txt": b"old"}


def test_restore_that_overwrites_moves_the_other_file_into_the_trash(task_env: TaskEnv, bucket: Bucket) -> None:
    remove(task_env, bucket)
    bucket.put("d", b"a file")
    (item,) = find_items(task_env)
    restore(task_env, item, overwrite=True)
    assert list_shown(bucket) == FILES
    assert list_hidden(bucket) == [b"a file"]


def test_upload_that_overwrites_copies_the_old_file_into_the_trash(task_env: TaskEnv, bucket: Bucket) -> None:
    bucket.put("a.txt", b"old")
    write(task_env, bucket, "a.txt", b"newer")
    assert (bucket.files()["a.txt"], list_hidden(bucket)) == (b"newer", [b"old"])
    (item,) = find_items(task_env)
    assert (item.entry.kind, item.access.path.name) == (trash.TrashKind.REPLACED, "a.txt")


def test_upload_that_fails_leaves_no_copy_in_the_trash(task_env: TaskEnv, bucket: Bucket) -> None:
    bucket.put("a.txt", b"old")
    driver = task_env.driver(bucket.mount)

    async def fail_after_copy() -> None:
        async with driver.replacing(TreePath("/a.txt")) as keep:
            await keep()
            assert list_hidden(bucket) == [b"old"]
            raise Unreachable

    with pytest.raises(Unreachable):
        task_env.do(fail_after_copy())
    assert (bucket.files()["a.txt"], list_hidden(bucket)) == (b"old", [])
    assert (find_items(task_env), trash.list_intents(10)) == ([], [])


def test_long_removal_and_restore_are_tasks(task_env: TaskEnv, bucket: Bucket) -> None:
    task_env.may(Right.DELETE | Right.WRITE)
    with no_time():
        (task,) = remove(task_env, bucket)
    assert task.view.name == f"remove [{bucket.mount}](/d)"
    assert find_items(task_env) == []
    task_env.run(task)
    (item,) = find_items(task_env)
    with no_time():
        outcome, restoring_task = restore(task_env, item)
    assert (outcome.done, outcome.failed) == ([], [])
    assert restoring_task is not None and restoring_task.view.name == f"restore [{bucket.mount}](/d)"
    task_env.run(restoring_task)
    assert (task_env.view(task), task_env.view(restoring_task)) == (SUCCEEDED, SUCCEEDED)
    assert (list_shown(bucket), list_hidden(bucket), find_items(task_env)) == (FILES, [], [])


@pytest.mark.parametrize("checkpoint", ["trash.intended", "trash.moving", "trash.moved"])
def test_removal_killed_at_a_checkpoint_is_one_entry_in_the_end(
    task_env: TaskEnv, bucket: Bucket, checkpoint: str
) -> None:
    with no_time():
        (task,) = remove(task_env, bucket)
    run_and_kill(task_env, task, checkpoint)
    assert (list_shown(bucket), list_hidden(bucket)) == ({}, sorted(FILES.values()))
    (item,) = find_items(task_env)
    restore(task_env, item)
    assert list_shown(bucket) == FILES
    assert trash.list_intents(10) == []


@pytest.mark.parametrize("checkpoint", ["trash.restoring", "trash.moving", "trash.restored"])
def test_restore_killed_at_a_checkpoint_has_every_file_in_the_end(
    task_env: TaskEnv, bucket: Bucket, checkpoint: str
) -> None:
    remove(task_env, bucket)
    bucket.put("d/other", b"other")
    (item,) = find_items(task_env)
    with no_time():
        task = restore(task_env, item)[1]
    assert task is not None
    run_and_kill(task_env, task, checkpoint)
    restored = {key.replace("d/", "d (2)/", 1): content for key, content in FILES.items()}
    assert list_shown(bucket) == restored | {"d/other": b"other"}
    assert (list_hidden(bucket), find_items(task_env), trash.list_intents(10)) == ([], [], [])


def test_removal_that_is_abandoned_shows_what_is_in_the_trash(
    task_env: TaskEnv, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "FILES_PER_CHECK", 2)
    checks = [None, None, None]  # the first is that of the request

    def end() -> None:
        if not checks:
            raise OutOfTime
        checks.pop()

    with monkeypatch.context() as patched:
        patched.setattr(moving.deadlines, "check", end)
        assert len(remove(task_env, bucket)) == 1
    assert len(list_hidden(bucket)) == 4
    monkeypatch.setattr(repair, "ABANDONED_SECONDS", -1.0)
    task_env.do(repair.sweep())
    (item,) = find_items(task_env)
    assert len(list_shown(bucket)) == len(FILES) - 4
    remove(task_env, bucket)
    assert {other.id for other in find_items(task_env)} > {item.id}
    assert len(list_hidden(bucket)) == len(FILES)


@contextmanager
def target_folders_removed(*names: str) -> Iterator[None]:
    """Answer moves of files with these names as a drive whose target folder is removed meanwhile."""
    move = S3.move

    async def move_unless_removed(driver: S3, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path.name in names:
            raise EntryNotFound
        await move(driver, path, target, overwrite=overwrite)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(S3, "move", move_unless_removed)
        yield


@pytest.mark.parametrize(("name", "moved"), [("a.txt", "a.txt"), ("d", "3")])
def test_restore_whose_target_folder_is_removed_can_be_repeated(
    task_env: TaskEnv, bucket: Bucket, name: str, moved: str
) -> None:
    bucket.put("a.txt", b"content")
    before = list_shown(bucket)
    remove(task_env, bucket, name)
    (item,) = find_items(task_env)
    with target_folders_removed(moved):
        outcome, task = restore(task_env, item)
    assert (outcome.done, task, [id for id, _ in outcome.failed]) == ([], None, [item.id])
    assert isinstance(outcome.failed[0][1], MoveInterrupted)
    (remaining,) = find_items(task_env)
    assert restore(task_env, remaining)[0].done == [(item.id, f"{bucket.mount}/{name}")]
    assert (list_shown(bucket), list_hidden(bucket), find_items(task_env)) == (before, [], [])


def test_restore_of_content_that_is_gone_forgets_the_entry(task_env: TaskEnv, bucket: Bucket) -> None:
    remove(task_env, bucket)
    (item,) = find_items(task_env)
    bucket.clear()
    assert [str(problem) for _, problem in restore(task_env, item)[0].failed] == [GONE]
    assert (find_items(task_env), trash.list_intents(10)) == ([], [])


def test_removal_whose_trash_folder_is_removed_fails_and_can_be_repeated(task_env: TaskEnv, bucket: Bucket) -> None:
    bucket.put("a.txt", b"content")
    with target_folders_removed("a.txt"), pytest.raises(StorageProblem, match="changed by another request"):
        remove(task_env, bucket, "a.txt")
    assert list_shown(bucket)["a.txt"] == b"content"
    remove(task_env, bucket, "a.txt")
    assert (list_hidden(bucket), len(find_items(task_env))) == ([b"content"], 1)


def test_file_that_is_too_large_for_one_copy_is_moved_by_a_task(
    task_env: TaskEnv, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(LARGE_BYTES)
    bucket.put("d/large", large)
    monkeypatch.setattr(copy, "MAX_COPY_BYTES", LARGE_BYTES - 1)
    (task,) = remove(task_env, bucket)
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert (list_shown(bucket), list_hidden(bucket)) == ({}, sorted([*FILES.values(), large]))
    (item,) = find_items(task_env)
    restoring_task = restore(task_env, item)[1]
    assert restoring_task is not None
    task_env.run(restoring_task)
    assert task_env.view(restoring_task) == SUCCEEDED
    assert (list_shown(bucket), list_hidden(bucket)) == (FILES | {"d/large": large}, [])
    assert bucket.unfinished() == []


def test_deleted_and_expired_entries_are_gone_from_the_bucket(
    task_env: TaskEnv, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("a.txt", b"old")
    remove(task_env, bucket, "a.txt")
    (item,) = find_items(task_env)
    task_env.do(entries.delete(task_env.caller(Right.DELETE), [item.id], ""))
    assert list_hidden(bucket) == []
    remove(task_env, bucket)
    monkeypatch.setattr(repair, "DAY_SECONDS", -1)
    task_env.do(repair.sweep())
    assert (list_hidden(bucket), find_items(task_env)) == ([], [])


def test_folder_with_more_subfolders_than_a_pass_takes_is_moved(
    task_env: TaskEnv, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MAX_SUBFOLDERS_PER_PASS", 2)
    for number in range(5):
        bucket.put(f"d/{number}/deep/x", b"x")
    remove(task_env, bucket)
    assert list_shown(bucket) == {}
    assert len(list_hidden(bucket)) == len(FILES) + 5
