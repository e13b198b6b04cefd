"""Tasks as version 0.3.0 stored them: after the upgrade their workers continue."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mangrove.core import deadlines, runtime
from mangrove.core.problems import UnreadableTask
from mangrove.identity.rights import Right
from mangrove.records.store.base import get_connection
from mangrove.records.store.encryption import DecryptionError, EncryptedAttribute
from mangrove.records.store.upgrade import upgrade_tasks
from mangrove.records.tasks.model import Task, TaskRecord, make_task
from mangrove.records.tasks.ordering import TaskStatus
from mangrove.tasks import submit, upgrade
from mangrove.tasks.core import queue, steps
from mangrove.tasks.core.leases import HeldTasks
from mangrove.tasks.remove.declaration import RemoveCursor, RemoveSpec
from mangrove.tasks.transfer import batches
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED

SPEC = {
    "version": 1, "source": "", "password": "", "staged": "", "target_dir": "/c", "name": "", "overwrite": False,
    "keep_existing": False, "delete_policy": "delete_on_upload_succeed", "names": 0, "has_targets": False,
    "is_rename": False, "removes": "", "is_flat": False,
}  # fmt: skip
CURSOR = {
    "version": 1, "attempt": 0, "partial": None, "has_receipts": False, "bytes_done": 0, "planned": False, "listed": 0,
    "only_entry": None, "entry_count": 0, "folder_count": 0, "folders_walked": 0, "next_page": "", "total": 0,
    "position": 0, "round": 0, "failed_count": 0, "errors": [], "folders_left": None, "handed": 0, "tries": 0,
    "part": None,
}  # fmt: skip


def write_old(task: Task, spec: dict[str, Any], cursor: dict[str, Any]) -> None:
    """Make the record of a task one of version 0.3.0."""
    record = TaskRecord.get(task.id)
    record.spec, record.cursor = orjson.dumps(spec).decode(), orjson.dumps(cursor).decode()
    record.save()


def upgrade_record(task: Task) -> None:
    record = TaskRecord.get(task.id)
    upgraded = upgrade.upgrade_task(make_task(record))
    record.spec, record.cursor = orjson.dumps(upgraded.spec).decode(), orjson.dumps(upgraded.cursor).decode()
    record.save()


def make_old_spec(task: Task, source: str, **changes: Any) -> dict[str, Any]:
    return (
        SPEC
        | {key: value for key, value in task.spec.items() if key in SPEC}
        | {"version": 1, "source": source}
        | changes
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"source": "/a", "is_rename": True, "name": "b"}, {"source": "/a", "selection": "entry", "name": "b"}),
        ({"staged": "/id.0/body/f"}, {"source": "/id.0/body/f", "selection": "entry"}),
        ({"source": "/a", "names": 3}, {"source": "/a", "selection": "list", "count": 3}),
        ({"source": "/a", "names": 3, "has_targets": True}, {"selection": "renamed_list", "count": 3}),
        ({"source": "/a", "is_flat": True}, {"selection": "files", "count": 0}),
    ],
)
def test_upgrade_task_transfer_spec_is_translated(task_env: TaskEnv, old: dict[str, Any], new: dict[str, Any]) -> None:
    kind = "upload" if "staged" in old else "move"
    task = queue.enqueue(
        kind, task_env.user, queue.TaskRequest("t", TransferSpec(target_dir="/c", name="", overwrite=True))
    )
    write_old(task, SPEC | old, {})
    with pytest.raises(UnreadableTask):
        TransferSpec.load(task_env.read(task).spec)
    upgrade_record(task)
    upgraded = TransferSpec.load(task_env.read(task).spec)
    assert {key: getattr(upgraded, key) for key in new} == new
    assert TransferCursor.load(task_env.read(task).cursor) == TransferCursor()
    assert upgrade.upgrade_task(task_env.read(task)) == task_env.read(task)


def test_upgrade_task_rename_keeps_its_right() -> None:
    spec = TransferSpec(source="/a/b", target_dir="/a", name="c", overwrite=False)
    assert spec.is_rename
    assert not TransferSpec(source="/a/b", target_dir="/", name="b", overwrite=False).is_rename
    assert not TransferSpec(source="/a", target_dir="/a", name="", overwrite=False, selection="files").is_rename


def test_upgrade_task_move_half_done_goes_on(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    monkeypatch.setattr(batches, "MAX_BATCH_FILES", 1)
    monkeypatch.setattr(batches, "MAX_DIRECT_BATCH_FILES", 1)
    source, target = task_env.disk(), task_env.disk()
    files = {f"tree/{number}/f": b"%d" % number for number in range(5)}
    for name, content in files.items():
        source.put(name, content)
    task = task_env.move(source.mount, target.mount, "tree")

    def age(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 8):
            assert 0 < len(target.files()) < len(files)
            cursor = {key: value for key, value in task_env.read(task).cursor.items() if key in CURSOR}
            write_old(task, make_old_spec(task, f"{source.mount}/tree"), CURSOR | cursor | {"version": 1})
            upgrade_record(task)
            runtime.put(HeldTasks, HeldTasks())

    task_env.run(task, age)
    assert (task_env.view(task), target.files(), source.files()) == (SUCCEEDED, files, {})


@pytest.fixture
def disk(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A storage, and requests that do not have time to remove anything."""
    monkeypatch.setattr(deadlines.TimeBudget, "covers", lambda *_: False)
    monkeypatch.setattr(deadlines.TimeBudget, "get_seconds", lambda _: 0.0)
    disk = task_env.disk()
    disk.put("d/x", b"x")
    disk.put("d/y", b"y")
    (disk.root / "e/1/2").mkdir(parents=True)
    return disk


