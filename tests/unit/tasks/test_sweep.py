"""The work that the sweep removes, leaves, and starts again."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mangrove import configuration
from mangrove.core.platform import platform
from mangrove.core.problems import RecordNotFound
from mangrove.drivers.base import Upload
from mangrove.records import audit, sessions, settings
from mangrove.records.audit import AuditEntry, AuditRecord, make_audit_key
from mangrove.records.store import counters, versions
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks import runs
from mangrove.records.tasks.model import Task, TaskRecord
from mangrove.tasks import sweep
from mangrove.tasks.core import queue, staging
from mangrove.tasks.core.model import DELETE_NEVER, State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.web.audit_models import AuditReq
from tests.support import origin
from tests.support.task_env import TaskEnv

DAY = 86_400.0  # seconds


SPEC = TransferSpec(target_dir="/nowhere", name="f", overwrite=False, delete_policy=DELETE_NEVER)
LISTED = [kind.name for kind in KINDS.values() if kind.is_listed]  # a task of the index stays as long as its storage


def run_sweep(task_env: TaskEnv) -> None:
    task_env.do(sweep.sweep())


def make_done(task_env: TaskEnv, days: float, kind: str = "copy", state: State = State.SUCCEEDED) -> Task:
    """A task that is done since so many days."""
    task = queue.enqueue(kind, task_env.user, TaskRequest("a task", SPEC))
    task_env.started.clear()
    token = secrets.token_hex(4)
    task = records.acquire_lease(task.id, token, 5)
    end = (datetime.now(UTC) - timedelta(days=days)).isoformat().replace("+00:00", "Z")
    return records.save(task, token, 0, view=replace(task.view, state=state, end_time=end), done=True)


def exists(task: Task) -> bool:
    try:
        records.get(task.id)
    except RecordNotFound:
        return False
    return True


def stage(task_env: TaskEnv, name: str, days: float, file: str = "body") -> Path:
    """Something in staging, that old."""
    path = task_env.folder / "staging" / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    old = time.time() - days * DAY
    os.utime(path, (old, old))
    os.utime(path.parent, (old, old))
    return path


def test_tasks_that_are_done_go_after_as_many_days_as_the_setting_says(task_env: TaskEnv) -> None:
    old = [make_done(task_env, 7.1, kind, state) for kind in LISTED for state in (State.SUCCEEDED, State.FAILED)]
    young = [make_done(task_env, 6.9, kind) for kind in LISTED]
    undone = queue.enqueue("copy", task_env.user, TaskRequest("under way", SPEC))
    run_sweep(task_env)
    assert [exists(task) for task in old] == [False] * len(old)
    assert [exists(task) for task in [*young, undone]] == [True] * (len(young) + 1)
    task_env.set(task_retention_days="6")
    run_sweep(task_env)
    assert [exists(task) for task in young] == [False] * len(young)
    assert exists(undone)


def test_old_tasks_go_once_a_day_where_the_records_expire(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the cloud, where each of these sweeps would read many lists of tasks in vain."""
    monkeypatch.setattr(platform(), "expires_records", True)
    monkeypatch.setattr(sweep, "STALLED_SECONDS", -1)
    first = make_done(task_env, 7.1)
    run_sweep(task_env)
    second = make_done(task_env, 7.1)
    removed = queue.enqueue("copy", task_env.user, TaskRequest("a task", SPEC))
    records.acquire_lease(removed.id, "a worker that died", 5)
    queue.delete("copy", removed.id, task_env.caller())
    task_env.started.clear()
    run_sweep(task_env)
    assert [exists(task) for task in (first, second)] == [False, True]
    assert task_env.started == []
    counters.Counter("once#daily sweep").update(actions=[counters.Counter.until.set(time.time() - 1)])  # a day later
    run_sweep(task_env)
    assert not exists(second)
    assert [task.id for task in task_env.started] == [removed.id]


def test_staging_that_belongs_to_nobody_goes_after_a_day(task_env: TaskEnv) -> None:
    for name, days in ((queue.make_id(), 1.1), (f"{queue.make_id()}.3", 1.1), (queue.make_id(), 0.9)):
        stage(task_env, name, days)
    young = stage(task_env, queue.make_id(), 1.1, "entries-0-000000")
    stage(task_env, young.parent.name, 0.1, "entries-0-000001")
    before = task_env.list_staged()
    run_sweep(task_env)
    gone = set(before) - set(task_env.list_staged())
    assert len(gone) == 2
    assert young.exists()
    run_sweep(task_env)
    assert len(task_env.list_staged()) == 2


