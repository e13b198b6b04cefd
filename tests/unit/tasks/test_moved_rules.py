"""Rules that are made while a task moves what they protect: it stays at the source unless its new path has a rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mangrove.core import deadlines
from mangrove.identity.rights import Right
from mangrove.records import metas
from mangrove.tasks import enqueue, submit
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer import batches
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import LARGE, SUCCEEDED, Side

pytestmark = pytest.mark.usefixtures("small_parts")

LEFT_BEHIND = "a rule protects it and would stay behind: only an administrator can prepare its new path"
TREE = {"tree/a": b"a", "tree/closed/b": b"b", "tree/closed/deep/c": b"c"}


def fill(side: Side, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        side.put(name, content)


def act_at(monkeypatch: pytest.MonkeyPatch, checkpoint: str, nth: int, act: Callable[[], None]) -> None:
    """Run it when the work of batches reaches a checkpoint for the nth time, counted from 1."""
    reached = [0]

    def pass_checkpoint(name: str) -> None:
        reached[0] += name == checkpoint
        if name == checkpoint and reached[0] == nth:
            act()

    monkeypatch.setattr(batches, "pass_checkpoint", pass_checkpoint)


@pytest.fixture
def single_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy each file in a batch of its own."""
    monkeypatch.setattr(batches, "MAX_BATCH_FILES", 1)
    monkeypatch.setattr(batches, "MAX_DIRECT_BATCH_FILES", 1)


@pytest.mark.parametrize("ruled", ["tree", "tree/closed", "tree/closed/deep/c"])
def test_rule_made_after_the_request_keeps_the_folder(task_env: TaskEnv, target: Side, ruled: str) -> None:
    source = task_env.disk()
    fill(source, TREE)
    task = task_env.move(source.mount, target.mount, "tree")
    task_env.rule(f"{source.mount}/{ruled}", password="sesame", p_sub=True)
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == ((State.FAILED, LEFT_BEHIND), TREE, {})
    task_env.rule(f"{target.mount}/{ruled}", password="sesame", p_sub=True)
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, TREE)


@pytest.mark.parametrize("verb", ["move", "copy"])
def test_retry_takes_a_listed_folder_that_was_refused(task_env: TaskEnv, target: Side, verb: str) -> None:
    """Its content is not in the lists of the first run."""
    source = task_env.disk()
    names = [f"x{number}" for number in range(enqueue.MAX_SINGLE_TASKS)]
    others = {f"{name}/file": b"content" for name in names}
    fill(source, TREE | others)
    (task,) = task_env.transfer(verb, source.mount, target.mount, "tree", *names)
    rule = metas.create(path=f"{source.mount}/tree", read_users=[0])
    task_env.run(task)
    assert task_env.view(task)[0] == State.FAILED
    assert target.files() == others
    metas.delete(rule.id)
    queue.retry(verb, task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, TREE | others)
    assert source.files() == ({} if verb == "move" else TREE | others)


@pytest.mark.usefixtures("single_files")
def test_rule_made_within_a_step_keeps_the_rest(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    fill(source, TREE)
    task = task_env.move(source.mount, target.mount, "tree")

    def make_rule(name: str) -> None:
        if name == "move.batch" and target.files():
            task_env.rule(f"{source.mount}/tree/closed", write_users=[task_env.user.id])
            monkeypatch.undo()

    monkeypatch.setattr(batches, "pass_checkpoint", make_rule)
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, LEFT_BEHIND)
    assert target.files() == {"tree/a": b"a"}
    assert source.files() == {name: content for name, content in TREE.items() if name != "tree/a"}


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_rule_made_before_the_removal_takes_the_copy_back(
    task_env: TaskEnv, target: Side, content: bytes, overwrite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    source.put("f", content)
    task = task_env.move(source.mount, target.mount, "f", overwrite=overwrite)
    act_at(monkeypatch, "move.verified", 1, lambda: task_env.rule(f"{source.mount}/f", password="sesame"))
    task_env.run(task)
    state, error = task_env.view(task)
    assert state == State.FAILED and error.endswith(LEFT_BEHIND), "by name, or at the beginning of the next step"
    assert (source.files(), target.files()) == ({"f": content}, {})
    task_env.rule(f"{target.mount}/f", password="sesame")
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"f": content})


