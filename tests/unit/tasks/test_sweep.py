"""What the sweep takes away, what it leaves, and what it starts anew."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mangrove.drivers.base import Upload
from mangrove.records import counters, sessions
from mangrove.records import tasks as records
from mangrove.records.base import RecordMissing
from mangrove.records.tasks import Task
from mangrove.tasks import board, staging, sweep
from mangrove.tasks.kinds import KINDS, State
from tests import origin
from tests.ground import Ground

DAY = 86_400.0  # seconds


def swept(ground: Ground) -> None:
    ground.do(sweep.sweep())


def ended(ground: Ground, days: float, kind: str = "copy", state: State = State.SUCCEEDED) -> Task:
    """A task that is done since so many days."""
    task = board.open(kind, ground.user, "a task", {})
    ground.started.clear()
    held = records.take(task.id, secrets.token_hex(4), 5)
    record = records.TaskRecord.get(task.id)
    end = (datetime.now(UTC) - timedelta(days=days)).isoformat().replace("+00:00", "Z")
    return records.keep(held, record.lease, 0, shown=held.shown | {"state": state, "end_time": end}, done=True)


def there(task: Task) -> bool:
    try:
        records.get(task.id)
    except RecordMissing:
        return False
    return True


def staged(ground: Ground, name: str, days: float, file: str = "body") -> Path:
    """Something in staging, that old."""
    path = ground.folder / "staging" / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    old = time.time() - days * DAY
    os.utime(path, (old, old))
    os.utime(path.parent, (old, old))
    return path


def test_tasks_that_are_done_go_after_as_many_days_as_the_setting_says(ground: Ground) -> None:
    old = [ended(ground, 7.1, kind, state) for kind in KINDS for state in (State.SUCCEEDED, State.FAILED)]
    young = [ended(ground, 6.9, kind) for kind in KINDS]
    undone = board.open("copy", ground.user, "under way", {})
    swept(ground)
    assert [there(task) for task in old] == [False] * len(old)
    assert [there(task) for task in [*young, undone]] == [True] * (len(young) + 1)
    ground.setting(task_retention_days="6")
    swept(ground)
    assert [there(task) for task in young] == [False] * len(young)
    assert there(undone)


def test_staging_that_belongs_to_nobody_goes_after_a_day(ground: Ground) -> None:
    for name, days in ((board.new_id(), 1.1), (f"{board.new_id()}.3", 1.1), (board.new_id(), 0.9)):
        staged(ground, name, days)
    young = staged(ground, board.new_id(), 1.1, "entries-0-000000")
    staged(ground, young.parent.name, 0.1, "entries-0-000001")
    before = ground.staged()
    swept(ground)
    gone = set(before) - set(ground.staged())
    assert len(gone) == 2
    assert young.exists()
    swept(ground)
    assert len(ground.staged()) == 2


def test_an_upload_that_is_being_received_keeps_its_place(ground: Ground) -> None:
    """Nothing is seen of its bytes until all are there, and its task is opened after that."""
    seen: list[list[str]] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        await sweep.sweep()
        seen.append(ground.staged())
        yield b"two"

    id = board.new_id()
    assert ground.do(staging.keep(id, staging.BODY, body(), Upload(6, 0.0))) == 6
    assert seen == [[id]]
    swept(ground)
    assert ground.staged() == [id]


@pytest.mark.parametrize("done", [False, True])
def test_what_a_task_on_the_board_has_staged_stays_however_old_it_is(ground: Ground, done: bool) -> None:
    task = ended(ground, 0, state=State.FAILED) if done else board.open("copy", ground.user, "a task", {})
    kept = [staged(ground, task.id, 30), staged(ground, f"{task.id}.0", 30)]
    swept(ground)
    assert all(path.exists() for path in kept)
    records.delete(task.id)
    swept(ground)
    assert not any(path.exists() for path in kept)


def test_what_was_brought_stays_as_long_as_the_task_that_goes_on_with_it(ground: Ground) -> None:
    """Its stage is named after the task that brought it, which may be swept long before."""
    first = board.open("decompress", ground.user, "a task", {})
    board.hand_on("decompress_upload", first, "its transfer", {}, 1)
    kept = staged(ground, board.stage(first), 30)
    records.delete(first.id)
    swept(ground)
    assert kept.exists()
    records.delete(board.following(board.stage(first)))
    swept(ground)
    assert not kept.exists()


def test_what_is_lent_to_another_program_stays(ground: Ground) -> None:
    name = f"{board.new_id()}.0"
    ground.do(staging.lend(name))
    kept = staged(ground, name, 365, "body/shared.iso")
    old = time.time() - 365 * DAY
    os.utime(kept.parent.parent / staging.LENT, (old, old))
    swept(ground)
    assert kept.exists()
    ground.do(staging.clear(name))
    assert kept.exists()


def test_sessions_and_counters_that_ended_go_and_others_stay(ground: Ground) -> None:
    now = int(time.time())
    sessions.revoke("ended", now - 1)
    sessions.revoke("lasting", now + 3600)
    counters.add_failure("ended", -5)
    counters.add_failure("lasting", 3600)
    version = counters.configuration_version()
    swept(ground)
    left = {record.jti for record in sessions.SessionRecord.scan()}
    assert left == {"lasting"}
    keys = {counter.key for counter in counters.Counter.scan()}
    assert "failure#ended" not in keys
    assert {"failure#lasting", "configuration"} <= keys
    assert counters.configuration_version() == version
    assert sessions.revoked("lasting")


def test_a_task_that_nobody_touched_for_an_hour_is_started_anew_and_goes_on(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ground.disk(), ground.disk()
    source.put("f", b"f")
    task = ground.copy(source.mount, target.mount, "f")
    deleted = board.open("copy", ground.user, "a task", {"policy": "", "staged": "", "target": target.mount})
    board.delete("copy", deleted.id, ground.caller())
    ground.started.clear()
    swept(ground)
    assert ground.started == []
    monkeypatch.setattr(sweep, "STALLED_SECONDS", -1)
    swept(ground)
    assert {one.id for one in ground.started} == {task.id, deleted.id}
    ground.run_all()
    assert (ground.shown(task), target.files()) == ((State.SUCCEEDED, ""), {"f": b"f"})
    assert not there(deleted)


def test_two_sweeps_at_once_do_no_harm(ground: Ground) -> None:
    for _ in range(5):
        ended(ground, 8)
        staged(ground, board.new_id(), 2)

    async def both() -> Any:
        return await asyncio.gather(sweep.sweep(), sweep.sweep())

    ground.do(both())
    assert (ground.staged(), list(records.rows("copy", True))) == ([], [])


def test_a_failed_task_that_is_deleted_takes_its_staging_along(ground: Ground) -> None:
    source, target = ground.disk(), ground.disk()
    source.put("tree/f", b"mine")
    task = ground.copy(source.mount, target.mount, "tree")
    ground.started.clear()
    ground.run(task, lambda name, nth: target.put("tree/f", b"theirs") if name == "Move" else None)
    assert ground.shown(task)[0] == State.FAILED
    assert ground.staged() == [task.id]
    board.delete("copy", task.id, ground.caller())
    assert not ground.on_board(task)
    ground.run_all()
    assert (ground.staged(), there(task), target.files()) == ([], False, {"tree/f": b"theirs"})


def test_a_download_that_is_done_again_is_handed_on_to_a_new_transfer(ground: Ground) -> None:
    ground.setting(offline_download_allowed_hosts="127.0.0.1")
    target = ground.disk()
    with origin.origin() as web:
        url = web.at("/f.txt", origin.file(b"first"))
        task = ground.download(target.mount, url)
        ground.run_all()
        assert target.files() == {"f.txt": b"first"}
        web.at("/f.txt", origin.file(b"second"))
        board.retry("offline_download", task.id, ground.caller())
        ground.run_all()
    transfers = list(board.listed("offline_download_transfer", True, ground.caller()))
    assert [one["state"] for one in transfers] == [State.SUCCEEDED] * 2
    assert len({one["id"] for one in transfers}) == 2
    assert (target.files(), ground.staged()) == ({"f.txt": b"second"}, [])