def test_an_upload_that_is_being_received_keeps_its_place(task_env: TaskEnv) -> None:
    """Its bytes are invisible until all are there, and its task is enqueued after that."""
    seen: list[list[str]] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        await sweep.sweep()
        seen.append(task_env.list_staged())
        yield b"two"

    id = queue.make_id()
    assert task_env.do(staging.store(id, staging.BODY, body(), Upload(6, 0.0))) == 6
    assert seen == [[id]]
    run_sweep(task_env)
    assert task_env.list_staged() == [id]


@pytest.mark.parametrize("done", [False, True])
def test_what_a_task_has_staged_stays_however_old_it_is(task_env: TaskEnv, done: bool) -> None:
    task = (
        make_done(task_env, 0, state=State.FAILED)
        if done
        else queue.enqueue("copy", task_env.user, TaskRequest("a task", SPEC))
    )
    staged = [stage(task_env, task.id, 30), stage(task_env, f"{task.id}.0", 30)]
    run_sweep(task_env)
    assert all(path.exists() for path in staged)
    records.delete(task.id)
    run_sweep(task_env)
    assert not any(path.exists() for path in staged)


def test_what_was_brought_stays_as_long_as_the_task_that_goes_on_with_it(task_env: TaskEnv) -> None:
    """Its stage is named after the task that brought it, which may be swept long before."""
    first = queue.enqueue("decompress", task_env.user, TaskRequest("a task", SPEC))
    queue.chain("decompress_upload", first, queue.get_stage(first), "its transfer", SPEC, 1)
    staged = stage(task_env, queue.get_stage(first), 30)
    records.delete(first.id)
    run_sweep(task_env)
    assert staged.exists()
    records.delete(queue.get_chained_id(queue.get_stage(first)))
    run_sweep(task_env)
    assert not staged.exists()


def test_what_is_pinned_for_another_program_stays(task_env: TaskEnv) -> None:
    name = f"{queue.make_id()}.0"
    task_env.do(staging.pin(name))
    staged = stage(task_env, name, 365, "body/shared.iso")
    old = time.time() - 365 * DAY
    os.utime(staged.parent.parent / staging.PINNED, (old, old))
    run_sweep(task_env)
    assert staged.exists()
    task_env.do(staging.clear(name))
    assert staged.exists()


def test_sessions_and_counters_that_ended_go_and_others_stay(task_env: TaskEnv) -> None:
    now = int(time.time())
    sessions.revoke("ended", now - 1)
    sessions.revoke("lasting", now + 3600)
    counters.add_failure("ended", -5)
    counters.add_failure("lasting", 3600)
    version = versions.get_version()
    run_sweep(task_env)
    left = {record.jti for record in sessions.SessionRecord.scan()}
    assert left == {"lasting"}
    keys = {counter.key for counter in counters.Counter.scan()}
    assert "failure#ended" not in keys
    assert {"failure#lasting", "configuration"} <= keys
    assert versions.get_version() == version
    assert sessions.is_revoked("lasting")


def test_actions_older_than_a_shortened_time_go_and_are_not_listed(task_env: TaskEnv) -> None:
    settings.save({"audit_days": "90"})
    audit.add(AuditEntry("ann", "192.0.2.1", "sign_in", "login"), days=90)
    run_sweep(task_env)
    (entry,) = AuditReq().find().entries
    (record,) = AuditRecord.scan()
    old = make_audit_key(time.time() - 10 * DAY)
    moment = datetime.now(UTC) - timedelta(days=10)
    values = {name: getattr(record, name) for name in ("username", "address", "action", "target", "expires")}
    AuditRecord(f"{moment:%Y-%m}", f"{old}-00000000", **values).save()
    assert len(AuditReq().find().entries) == 2
    settings.save({"audit_days": "5"})
    configuration.reload()
    assert AuditReq().find().entries == [entry]
    run_sweep(task_env)
    assert [row.key for row in AuditRecord.scan()] == [entry.key]


