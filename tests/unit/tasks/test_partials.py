"""Parts of files whose storage was deleted, disabled, changed or unreachable meanwhile: none of them stays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import Unreachable
from mangrove.records import storages
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.tasks import sweep
from mangrove.tasks.core import partials, queue
from mangrove.tasks.core.model import State
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.copying import LARGE, SUCCEEDED, Side, die_at, look_between

pytestmark = pytest.mark.usefixtures("small_parts")


def find_storage(mount: str) -> Any:
    return next(storage for storage in storages.all() if storage.mount_path == mount)


def delete(side: Side) -> None:
    storages.delete(find_storage(side.mount).id)


def disable(side: Side) -> None:
    storages.change(find_storage(side.mount).id, disabled=True)


def move_elsewhere(side: Side) -> None:
    """The same storage, pointed at another place."""
    storage = find_storage(side.mount)
    options = json.loads(storage.addition)
    if isinstance(side, Disk):
        other = Path(f"{side.root}-other")
        other.mkdir()
        options["root_folder_path"] = str(other)
    else:
        side.client.create_bucket(Bucket=f"{side.name}-other")
        options["bucket"] = f"{side.name}-other"
    storages.change(storage.id, addition=json.dumps(options))


def begin(task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> Task:
    """Run a copy whose first worker dies when a part is stored; `then` happens before the second one."""
    source = task_env.disk() if not isinstance(target, Disk) else task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    die_at(monkeypatch, "copy.part")

    def look() -> None:
        assert len(target.unfinished()) == 1
        then()

    task_env.run(task, look_between(task_env, task, look))
    return task


@pytest.mark.parametrize("vanish", [delete, disable])
def test_parts_are_dropped_though_their_storage_was_deleted_or_disabled(
    task_env: TaskEnv, target: Side, vanish: Callable[[Side], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = begin(task_env, target, monkeypatch, lambda: vanish(target))
    assert task_env.view(task)[0] == State.FAILED
    assert (target.unfinished(), target.files()) == ([], {})


def test_parts_are_dropped_in_storage_that_was_redirected(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = begin(task_env, target, monkeypatch, lambda: move_elsewhere(target))
    assert task_env.view(task) == SUCCEEDED
    assert (target.unfinished(), target.files()) == ([], {})


def test_the_options_of_a_storage_are_sealed_in_the_record(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    target, seen = task_env.bucket(secret_access_key="very secret"), list[str]()

    def look() -> None:
        for id in task_lists.list_unfinished("copy").ids:
            seen.append(json.dumps(records.get(id).cursor))

    begin(task_env, target, monkeypatch, look)
    assert seen
    assert all("very secret" not in text and target.name not in text for text in seen)


def test_parts_in_unreachable_storage_are_dropped_by_sweep(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = task_env.driver(target.mount)

    async def refuse(*args: Any) -> Any:
        raise Unreachable

    with monkeypatch.context() as broken:
        task = begin(task_env, target, monkeypatch, lambda: cut_off(broken, driver, refuse, task_env))
        assert task_env.view(task)[0] == State.FAILED
        assert len(target.unfinished()) == 1
        task_env.do(sweep.sweep())
        assert len(target.unfinished()) == 1
    queue.delete("copy", task.id, task_env.caller())
    task_env.run_all()
    task_env.do(sweep.sweep())
    assert target.unfinished() == []
    folder = task_env.folder / "staging" / partials.ABANDONED
    assert [child.name for child in folder.iterdir()] == ["pinned"]


def cut_off(broken: pytest.MonkeyPatch, driver: Any, refuse: Any, task_env: TaskEnv) -> None:
    """From now on every call of a storage fails."""
    for name in ("stat", "list", "write_part", "copy_part_from", "finish", "abort"):
        broken.setattr(driver, name, refuse)


def test_what_can_never_be_reached_again_is_given_up_after_a_month(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = task_env.disk()

    def vanish() -> None:
        delete(target)
        target.root.rename(f"{target.root}-gone")

    source = task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    die_at(monkeypatch, "copy.part")
    task_env.run(task, look_between(task_env, task, vanish))
    folder = task_env.folder / "staging" / partials.ABANDONED
    task_env.do(sweep.sweep())
    (left,) = [child for child in folder.iterdir() if child.name != "pinned"]
    os.utime(left, (0, left.stat().st_mtime - partials.MAX_ABANDONED_SECONDS))
    task_env.do(sweep.sweep())
    assert [child.name for child in folder.iterdir()] == ["pinned"]
