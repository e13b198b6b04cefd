"""A large storage that several workers read: the index equals that of a single one, even if some workers die."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mangrove.core import runtime
from mangrove.core.problems import StorageForbidden, Unreachable
from mangrove.records import storages
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import Task
from mangrove.search.index import search_index
from mangrove.search.segments import SegmentStore
from mangrove.tasks.core import sharing
from mangrove.tasks.core.workers import make_handler
from mangrove.tasks.index import indexing, lists, walk
from mangrove.tasks.index import worker as index
from mangrove.tasks.index.worker import PartResult
from tests.support.indexes import read_disk, read_index
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.test_index import break_listing

FOLDERS = [f"{first}/{second}/{third}" for first in "abc" for second in "xyz" for third in range(3)]


class Storage:
    """The only storage, read by several workers, each of which is at an end after one batch of folders."""

    def __init__(self, env: TaskEnv, disk: Disk) -> None:
        self.env = env
        self.disk = disk
        (self.id,) = (storage.id for storage in storages.all())

    def build(self, before: Callable[[str, int], None] = lambda name, nth: None) -> list[str]:
        """The states of the machine that were passed; as in the cloud, every slice is written to the record."""
        self.env.do(indexing.build_all())
        (task,) = self.env.started
        self.env.started.clear()
        return self.env.run(task, before)

    def check(self) -> None:
        assert self.env.do(read_index(self.id)) == read_disk(self.disk.root)
        assert self.env.list_staged() == []

    @property
    def error(self) -> str:
        return self.env.do(indexing.read_progress()).error

    @property
    def task(self) -> Task:
        return tasks.get(indexing.make_task_id(self.id))

    def find_result(self, number: int) -> PartResult | None:
        return self.env.do(index.find_result(self.task.id, 1, number))


@pytest.fixture
def storage(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Storage:
    task_env.set(search_index="database", auto_update_index="true")
    monkeypatch.setattr(sharing, "is_shared", lambda: True)
    monkeypatch.setattr(lists, "MIN_SHARED_FOLDERS", 3)
    monkeypatch.setattr(walk, "MAX_BATCH_FOLDERS", 2)
    monkeypatch.setattr("mangrove.tasks.core.steps.Run.has_time", lambda run: False)
    for storage in storages.all():
        storages.delete(storage.id)
    disk = task_env.disk()
    for number, name in enumerate(FOLDERS):
        disk.put(f"{name}/file {number}", bytes(number))
    return Storage(task_env, disk)


def test_the_index_is_the_tree_and_its_ids_have_no_gaps(storage: Storage) -> None:
    assert storage.build().count("Share") > 1
    storage.check()
    segments = storage.env.do(runtime.get(SegmentStore).open(storage.id))
    assert segments is not None
    files = [str(file) for file in segments.folders]
    ids = storage.env.do(search_index().database.run("select id from read_parquet(?) order by id", [files]))
    assert [id for (id,) in ids] == list(range(1 + 3 + 9 + 27))
    storage.disk.put("a/new/file", b"new")
    storage.env.do(indexing.update(["/"]))
    storage.env.run_all()
    storage.check()


def test_a_worker_that_dies_is_followed_by_another(storage: Storage) -> None:
    begun: list[str] = []

    def die(name: str, nth: int) -> None:
        begun.append(name)
        if name == "Part" and begun.count("Part") in (1, 3, 4, 6):
            raise type("Runtime.ExitError", (Exception,), {})("the function died")

    assert storage.build(die)[-1] == "Settle"
    assert begun.count("Part") > 6 and storage.error == ""
    storage.check()


def test_a_part_that_is_lost_for_ever_ends_the_run(storage: Storage) -> None:
    def fail(name: str, nth: int) -> None:
        if name == "Part":
            raise KeyError(name)

    assert storage.build(fail).count("Share") == sharing.MAX_FRUITLESS_ROUNDS
    assert storage.error.endswith(f": {index.PART_LOST}")
    assert storage.env.do(read_index(storage.id)) is None and storage.env.list_staged() == []


def test_a_part_is_read_once_whoever_runs_its_worker_again(storage: Storage) -> None:
    seen: list[PartResult | None] = []

    handle = make_handler("index", "Part")

    def again(name: str, nth: int) -> None:
        if name == "Walk" and nth == 2:  # after the first parts
            seen.append(storage.find_result(0))
            for round in (0, 1, 2):
                handle({"tid": storage.task.id, "round": round, "part": 0}, None)
            handle({"tid": "unknown", "round": 1, "part": 0}, None)
            seen.append(storage.find_result(0))

    storage.build(again)
    assert seen[0] is not None and seen[0] == seen[1]
    storage.check()


def test_a_storage_that_stops_answering_ends_the_run_with_its_reason(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_listing(monkeypatch, "/b", Unreachable("the disk is out"))
    storage.build()
    assert storage.error.endswith(": the disk is out")
    monkeypatch.undo()
    storage.build()
    assert storage.error == ""
    storage.check()


def test_folders_that_cannot_be_read_are_named(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/a/x", "/c/z/2"):
        break_listing(monkeypatch, path, StorageForbidden())
    storage.build()
    assert "2 folders are not read: /a/x: " in storage.error and "/c/z/2: " in storage.error


def test_a_cancelled_walk_stops_in_all_parts(storage: Storage) -> None:
    def stop(name: str, nth: int) -> None:
        if name == "Part" and nth == 2:
            storage.env.do(indexing.stop())

    storage.build(stop)
    assert storage.task.done
    assert storage.env.do(read_index(storage.id)) is None and storage.env.list_staged() == []
