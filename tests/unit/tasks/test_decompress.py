"""Archives extracted as tasks: which members, where to, what is refused, and what is left in staging."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry
from mangrove.tasks.core import queue, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.decompress import worker as decompress
from mangrove.tasks.decompress.declaration import DecompressCursor
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import SUCCEEDED

FILES = {"in/a": b"a", "in/deep/b": b"bb", "out/c": b"ccc"}


def pack(files: Mapping[str, bytes]) -> bytes:
    """A zip archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return content.getvalue()


@pytest.mark.parametrize(
    ("inner", "files"),
    [
        ("/", FILES),
        ("/in", {"in/a": b"a", "in/deep/b": b"bb"}),
        ("/in/deep", {"deep/b": b"bb"}),
        ("/out/c", {"c": b"ccc"}),
    ],
)
@pytest.mark.parametrize("into_new_dir", [False, True])
def test_of_an_archive_arrives_what_was_asked_for(
    task_env: TaskEnv, inner: str, files: dict[str, bytes], into_new_dir: bool
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack(FILES))
    task = task_env.decompress(source.mount, target.mount, "a.zip", inner=inner, into_new_dir=into_new_dir)
    task_env.run_all()
    above = "a/" if into_new_dir else ""
    assert target.files() == {f"{above}{name}": content for name, content in files.items()}
    assert (task_env.view(task), task_env.list_staged()) == (SUCCEEDED, [])
    assert task_env.read(task).view.total_bytes == sum(map(len, files.values()))


def test_what_is_not_in_the_archive_fails_and_leaves_nothing(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack(FILES))
    task = task_env.decompress(source.mount, target.mount, "a.zip", inner="/nothing")
    task_env.run_all()
    assert task_env.view(task) == (State.FAILED, "object not found")
    assert (target.files(), task_env.list_staged()) == ({}, [])


def test_an_archive_that_changes_midway_goes_nowhere(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    monkeypatch.setattr(decompress, "is_enough", lambda skipping, work: True)  # however busy this machine is
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack(FILES))
    task = task_env.decompress(source.mount, target.mount, "a.zip")

    def before(name: str, nth: int) -> None:
        if (name, nth) == ("Extract", 1):
            source.put("a.zip", pack({"in/a": b"another one"}))

    task_env.run(task, before)
    assert task_env.view(task) == (State.FAILED, "the source changed since the task began")
    assert (target.files(), task_env.list_staged()) == ({}, [])


def test_a_retry_extracts_anew(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", b"no archive" * 100)
    task = task_env.decompress(source.mount, target.mount, "a.zip")
    task_env.run_all()
    assert task_env.view(task)[0] == State.FAILED
    source.put("a.zip", pack(FILES))
    queue.retry("decompress", task.id, task_env.caller())
    task_env.run_all()
    assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    cursor = DecompressCursor.load(task_env.read(task).cursor)
    assert (cursor.attempt, cursor.files, cursor.bytes_done, cursor.chained) == (1, 3, 6, True)


def test_an_archive_may_not_extract_to_more_than_the_limit(task_env: TaskEnv) -> None:
    task_env.set(archive_max_size="1", archive_max_ratio="0")
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack({"large": bytes(2 << 20)}))
    task = task_env.decompress(source.mount, target.mount, "a.zip")
    task_env.run_all()
    assert task_env.view(task)[0] == State.FAILED
    assert (target.files(), task_env.list_staged()) == ({}, [])


@pytest.mark.parametrize("cache_full", [False, True])
def test_an_archive_of_unknown_size_can_be_extracted_once_it_is_cached(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch, cache_full: bool
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack(FILES))
    driver = task_env.driver(source.mount)
    stat = driver.stat

    async def stat_without_size(path: TreePath) -> Entry:
        entry: Entry = await stat(path)
        return entry._replace(size=None)

    task = task_env.decompress(source.mount, target.mount, "a.zip", cache_full=cache_full)
    monkeypatch.setattr(driver, "stat", stat_without_size)
    task_env.run_all()
    if cache_full:
        assert (task_env.view(task), target.files()) == (SUCCEEDED, FILES)
    else:
        assert task_env.view(task) == (State.FAILED, "the size of the archive is not known")
        assert target.files() == {}
    assert task_env.list_staged() == []


def test_what_was_cached_is_removed_once_the_transfer_is_open(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("a.zip", pack(FILES))
    task = task_env.decompress(source.mount, target.mount, "a.zip", cache_full=True)
    task_env.run(task_env.started.pop(0))
    (stage,) = task_env.list_staged()
    assert stage == queue.get_stage(task)
    assert [path.name for path in (task_env.folder / "staging" / stage).iterdir()] == ["body"]
    assert not (task_env.folder / "staging" / stage / decompress.ARCHIVE).exists()
    task_env.run_all()
    assert (target.files(), task_env.list_staged()) == (FILES, [])
