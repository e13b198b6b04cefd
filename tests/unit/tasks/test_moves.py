"""Removals of a move: the version that it copied and compared, and no newer one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import CopyRequest, Driver, Entry
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.rooted import OpenFolder, OpenFolders
from mangrove.tasks.core import file_copy, queue
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer import batches
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.copying import LARGE, SUCCEEDED, Side

pytestmark = pytest.mark.usefixtures("small_parts")

CHANGED_SOURCE = "1 of 1 items failed: f: the source changed while it was moved"
COPIED = "1 of 1 items failed: f: the source changed while it was copied"


def act_at(monkeypatch: pytest.MonkeyPatch, module: Any, checkpoint: str, act: Callable[[], None]) -> None:
    """Run it once, when the work reaches a checkpoint of `mangrove.core.checkpoints`."""
    left = [act]

    def pass_checkpoint(name: str) -> None:
        if name == checkpoint and left:
            left.pop()()

    monkeypatch.setattr(module, "pass_checkpoint", pass_checkpoint)


@pytest.fixture(params=["disk", "bucket"])
def source(request: pytest.FixtureRequest, task_env: TaskEnv) -> Side:
    side: Side = getattr(task_env, request.param)()
    return side


@pytest.mark.parametrize("content", [b"old", LARGE])
@pytest.mark.parametrize("overwrite", [False, True])
def test_version_put_before_removal_stays_and_fails_by_name(
    task_env: TaskEnv,
    source: Side,
    target: Side,
    content: bytes,
    overwrite: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.put("f", content)
    task = task_env.move(source.mount, target.mount, "f", overwrite=overwrite)
    act_at(monkeypatch, batches, "move.verified", lambda: source.put("f", b"newer"))
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, CHANGED_SOURCE)
    assert (source.files(), target.files()) == ({"f": b"newer"}, {"f": content} if overwrite else {})
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"f": b"newer"})


def test_a_newer_version_put_while_the_parts_are_made_one_file_stays(
    task_env: TaskEnv, source: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a CompleteMultipartUpload that takes minutes."""
    target = task_env.bucket()
    source.put("f", LARGE)
    task = task_env.move(source.mount, target.mount, "f")
    driver = task_env.driver(target.mount)
    finish = driver.finish

    async def finish_slowly(*args: Any) -> Any:
        entry = await finish(*args)
        source.put("f", LARGE + b"newer")
        return entry

    monkeypatch.setattr(driver, "finish", finish_slowly)
    task_env.run(task)
    assert task_env.view(task)[0] == State.FAILED
    assert source.files() == {"f": LARGE + b"newer"}


