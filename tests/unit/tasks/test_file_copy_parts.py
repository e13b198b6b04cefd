"""Files that are stored in parts: what a dead worker leaves is gone on with or dropped, and slices end inside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Upload, make_parts_key
from mangrove.tasks.core import file_copy, queue, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.core.steps import CANCELED
from mangrove.tasks.transfer.declaration import TransferCursor
from tests.support.platforms import use_boot
from tests.support.task_env import Bucket, Disk, TaskEnv
from tests.unit.tasks.copying import LARGE, PART, SUCCEEDED, Side, die_at, look_between

pytestmark = pytest.mark.usefixtures("small_parts")


def find_lost(target: Side, checkpoint: str) -> list[str]:
    """Return the traces of a worker that died before it knew its upload: S3 cannot tell the owner, and it holds no
    part."""
    return ["f"] if isinstance(target, Bucket) and checkpoint == "copy.started" else []


@pytest.mark.parametrize("checkpoint", ["copy.intended", "copy.started", "copy.ready", "copy.part", "copy.finished"])
def test_what_a_dead_worker_has_begun_is_continued_or_dropped(
    task_env: TaskEnv, target: Side, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk() if isinstance(target, Bucket) else task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    die_at(monkeypatch, checkpoint)
    left: list[int] = []
    before = look_between(task_env, task, lambda: left.append(len(target.unfinished())))
    task_env.run(task, before)
    assert left == [0 if checkpoint in ("copy.intended", "copy.finished") else 1]
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE})
    assert (target.unfinished(), task_env.list_staged()) == (find_lost(target, checkpoint), [])


@pytest.mark.parametrize("verb", [queue.cancel, queue.delete])
@pytest.mark.parametrize("checkpoint", ["copy.intended", "copy.started", "copy.part"])
def test_what_a_dead_worker_has_begun_goes_when_the_task_is_stopped(
    task_env: TaskEnv, target: Side, checkpoint: str, verb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    source.put("f", LARGE)
    if isinstance(target, Disk):
        monkeypatch.setattr(type(task_env.driver(target.mount)), "plan_part_copies", lambda self, source: (0, 0))
    task = task_env.copy(source.mount, target.mount, "f")
    die_at(monkeypatch, checkpoint)
    task_env.run(task, look_between(task_env, task, lambda: verb("copy", task.id, task_env.caller())))
    assert (target.files(), target.unfinished()) == ({}, find_lost(target, checkpoint))
    if verb is queue.cancel:
        assert task_env.view(task) == (State.CANCELED, CANCELED)
        assert task_env.list_staged() == []  # the file to copy is in the record, for a retry
        task_env.started.clear()
        queue.delete("copy", task.id, task_env.caller())
        task_env.run_all()
    assert not task_env.is_queued(task)
    assert task_env.list_staged() == []


def test_two_copies_to_one_key_at_once_do_not_drop_each_others_uploads(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker dies before it knows its upload; while it is recovered, the second has stored a part."""
    source, target = task_env.disk(), task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    driver, path = task_env.driver(target.mount), TreePath("/f")
    other: list[str] = []

    def begin_other() -> None:
        token = task_env.do(driver.begin(path, Upload(len(LARGE), 0.0), make_parts_key()))
        other.extend([token, task_env.do(driver.write_part(path, token, 1, 0, LARGE[:PART]))])

    die_at(monkeypatch, "copy.started")
    task_env.run(task, look_between(task_env, task, begin_other))
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE})
    token, receipt = other
    receipts = [receipt, task_env.do(driver.write_part(path, token, 2, PART, LARGE[PART:]))]
    assert task_env.do(driver.finish(path, token, receipts, Upload(len(LARGE), 0.0))).size == len(LARGE)