def test_upgrade_task_removal_is_done_by_its_machine(task_env: TaskEnv, disk: Disk) -> None:
    (task,) = task_env.do(submit.remove(task_env.access(f"{disk.mount}/d", Right.DELETE), ["x", "y"]))
    old = make_old_spec(task, f"{disk.mount}/d", target_dir=f"{disk.mount}/d", removes="entries", names=2)
    write_old(task, old, CURSOR | {"listed": 1, "planned": True})
    upgrade_record(task)
    upgraded = task_env.read(task)
    assert RemoveSpec.load(upgraded.spec) == RemoveSpec(folder=f"{disk.mount}/d", count=2)
    assert RemoveCursor.load(upgraded.cursor) == RemoveCursor(attempt=0, planned=True, position=1)
    assert task_env.run(upgraded) == ["Remove", "Removed", "Settle"]
    assert (task_env.view(task), disk.files()) == (SUCCEEDED, {"d/x": b"x"})  # which had its turn before


def test_upgrade_task_empty_folder_removal_is_done(task_env: TaskEnv, disk: Disk) -> None:
    (task,) = task_env.do(submit.remove_empty(task_env.access(disk.mount, Right.DELETE)))
    write_old(task, make_old_spec(task, disk.mount, target_dir=disk.mount, removes="empty_folders"), {})
    upgrade_record(task)
    task_env.run(task_env.read(task))
    assert task_env.view(task) == SUCCEEDED
    assert not (disk.root / "e").exists() and (disk.root / "d").is_dir()


OLD_NAMES = {"owner_key": "shelf", "shard_key": "spread", "view": "shown", "attempt": "turn"}


def read_item(task: Task) -> dict[str, Any]:
    """Return a record as the engine has it."""
    client, table = get_connection(TaskRecord).client, TaskRecord.Meta.table_name
    item: dict[str, Any] = client.get_item(TableName=table, Key={"id": {"S": task.id}}, ConsistentRead=True)["Item"]
    return item


def write_old_item(task: Task, *, is_broken: bool = False) -> None:
    """Store a record with the names of 0.3.0. Its specification cannot be decrypted if `is_broken`."""
    item, kind, key = read_item(task), TaskRecord.get_kind(), TaskRecord.get_key_name()
    old = {OLD_NAMES.get(name, name): value for name, value in item.items() if name != "spec"}
    for name in ("shelf", "spread"):
        old[name] = {"S": old[name]["S"].replace("#removed", "#gone")}
    facts = EncryptedAttribute(attr_name="facts", bound_to=TaskRecord.spec.bound_to)
    plaintext = TaskRecord.spec.decrypt(kind, key, item)
    old["facts"] = {"B": b"broken"} if is_broken else facts.encrypt(kind, key, old | {"facts": plaintext})
    get_connection(TaskRecord).client.put_item(TableName=TaskRecord.Meta.table_name, Item=old)


def test_upgrade_tasks_gives_each_record_its_present_form(task_env: TaskEnv) -> None:
    """One of them is removed, and its worker has to clean up: it is in no list."""
    requests = [queue.TaskRequest(name, TransferSpec(target_dir="/c", name=name, overwrite=True)) for name in "ab"]
    tasks = queue.enqueue_many("move", task_env.user, requests)
    record = TaskRecord.get(tasks[0].id)
    record.owner_key, record.shard_key = (
        key.replace(TaskStatus.UNDONE, TaskStatus.REMOVED) for key in (record.owner_key, record.shard_key)
    )
    record.save()
    before = [(task_env.read(task), read_item(task).keys()) for task in tasks]
    assert [task.removed for task, _ in before] == [True, False]
    for task in tasks:
        write_old_item(task)
    upgrade_tasks(upgrade.upgrade_task)
    assert [(task_env.read(task), read_item(task).keys()) for task in tasks] == before


def test_upgrade_tasks_leaves_a_specification_that_is_broken(task_env: TaskEnv) -> None:
    requests = [queue.TaskRequest(name, TransferSpec(target_dir="/c", name=name, overwrite=True)) for name in "ab"]
    broken, other = queue.enqueue_many("move", task_env.user, requests)
    before = task_env.read(other)
    write_old_item(broken, is_broken=True)
    write_old_item(other)
    upgrade_tasks(upgrade.upgrade_task)
    assert task_env.read(other) == before
    assert bytes(read_item(broken)["spec"]["B"]) == b"broken"
    with pytest.raises(DecryptionError):
        task_env.read(broken)
