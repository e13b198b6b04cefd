"""Specs and cursors: stored with a version, and read as they were stored before there were versions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mangrove.core.problems import UnreadableTask
from mangrove.drivers.base import Entry
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task, TaskRecord
from mangrove.tasks.core import steps
from mangrove.tasks.core.kinds import KINDS
from mangrove.tasks.core.specs import (
    DecompressCursor,
    DecompressSpec,
    DownloadCursor,
    DownloadSpec,
    PartialFile,
    SourceVersion,
    TaskModel,
    TransferCursor,
    TransferSpec,
)
from mangrove.tasks.download import worker as download
from mangrove.tasks.transfer import batches
from tests import origin
from tests.task_env import Before, TaskEnv
from tests.unit.tasks.copying import LARGE, SUCCEEDED
from tests.unit.tasks.test_decompress import pack

pytestmark = pytest.mark.usefixtures("small_parts")

OLD: list[tuple[TaskModel, str]] = [
    (
        TransferSpec(source="/a/b", password="p", target_dir="/c", name="b", overwrite=True, keep_existing=True),
        '{"source":"/a/b","password":"p","staged":"","target":"/c","name":"b","overwrite":true,"leave":true,'
        '"policy":"delete_on_upload_succeed"}',
    ),
    (
        TransferSpec(staged="/id.0/body/f", target_dir="/c", name="", overwrite=False, delete_policy="delete_never"),
        '{"source":"","password":"","staged":"/id.0/body/f","target":"/c","name":"","overwrite":false,"leave":false,'
        '"policy":"delete_never"}',
    ),
    (
        DownloadSpec(url="https://e.org/f", tool="aria2", delete_policy="delete_always", target_dir="/c"),
        '{"url":"https://e.org/f","tool":"aria2","policy":"delete_always","target":"/c"}',
    ),
    (
        DecompressSpec(
            source="/a.zip", password="p", archive_password="q", inner="/in", cache_full=True, target_dir="/c",
            name="a", overwrite=True,
        ),
        '{"source":"/a.zip","password":"p","archive_pass":"q","inner":"/in","cache_full":true,"target":"/c","name":"a",'
        '"overwrite":true}',
    ),
    (TransferCursor(), "{}"),
    (
        TransferCursor(folder_count=3, folders_walked=2, entry_count=9, total=70),
        '{"folders":3,"walked":2,"entries":9,"bytes":0,"total":70}',
    ),
    (
        TransferCursor(
            attempt=1, planned=True, folder_count=3, folders_walked=3, entry_count=9, position=4, round=1,
            failed_count=2, bytes_done=50, total=70, errors=["f: no"], folders_left=1,
            partial=PartialFile(path="/c/f", key="1-a", token="t", length=5, receipts=["r", ""]),
        ),
        '{"folders":3,"walked":3,"entries":9,"bytes":50,"planned":true,"turn":1,"at":4,"round":1,"failed":2,'
        '"total":70,"errors":["f: no"],"untidied":1,'
        '"file":{"path":"/c/f","key":"1-a","token":"t","length":5,"receipts":["r",""]}}',
    ),
    (
        DownloadCursor(attempt=0, started=7.5, token="gid", missed=2, shared=True),
        '{"turn":0,"begun":7.5,"token":"gid","missed":2,"shared":true}',
    ),
    (
        DownloadCursor(
            attempt=2, started=7.5, complete=True,
            partial=PartialFile(
                path="/id.2/body/f", key="1-a", token="t", length=8, receipts=["r"], size=8, validator="v"
            ),
        ),
        '{"turn":2,"begun":7.5,"whole":true,"file":{"path":"/id.2/body/f","key":"1-a","token":"t","receipts":["r"],'
        '"size":8,"length":8,"validator":"v"}}',
    ),
    (
        DecompressCursor(
            attempt=0, position=3, bytes_done=40, files=2, refused=1, errors=["x: no"], folders_made=True, cached=True,
            archive=SourceVersion(100, 1.5, "tag"), chained=True,
        ),
        '{"turn":0,"at":3,"bytes":40,"files":2,"refused":1,"errors":["x: no"],"folders":true,"cached":true,'
        '"archive":[100,1.5,"tag"],"handed":true}',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("model", "stored"), OLD)
def test_records_of_the_time_before_versions_are_read(model: TaskModel, stored: str) -> None:
    assert type(model).load(orjson.loads(stored)) == model


@pytest.mark.parametrize(("model", "stored"), OLD)
def test_what_is_stored_now_has_a_version_and_is_read_back(model: TaskModel, stored: str) -> None:
    new = orjson.loads(orjson.dumps(model.dump()))
    assert new["version"] == 1
    assert type(model).load(new) == model


@pytest.mark.parametrize("stored", [{"version": 2}, {"version": "1"}, {"version": 1, "position": "x"}, {"at": []}])
def test_what_another_version_of_the_service_stored_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(UnreadableTask, match="another version"):
        TransferCursor.load(stored)


def test_a_source_version_fits_the_same_file_only() -> None:
    file = Entry("f", 3, 1.5, False, etag="x")
    was = SourceVersion.of(file)
    assert was.matches(file)
    assert was.matches(file._replace(modified=1.0))  # servers cut the time of a single file to seconds
    assert SourceVersion(3, 1.5, "").matches(file)  # a listing may know no tag
    assert was.matches(file._replace(etag=""))
    assert not was.matches(file._replace(modified=2.5))
    assert not SourceVersion(3, 2.5, "").matches(file)
    assert SourceVersion(3, 1.5, "").matches(file._replace(etag=""))
    assert not SourceVersion(3, 2.5, "").matches(file._replace(etag=""))
    for other in (None, file._replace(size=4), file._replace(etag="y"), file._replace(is_dir=True)):
        assert not was.matches(other)


OLD_SPEC = {
    "target_dir": "target", "keep_existing": "leave", "delete_policy": "policy", "archive_password": "archive_pass",
}  # fmt: skip
OLD_CURSORS = {
    "copy": {
        "attempt": "turn", "partial": "file", "bytes_done": "bytes", "position": "at", "entry_count": "entries",
        "folder_count": "folders", "failed_count": "failed", "folders_walked": "walked", "folders_left": "untidied",
    },
    "offline_download": {"attempt": "turn", "partial": "file", "started": "begun", "complete": "whole"},
    "decompress": {
        "attempt": "turn", "partial": "file", "bytes_done": "bytes", "position": "at", "folders_made": "folders",
        "chained": "handed",
    },
}  # fmt: skip


def age(task: Task) -> None:
    """Make a task's record one of the time before versions: other keys; of the cursor only what had been set."""
    keys = OLD_CURSORS.get(task.kind, OLD_CURSORS["copy"])
    spec = {OLD_SPEC.get(key, key): value for key, value in task.spec.items() if key != "version"}
    cursor = {keys.get(key, key): value for key, value in task.cursor.items() if value and key != "version"}
    if task.cursor.get("attempt") == 0:
        cursor[keys["attempt"]] = 0
    record = TaskRecord.get(task.id)
    record.spec, record.cursor = orjson.dumps(spec).decode(), orjson.dumps(cursor).decode()
    record.save()