def test_what_is_put_at_the_target_while_a_move_gives_up_stays(
    task_env: TaskEnv, source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of the old version is withdrawn, but no file that another one has put in its place."""
    source.put("f", b"old")
    task = task_env.move(source.mount, target.mount, "f")

    def change() -> None:
        source.put("f", b"newer")
        target.put("f", b"others")

    act_at(monkeypatch, batches, "move.verified", change)
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, CHANGED_SOURCE)
    assert (source.files(), target.files()) == ({"f": b"newer"}, {"f": b"others"})


class RemovingLocal(Local):
    """Decides together with the removal whether a file is the one that was meant."""

    entries_seen: list[Entry]

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        self.entries_seen.append(entry)
        if self.changes:
            raise EntryChanged
        await self.remove(path)

    changes = False


@pytest.mark.parametrize("changes", [False, True])
def test_a_storage_that_can_decides_by_itself_what_is_removed(
    task_env: TaskEnv, changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"content")
    driver = task_env.driver(source.mount)
    driver.__class__ = RemovingLocal
    driver.entries_seen, driver.changes = [], changes
    task = task_env.move(source.mount, target.mount, "f")
    task_env.run(task)
    assert [(entry.name, entry.size) for entry in driver.entries_seen] == [("f", 7)]
    assert task_env.view(task) == ((State.FAILED, CHANGED_SOURCE) if changes else SUCCEEDED)
    assert source.files() == ({"f": b"content"} if changes else {})


class BatchingLocal(Local):
    """Refuses taken names by itself, so that many files are copied in one call; each call is noted."""

    calls: list[Sequence[CopyRequest]]

    async def can_refuse_existing(self) -> bool:
        return True

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Any:
        self.calls.append(files)
        return await super().copy_from(source, files)


def make_batching(task_env: TaskEnv, disk: Disk) -> Any:
    driver = task_env.driver(disk.mount)
    driver.__class__ = BatchingLocal
    driver.calls = []
    return driver


def test_small_files_are_moved_in_few_calls_and_durably(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.disk(), task_env.disk()
    files = {f"tree/f{number}": b"%d" % number for number in range(300)}
    for name, content in files.items():
        source.put(name, content)
    driver = make_batching(task_env, target)
    task = task_env.move(source.mount, target.mount, "tree")
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, files)
    assert sum(map(len, driver.calls)) == 300
    assert len(driver.calls) == 2
    assert all(request.durable and not request.overwrite for call in driver.calls for request in call)


def test_of_a_batch_what_changed_meanwhile_stays_and_fails_by_name(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    for name in ("tree/a", "tree/b", "tree/c"):
        source.put(name, b"old")
    driver = make_batching(task_env, target)
    task = task_env.move(source.mount, target.mount, "tree")
    copy_from = driver.copy_from

    async def copy_then_change(origin: Driver, files: Sequence[CopyRequest]) -> Any:
        results = await copy_from(origin, files)
        source.put("tree/b", b"newer")
        return results

    monkeypatch.setattr(driver, "copy_from", copy_then_change)
    task_env.run(task, lambda name, nth: target.put("tree/c", b"theirs") if name == "Move" else None)
    error = task_env.view(task)[1]
    assert error.startswith("2 of 4 items failed: ")
    assert "b: the source changed " in error  # before, while or after it was copied: a batch may be several calls
    assert "c: file exists" in error
    assert source.files() == {"tree/b": b"newer", "tree/c": b"old"}
    assert target.files() == {"tree/a": b"old", "tree/c": b"theirs"}


def test_what_changes_between_the_look_and_the_copy_is_not_copied(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("tree/b", b"old")
    make_batching(task_env, target)
    task = task_env.move(source.mount, target.mount, "tree")
    look = OpenFolders.open_target

    def look_then_change(folders: OpenFolders, path: TreePath, overwrite: bool) -> tuple[OpenFolder, str]:
        entry = look(folders, path, overwrite)
        if path.endswith("/tree/b"):  # the service stores files of its own in the same way
            source.put("tree/b", b"newer")
        return entry

    monkeypatch.setattr(OpenFolders, "open_target", look_then_change)
    task_env.run(task)
    assert "b: the source changed while it was copied" in task_env.view(task)[1]
    assert (source.files(), target.files()) == ({"tree/b": b"newer"}, {})


@pytest.mark.parametrize(("durability", "durable"), [("file", True), ("process", False)])
@pytest.mark.parametrize("verb", ["copy", "move"])
@pytest.mark.parametrize("content", [b"small", LARGE])
def test_moves_are_durable_always_and_copies_as_the_setting_says(
    task_env: TaskEnv, verb: str, durability: str, durable: bool, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_env.set(durability=durability)
    source, target = task_env.bucket(), task_env.disk()
    source.put("f", content)
    driver = task_env.driver(target.mount)
    seen: list[bool] = []
    for name in ("write_whole", "finish"):
        monkeypatch.setattr(driver, name, note_upload(getattr(driver, name), seen))
    task = getattr(task_env, verb)(source.mount, target.mount, "f")
    task_env.run(task)
    assert (task_env.view(task), seen) == (SUCCEEDED, [durable or verb == "move"])


def note_upload(method: Any, seen: list[bool]) -> Any:
    async def call(*args: Any) -> Any:
        uploads = [file.upload for file in args[0]] if isinstance(args[0], list) else [args[-1]]
        seen.extend(upload.durable for upload in uploads)
        return await method(*args)

    return call


def test_parts_of_two_versions_of_a_source_never_meet_in_one_target(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is rewritten between two parts, and between two slices."""
    source = task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    other = bytes(len(LARGE))
    act_at(monkeypatch, file_copy, "copy.part", lambda: source.put("f", other))
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, COPIED)
    assert (target.files(), target.unfinished()) == ({}, [])
    queue.retry("copy", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": other})
