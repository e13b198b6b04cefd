"""The start of index runs, of which there are never two for one storage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mangrove.core.problems import BadRequest, Problem, SearchUnavailable
from mangrove.records import index_changes, storages
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.records.tasks import model as records
from mangrove.tasks.core.model import State
from mangrove.tasks.index import indexing
from mangrove.tasks.index.declaration import INDEX
from mangrove.tasks.index.indexing import load_cursor
from tests.support.task_env import Disk, TaskEnv


@pytest.fixture
def disk(task_env: TaskEnv) -> Iterator[Disk]:
    """The only storage."""
    for storage in storages.all():
        storages.delete(storage.id)
    task_env.set(search_index="database", auto_update_index="true")
    yield task_env.disk()


def find_id(disk: Disk) -> int:
    return next(storage.id for storage in storages.all() if storage.mount_path == disk.mount)


def end(env: TaskEnv, disk: Disk, state: State = State.SUCCEEDED, indexed: int | None = 1, **view: str) -> None:
    """As if the run that was opened had ended."""
    (task,) = env.started
    env.started.clear()
    cursor = replace(load_cursor(task), indexed=indexed, attempt=task.attempt)
    ended = replace(task.view, state=state, end_time=view.get("end_time", "2020-01-01T00:00:00Z"))
    records.save(task, "t", 0, view=ended, cursor=cursor.dump(), done=True)


def list_opened(env: TaskEnv) -> list[tuple[bool, list[str]]]:
    """Of each run that was opened, whether it is an update, and its paths; they stay open."""
    specs = [INDEX.spec.load(task.spec) for task in env.started]
    return [(spec.is_update, spec.paths) for spec in specs]


def refresh(env: TaskEnv) -> list[tuple[bool, list[str]]]:
    env.do(indexing.refresh())
    return list_opened(env)


def test_of_many_requests_at_once_one_opens_the_run(task_env: TaskEnv, disk: Disk) -> None:
    def ask(_: int) -> str:
        try:
            task_env.do(indexing.build_all())
        except BadRequest as problem:
            return problem.message
        return ""

    for run in range(3):
        with ThreadPoolExecutor(8) as threads:
            answers = sorted(threads.map(ask, range(8)))
        assert answers == ["", *["index is running"] * 7]
        (task,) = task_env.started
        assert (task.id, task.attempt) == (indexing.make_task_id(find_id(disk)), run)
        end(task_env, disk)


ASKING = """
import asyncio
from mangrove.core.problems import BadRequest
from mangrove.tasks.index import indexing
try:
    asyncio.run(indexing.build_all())
    print("opened")
except BadRequest as problem:
    print(problem)