def age_always(aged: list[str]) -> Before:
    """Before every call of a worker the records of all tasks are made old."""

    def before(name: str, nth: int) -> None:
        for id in [id for kind in KINDS for id in task_lists.list_unfinished(kind).ids]:
            age(records.get(id))
            task = records.get(id)
            assert "version" not in {**task.spec, **task.cursor}
            aged.append(name)

    return before


@pytest.mark.parametrize("verb", ["copy", "offline_download", "decompress"])
def test_workers_go_on_with_half_done_tasks_of_the_time_before_versions(
    task_env: TaskEnv, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    monkeypatch.setattr(batches, "BATCH", 1)
    monkeypatch.setattr(batches, "DIRECT_BATCH", 1)
    monkeypatch.setattr(steps, "KEEP_SECONDS", 0)
    monkeypatch.setattr(download, "PART", 64 << 10)
    source, target = task_env.disk(), task_env.bucket()
    files = {"tree/a": b"a", "tree/d/b": b"b", "tree/large": LARGE * 2}
    aged: list[str] = []
    if verb == "copy":
        for name, content in files.items():
            source.put(name, content)
        task_env.copy(source.mount, target.mount, "tree")
        task_env.run_all(age_always(aged))
    elif verb == "decompress":
        source.put("a.zip", pack(files))
        task_env.decompress(source.mount, target.mount, "a.zip", cache_full=True)
        task_env.run_all(age_always(aged))
    else:
        task_env.set(offline_download_allowed_hosts="127.0.0.1")
        files = {"file.bin": LARGE[: 500 << 10]}
        with origin.origin() as web:
            task_env.download(target.mount, web.at("/file.bin", origin.file(files["file.bin"])))
            task_env.run_all(age_always(aged))
    assert target.files() == files
    assert len(aged) > 8
    rows = [row for kind in KINDS for row in task_lists.list_rows(kind, True)]
    assert {(row.view.state, row.view.error) for row in rows} == {SUCCEEDED}
    assert (target.unfinished(), task_env.list_staged()) == ([], [])
