"""Tasks that replace small files in a storage with a trash: a few calls for a batch, and each old file in the trash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from mangrove.drivers.local.driver import Local
from mangrove.drivers.part_names import TRASH
from mangrove.identity.rights import Right
from mangrove.records import trash
from mangrove.records.store.base import get_connection
from mangrove.records.tasks.model import Task
from mangrove.records.trash import TrashRecord
from mangrove.tasks.enqueue import TransferEnqueuer
from mangrove.tree import access
from mangrove.tree.operations.plans import OnConflict, TransferRequest, plan_transfer
from mangrove.tree.trash.content import get_path
from tests.support.task_env import Bucket, Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED

NAMES = [f"{number:02}" for number in range(50)]
MAX_ROWS = 1000


@pytest.fixture
def old(task_env: TaskEnv) -> Disk:
    """A storage with a trash whose files are replaced."""
    disk = task_env.disk(trash_days=30)
    fill(disk, "old")
    return disk


def fill(side: Disk | Bucket, word: str) -> None:
    for name in NAMES:
        side.put(f"d/{name}", f"{word} {name}".encode())


def name_all(word: str) -> dict[str, bytes]:
    return {f"d/{name}": f"{word} {name}".encode() for name in NAMES}


def list_kept(task_env: TaskEnv, disk: Disk) -> dict[str, bytes]:
    """Return the content of the entries of a trash by their former paths."""
    storage_id = task_env.driver(disk.mount).context.storage_id
    rows = trash.list_of(storage_id, MAX_ROWS)
    assert trash.list_intents(MAX_ROWS) == []
    return {row.path.lstrip("/"): (disk.root / get_path(row).lstrip("/")).read_bytes() for row in rows}


def list_present(disk: Disk) -> dict[str, bytes]:
    return {path: content for path, content in disk.files().items() if not path.startswith(TRASH)}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls that replace files and keep them, and the writes of the trash."""
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, name, call)

    for name in ("set_aside", "set_many_aside"):
        count(Local, name)
    count(get_connection(TrashRecord).client, "transact_write_items")
    return counts


@pytest.mark.parametrize("conflict", [{}, {"merge": True}])
@pytest.mark.parametrize("side", ["disk", "bucket"])
def test_task_that_replaces_files_keeps_them_in_few_calls(
    task_env: TaskEnv, old: Disk, calls: Counter[str], side: str, conflict: dict[str, bool]
) -> None:
    new: Disk | Bucket = getattr(task_env, side)()
    fill(new, "new")
    task = task_env.copy(new.mount, old.mount, "d", overwrite=True, **conflict)
    calls.clear()
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    # for each of the batches, the copy between disks has two: the intents, and the records with the end of the intents
    batches = 2 if side == "disk" else 1
    assert calls == {"set_many_aside": batches, "transact_write_items": 2 * batches}
    assert (list_present(old), list_kept(task_env, old)) == (name_all("new"), name_all("old"))


@pytest.mark.parametrize("side", ["disk", "bucket"])
def test_task_that_merges_leaves_existing_files_unread(
    task_env: TaskEnv, old: Disk, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    new: Disk | Bucket = getattr(task_env, side)()
    fill(new, "new")
    (old.root / "d/07").unlink()
    task = task_env.copy(new.mount, old.mount, "d", merge=True)
    driver, paths = task_env.driver(new.mount), list[str]()
    read = driver.read

    async def note(path: str, *args: Any) -> Any:
        paths.append(path)
        return await read(path, *args)

    monkeypatch.setattr(driver, "read", note)
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert paths == ([] if side == "disk" else ["/d/07"])
    assert (list_present(old), list_kept(task_env, old)) == (name_all("old") | {"d/07": b"new 07"}, {})


def test_file_that_changes_while_its_group_is_read_is_not_stored(
    task_env: TaskEnv, old: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = task_env.bucket()
    fill(new, "new")
    task = task_env.copy(new.mount, old.mount, "d", overwrite=True)
    driver = task_env.driver(new.mount)
    read = driver.read

    async def change(path: str, *args: Any) -> Any:
        body = await read(path, *args)
        if path == "/d/07":
            await asyncio.to_thread(new.put, "d/07", b"newer")
        return body

    monkeypatch.setattr(driver, "read", change)
    task_env.run(task)
    assert "07: the source changed" in task_env.view(task)[1]
    unchanged = {"d/07": b"old 07"}
    assert list_present(old) == name_all("new") | unchanged
    assert list_kept(task_env, old) == {path: old for path, old in name_all("old").items() if path not in unchanged}


def test_moves_of_a_request_and_of_a_task_keep_replaced_files_together(
    task_env: TaskEnv, old: Disk, calls: Counter[str]
) -> None:
    for name in NAMES:
        old.put(f"new/{name}", f"new {name}".encode())
    assert task_env.transfer("move", f"{old.mount}/new", f"{old.mount}/d", *NAMES[:20], overwrite=True) == []
    assert calls == {"set_many_aside": 1, "transact_write_items": 2}
    (task,) = task_env.do(enqueue_moves(task_env, old, NAMES[20:]))
    calls.clear()
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert calls == {"set_many_aside": 1, "transact_write_items": 2}
    assert (list_present(old), list_kept(task_env, old)) == (name_all("new"), name_all("old"))


async def enqueue_moves(task_env: TaskEnv, disk: Disk, names: Sequence[str]) -> list[Task]:
    """Leave the moves of a request for tasks, as if its time was over."""
    ends = [await access.at(task_env.caller(Right.MOVE), f"{disk.mount}/{name}") for name in ("new", "d")]
    request = TransferRequest(Right.MOVE, *ends, names, OnConflict(overwrite=True))
    return await TransferEnqueuer(request).enqueue((await plan_transfer(request)).items)