"""


def test_of_several_processes_at_once_one_opens_the_run(task_env: TaskEnv, disk: Disk) -> None:
    asking = [
        subprocess.Popen([sys.executable, "-c", ASKING], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]  # fmt: skip
    answers = sorted(process.communicate(timeout=60)[0].strip() for process in asking)
    assert answers == ["index is running", "opened"]


def test_nothing_is_answered_while_the_index_is_off(task_env: TaskEnv, disk: Disk) -> None:
    task_env.set(search_index="none")
    for ask in (indexing.build_all, indexing.stop, indexing.clear, indexing.read_progress):
        with pytest.raises(SearchUnavailable):
            task_env.do(ask())
    with pytest.raises(SearchUnavailable):
        task_env.do(indexing.update([]))
    assert refresh(task_env) == []


def test_what_does_not_run_cannot_be_stopped(task_env: TaskEnv, disk: Disk) -> None:
    with pytest.raises(BadRequest, match="index is not running"):
        task_env.do(indexing.stop())


def test_an_update_asks_each_storage_for_its_own_paths(task_env: TaskEnv, disk: Disk) -> None:
    other = task_env.disk()
    with pytest.raises(BadRequest):
        task_env.do(indexing.update([f"/{number}" for number in range(101)]))
    with pytest.raises(Problem):
        task_env.do(indexing.update(["/../x"]))
    task_env.do(indexing.update([f"{disk.mount}/a/b", f"{disk.mount}/c"], 3))
    assert list_opened(task_env) == [(True, ["/a/b", "/c"])]
    end(task_env, disk)
    task_env.do(indexing.update(["/"]))
    assert list_opened(task_env) == [(True, ["/"])] * 2
    assert {task.id for task in task_env.started} == {indexing.make_task_id(find_id(mount)) for mount in (disk, other)}


def test_a_storage_without_an_index_gets_one_by_itself_and_once(task_env: TaskEnv, disk: Disk) -> None:
    assert refresh(task_env) == [(False, [])]
    assert refresh(task_env) == [(False, [])], "the run is under way"
    end(task_env, disk)
    assert refresh(task_env) == []


@pytest.mark.parametrize(
    ("state", "indexed", "is_opened"),
    [
        (State.FAILED, None, True),
        (State.FAILED, 1, False),
        (State.CANCELED, None, False),
        (State.SUCCEEDED, None, False),
    ],
)
def test_failed_build_is_retried_and_stopped_one_is_not(
    task_env: TaskEnv, disk: Disk, state: State, indexed: int | None, is_opened: bool
) -> None:
    refresh(task_env)
    end(task_env, disk, state, indexed)
    assert refresh(task_env) == ([(False, [])] if is_opened else [])


def test_a_build_that_has_just_failed_waits(task_env: TaskEnv, disk: Disk) -> None:
    refresh(task_env)
    end(task_env, disk, State.FAILED, None, end_time="2099-01-01T00:00:00Z")
    assert refresh(task_env) == []


def test_changes_are_merged_when_they_are_many_or_old(
    task_env: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(task_env)
    end(task_env, disk)
    index_changes.add(*(IndexChange(find_id(disk), ChangeKind.NAMES, f"/{number}") for number in range(5)))
    assert refresh(task_env) == []
    monkeypatch.setattr(indexing, "MAX_WAITING_CHANGES", 5)
    assert refresh(task_env) == [(True, [])]
    end(task_env, disk)
    monkeypatch.setattr(indexing, "MAX_WAITING_CHANGES", 500)
    monkeypatch.setattr(indexing, "MAX_CHANGE_WAIT_SECONDS", 0.0)
    assert refresh(task_env) == [(True, [])]


def test_a_search_asks_for_what_it_misses(task_env: TaskEnv, disk: Disk) -> None:
    id = find_id(disk)
    task_env.do(indexing.request_update([id]))
    assert list_opened(task_env) == [], "there is no index yet"
    task_env.do(indexing.request_build([id]))
    assert list_opened(task_env) == [(False, [])]
    task_env.do(indexing.request_build([id]))
    end(task_env, disk)
    task_env.do(indexing.request_update([id]))
    assert list_opened(task_env) == [(True, [])]
    end(task_env, disk, State.CANCELED, None)
    task_env.do(indexing.request_build([id]))
    assert list_opened(task_env) == [], "it was cleared, or stopped"


def test_a_storage_that_is_changed_is_indexed_anew(task_env: TaskEnv, disk: Disk) -> None:
    id = find_id(disk)

    async def change(**fields: object) -> None:
        async with indexing.follow_changes():
            storages.change(id, **fields)

    task_env.do(change(remark="x", order=3))
    assert list_opened(task_env) == []
    task_env.do(change(mount_path="/elsewhere"))
    assert list_opened(task_env) == [(False, [])]
    task_env.do(change(disabled=True))
    (change_row,) = index_changes.read_of(id)
    assert (len(task_env.started), change_row.path, change_row.deep) == (1, "/", True), "the run under way began before"


def test_what_was_indexed_and_is_gone_is_built_anew(task_env: TaskEnv, disk: Disk) -> None:
    refresh(task_env)
    end(task_env, disk)
    task_env.do(indexing.repair())
    assert list_opened(task_env) == [(False, [])]