def test_task_untouched_for_an_hour_is_restarted(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"f")
    task = task_env.copy(source.mount, target.mount, "f")
    deleted = queue.enqueue("copy", task_env.user, TaskRequest("a task", SPEC))
    records.acquire_lease(deleted.id, "a worker that died", 5)
    queue.delete("copy", deleted.id, task_env.caller())
    task_env.started.clear()
    run_sweep(task_env)
    assert task_env.started == []
    monkeypatch.setattr(sweep, "STALLED_SECONDS", -1)
    run_sweep(task_env)
    assert [task_started.id for task_started in task_env.started] == [deleted.id]
    monkeypatch.setattr(sweep, "NEVER_STARTED_SECONDS", -1)
    run_sweep(task_env)
    assert {task_started.id for task_started in task_env.started} == {task.id, deleted.id}
    task_env.run_all()
    assert (task_env.view(task), target.files()) == ((State.SUCCEEDED, ""), {"f": b"f"})
    assert not exists(deleted)


def test_the_sweep_tells_for_how_long_the_oldest_task_has_been_under_way(
    task_env: TaskEnv, capfd: pytest.CaptureFixture[str]
) -> None:
    platform().emits_metrics = True

    def tell() -> float | None:
        run_sweep(task_env)
        lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if "OldestTaskAge" in line]
        assert len(lines) <= 1
        return float(lines[0]["OldestTaskAge"][0]) if lines else None

    make_done(task_env, 2)
    assert tell() is None
    retried, waiting = (queue.enqueue("copy", task_env.user, TaskRequest("a task", SPEC)) for _ in range(2))
    for task, hours in ((retried, 30), (waiting, 5)):
        TaskRecord(task.id).update(actions=[TaskRecord.created.set(time.time() - hours * 3600)])
    assert 30 * 3600 <= tell() < 31 * 3600
    begun = (datetime.now(UTC) - timedelta(hours=6)).isoformat().replace("+00:00", "Z")
    again = runs.reopen(records.get(retried.id), retried.view)
    records.save(records.acquire_lease(again.id, "one", 5), "one", 0, view=replace(again.view, start_time=begun))
    assert 6 * 3600 <= tell() < 7 * 3600, "it was retried six hours ago"


def test_two_sweeps_at_once_do_no_harm(task_env: TaskEnv) -> None:
    for _ in range(5):
        make_done(task_env, 8)
        stage(task_env, queue.make_id(), 2)

    async def both() -> Any:
        return await asyncio.gather(sweep.sweep(), sweep.sweep())

    task_env.do(both())
    assert (task_env.list_staged(), list(task_lists.list_rows("copy", True))) == ([], [])


def test_a_failed_task_that_is_deleted_takes_its_staging_along(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("tree/f", b"mine")
    task = task_env.copy(source.mount, target.mount, "tree")
    task_env.started.clear()
    task_env.run(task, lambda name, nth: target.put("tree/f", b"theirs") if name == "Move" else None)
    assert task_env.view(task)[0] == State.FAILED
    assert task_env.list_staged() == [task.id]
    queue.delete("copy", task.id, task_env.caller())
    assert not task_env.is_queued(task)
    task_env.run_all()
    assert (task_env.list_staged(), exists(task), target.files()) == ([], False, {"tree/f": b"theirs"})


def test_a_download_that_is_done_again_is_chained_to_a_new_transfer(task_env: TaskEnv) -> None:
    task_env.set(offline_download_allowed_hosts="127.0.0.1")
    target = task_env.disk()
    with origin.origin() as web:
        url = web.at("/f.txt", origin.file(b"first"))
        task = task_env.download(target.mount, url)
        task_env.run_all()
        assert target.files() == {"f.txt": b"first"}
        web.at("/f.txt", origin.file(b"second"))
        queue.retry("offline_download", task.id, task_env.caller())
        task_env.run_all()
    transfers = list(queue.list_views("offline_download_transfer", True, task_env.caller()))
    assert [transfer.state for transfer in transfers] == [State.SUCCEEDED] * 2
    assert len({transfer.id for transfer in transfers}) == 2
    assert (target.files(), task_env.list_staged()) == ({"f.txt": b"second"}, [])