def test_only_the_part_file_of_the_lost_attempt_is_dropped(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    driver = task_env.driver(disk.mount)
    own, other = make_parts_key(), make_parts_key()
    for key in (own, other):
        task_env.do(driver.begin(TreePath("/f"), Upload(9, 0.0), key))
    task_env.do(driver.abort_by_key(TreePath("/f"), own))
    assert len(disk.unfinished()) == 1
    assert other in disk.unfinished()[0]
    task_env.do(driver.abort_by_key(TreePath("/nowhere/f"), own))


def test_an_item_that_failed_before_a_worker_died_is_not_forgotten(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.bucket()
    source.put("d/a", b"mine")
    source.put("d/b", LARGE)
    task = task_env.copy(source.mount, target.mount, "d")
    die_at(monkeypatch, "copy.part")
    look = look_between(task_env, task, lambda: None)

    def before(name: str, nth: int) -> None:
        if name == "Move":
            target.put("d/a", b"theirs")
        look(name, nth)

    task_env.run(task, before)
    assert task_env.view(task) == (State.FAILED, "1 of 3 items failed: a: file exists")
    assert target.files() == {"d/a": b"theirs", "d/b": LARGE}


def test_a_large_file_takes_as_many_slices_as_it_needs(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.bucket() if isinstance(target, Disk) else task_env.disk()
    source.put("f", LARGE * 2)
    monkeypatch.setattr(steps.Run, "has_time", lambda self: False)
    task = task_env.copy(source.mount, target.mount, "f")
    visited = task_env.run(task)
    assert visited.count("Move") >= 4
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE * 2})
    assert target.unfinished() == []


def test_source_changed_between_parts_fails_and_stays_invisible(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    source.put("tree/f", LARGE)
    source.put("tree/g", b"g")
    target.put("tree/f", b"what was there before")
    task = task_env.copy(source.mount, target.mount, "tree", overwrite=True)

    def pass_checkpoint(name: str) -> None:
        if name == "copy.part":
            os.utime(source.root / "tree/f", (1, 1))

    monkeypatch.setattr(file_copy, "pass_checkpoint", pass_checkpoint)
    task_env.run(task)
    said = "1 of 3 items failed: f: the source changed while it was copied"
    assert task_env.view(task) == (State.FAILED, said)
    assert target.files() == {"tree/f": b"what was there before", "tree/g": b"g"}
    assert target.unfinished() == []


@pytest.mark.parametrize("boot", ["the same", "another"])
def test_parts_on_a_disk_from_before_a_power_cut_are_not_gone_on_with(
    task_env: TaskEnv, target: Side, boot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made durable when the file is finished; until then the machine may lose their bytes and keep their
    lengths."""
    source = task_env.disk() if isinstance(target, Bucket) else task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    die_at(monkeypatch, "copy.part", times=2)
    use_boot(monkeypatch, "the same")

    def cut_power() -> None:
        use_boot(monkeypatch, boot)
        for part in target.unfinished():
            if isinstance(target, Disk) and boot == "another":
                Path(part).write_bytes(bytes(Path(part).stat().st_size))

    task_env.run(task, look_between(task_env, task, cut_power))
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE})
    assert target.unfinished() == []


def test_a_record_does_not_grow_with_the_parts_of_a_file(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts are rows of their own, of which those that are new are written."""
    source = task_env.bucket() if isinstance(target, Disk) else task_env.disk()
    source.put("f", LARGE * 2)
    monkeypatch.setattr(steps.Run, "has_time", lambda self: False)
    task = task_env.copy(source.mount, target.mount, "f")
    sizes: list[tuple[int, int]] = []

    def before(name: str, nth: int) -> None:
        partial = TransferCursor.load(task_env.read(task).cursor).partial
        if partial is not None and partial.stored is None:
            sizes.append((partial.receipt_count, len(orjson.dumps(task_env.read(task).cursor))))

    task_env.run(task, before)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE * 2})
    counts, lengths = zip(*sizes, strict=True)
    assert counts[:3] == (1, 2, 3)
    assert max(lengths) == min(lengths)


@pytest.mark.parametrize("damage", [b"", b"[0", None])
def test_a_file_whose_receipts_are_lost_is_begun_anew(
    task_env: TaskEnv, target: Side, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    source.put("f", LARGE)
    if isinstance(target, Disk):
        monkeypatch.setattr(type(task_env.driver(target.mount)), "plan_part_copies", lambda self, source: (0, 0))
    monkeypatch.setattr(steps.Run, "has_time", lambda self: False)
    task = task_env.copy(source.mount, target.mount, "f")

    def lose(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 1):
            (receipts,) = (task_env.folder / "staging" / f"{task.id}.parts").iterdir()
            receipts.unlink() if damage is None else receipts.write_bytes(damage)

    task_env.run(task, lose)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE})
    assert (target.unfinished(), task_env.list_staged()) == ([], [])
