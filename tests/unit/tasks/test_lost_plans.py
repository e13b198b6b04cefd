"""Lists in staging that were lost, emptied or truncated: a retry plans again, and copied entries count as copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mangrove.tasks.core import queue, staging, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.transfer import batches
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import SUCCEEDED, Death

PLAN_LOST = "the list of the entries to copy is lost; a retry makes it again"
FILES = {f"tree/d{number % 3}/f{number}": b"%d" % number for number in range(20)}


def lose(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut_between_rows(path: Path) -> None:
    path.write_bytes(path.read_bytes().rpartition(b"\n")[0])


DAMAGES = [lose, empty, tear, fill_with_zeros, cut_between_rows]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use lists of several files, and a step for every batch."""
    monkeypatch.setattr(staging, "ROWS_PER_FILE", 7)
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["entries-0-000001", "entries-0-000003"])
@pytest.mark.parametrize("verb", ["copy", "move"])
def test_lost_list_fails_step_and_retry_plans_again(
    task_env: TaskEnv, verb: str, name: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = task_env.disk(), task_env.disk()
    for path, content in FILES.items():
        source.put(path, content)
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    stage = task_env.folder / "staging" / task.id
    task_env.run(task, lambda state, nth: damage(stage / name) if (state, nth) == ("Move", 0) else None)
    assert task_env.view(task) == (State.FAILED, PLAN_LOST)
    assert 0 < len(target.files()) < len(FILES)
    queue.retry(verb, task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    assert source.files() == (FILES if verb == "copy" else {})
    assert task_env.list_staged() == []
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_retry_that_finds_its_lists_lost_completes(
    task_env: TaskEnv, verb: str, damage: Callable[[Path], None]
) -> None:
    source, target = task_env.disk(), task_env.disk()
    for path, content in FILES.items():
        source.put(path, content)
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.run(task, lambda state, nth: target.put("tree/d0/f0", b"theirs") if state == "Move" else None)
    assert task_env.view(task) == (State.FAILED, f"1 of {len(FILES) + 4} items failed: d0/f0: file exists")
    (target.root / "tree/d0/f0").unlink()
    for path in (task_env.folder / "staging" / task.id).iterdir():
        damage(path)
    queue.retry(verb, task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    assert not (source.root / "tree").exists() or verb == "copy"


def test_a_move_whose_list_of_folders_is_lost_ends_in_its_retry(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    for path, content in FILES.items():
        source.put(path, content)
    task = task_env.move(source.mount, target.mount, "tree")

    def before(state: str, nth: int) -> None:
        if state == "Move" and not source.files():
            (task_env.folder / "staging" / task.id / "folders-000000").unlink(missing_ok=True)

    task_env.run(task, before)
    assert task_env.view(task) == (State.FAILED, PLAN_LOST)
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    assert list(source.root.iterdir()) == []


def test_a_succeeded_task_that_is_run_once_more_needs_no_lists(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("tree/f", b"content")
    task = task_env.move(source.mount, target.mount, "tree")
    task_env.run(task)
    assert task_env.list_staged() == []
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"tree/f": b"content"})


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_task_of_one_file_keeps_nothing_in_staging(
    task_env: TaskEnv, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"content")
    stored: list[str] = []
    keep = staging.store

    async def store(id: str, *args: Any) -> int:
        stored.append(id)
        return await keep(id, *args)

    monkeypatch.setattr(staging, "store", store)
    task = getattr(task_env, verb)(source.mount, target.mount, "f")
    task_env.run(task)
    assert (task_env.view(task), target.files(), stored) == (SUCCEEDED, {"f": b"content"}, [])


def test_move_succeeds_after_worker_dies_behind_source_removal(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"content")
    task, keep, deaths = task_env.move(source.mount, target.mount, "f"), batches.pass_checkpoint, [1]

    def die(name: str) -> None:
        keep(name)
        if name == "move.removed" and deaths[0]:
            deaths[0] -= 1
            raise Death(name)

    def before(state: str, nth: int) -> None:
        if (state, nth) == ("Move", 1):
            assert (source.files(), target.files()) == ({}, {"f": b"content"})
            shutil.rmtree(task_env.folder / "staging", ignore_errors=True)
        task_env.restart_process()

    monkeypatch.setattr(batches, "pass_checkpoint", die)
    task_env.run(task, before)
    assert deaths == [0]
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"f": b"content"})


def test_a_file_that_failed_is_tried_again_from_the_record_alone(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"content")
    target.put("f", b"theirs")
    task = task_env.transfer("move", source.mount, target.mount, "f", overwrite=True)[0]
    task_env.run(task, lambda state, nth: source.put("f", b"changed since") if state == "Move" else None)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: the source changed since the task began")
    shutil.rmtree(task_env.folder / "staging", ignore_errors=True)
    queue.retry("move", task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"f": b"changed since"})