@pytest.mark.usefixtures("single_files")
def test_rule_for_an_emptied_folder_keeps_the_folder(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.disk(), task_env.disk()
    (source.root / "tree/empty").mkdir(parents=True)
    task = task_env.move(source.mount, target.mount, "tree")
    rule = f"{source.mount}/tree/empty"
    act_at(monkeypatch, "move.batch", 2, lambda: task_env.rule(rule, password="sesame"))
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, LEFT_BEHIND)
    assert (source.root / "tree/empty").is_dir()


def test_entries_of_a_list_are_kept_one_by_one(task_env: TaskEnv, target: Side) -> None:
    source = task_env.disk()
    names = [f"f{number:02}" for number in range(25)]
    files = {name: name.encode() for name in names} | {"d/closed/x": b"x", "d/y": b"y"}
    fill(source, files)
    (task,) = task_env.transfer("move", source.mount, target.mount, *names, "d")
    task_env.rule(f"{source.mount}/d/closed", read_users=[task_env.user.id], read_users_sub=True)
    task_env.rule(f"{source.mount}/f07", password="sesame")
    task_env.run(task)
    staying = {name: content for name, content in files.items() if name == "f07" or name.startswith("d/")}
    state, error = task_env.view(task)
    assert (state, error.count(LEFT_BEHIND)) == (State.FAILED, 2)
    assert error.startswith("2 of 26 items failed: f07: ") and "; d: " in error
    assert source.files() == staying
    assert target.files() == {name: content for name, content in files.items() if name not in staying}


def test_storage_that_moves_by_itself_keeps_the_folder_whole(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines.TimeBudget, "covers", lambda *_: False)  # a task does it
    disk = task_env.disk()
    names = [f"f{number:02}" for number in range(25)]
    files = {f"d/{name}": name.encode() for name in names} | {"d/tree/a": b"a", "d/tree/closed/b": b"b"}
    fill(disk, files)
    (disk.root / "to").mkdir()
    (task,) = task_env.transfer("move", f"{disk.mount}/d", f"{disk.mount}/to", *names, "tree")
    task_env.rule(f"{disk.mount}/d/tree/closed", hide="^b$")
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, f"1 of 1 items failed: tree: {LEFT_BEHIND}")
    moved = {f"to/{name}": name.encode() for name in names}
    assert disk.files() == moved | {"d/tree/a": b"a", "d/tree/closed/b": b"b"}


def test_file_with_a_rule_is_not_moved_up_by_a_task(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines.TimeBudget, "covers", lambda *_: False)
    monkeypatch.setattr("mangrove.tree.operations.transfers.MAX_FILES_PER_FLAT_MOVE", 0)  # a task does it
    disk = task_env.disk()
    fill(disk, {"d/a": b"a", "d/deep/closed": b"c"})
    (disk.root / "to").mkdir()
    ends = task_env.access(f"{disk.mount}/d", Right.MOVE), task_env.access(f"{disk.mount}/to", Right.MOVE)
    _, (task,) = task_env.do(submit.move_files(*ends, "cancel"))
    task_env.rule(f"{disk.mount}/d/deep/closed", password="sesame")
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, f"1 of 1 items failed: deep/closed: {LEFT_BEHIND}")
    assert disk.files() == {"to/a": b"a", "d/deep/closed": b"c"}


def test_copy_leaves_rules_behind(task_env: TaskEnv, target: Side) -> None:
    source = task_env.disk()
    fill(source, TREE)
    task = task_env.copy(source.mount, target.mount, "tree")
    task_env.rule(f"{source.mount}/tree", password="sesame", p_sub=True)
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, TREE, TREE)
