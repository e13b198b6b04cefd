"""What a run of the machine `index` makes of a storage: the tree itself, whatever was there before."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.paths import TreePath
from mangrove.core.problems import Forbidden, Unreachable
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.scan import FolderScan
from mangrove.records import storages
from mangrove.records.files import index_marks
from mangrove.search.segments import SegmentStore
from mangrove.tasks.core.kinds import State
from mangrove.tasks.index import indexing
from mangrove.tasks.index import worker as index
from mangrove.tree import mounts
from tests.indexes import Names, read_disk, read_index
from tests.task_env import Bucket, Disk, TaskEnv

FILES = ("a", "one/b", "one/deep/er/c", "two/d", "two/Ünï", "日本/語")


@pytest.fixture
def indexed(task_env: TaskEnv) -> TaskEnv:
    task_env.set(search_index="database", auto_update_index="true")
    return task_env


@pytest.fixture
def disk(indexed: TaskEnv) -> Disk:
    """The only storage, with some files."""
    for storage in storages.all():
        storages.delete(storage.id)
    made = indexed.disk()
    for number, name in enumerate(FILES):
        made.put(name, bytes(number))
    return made


def find_id(disk: Disk | Bucket) -> int:
    return next(storage.id for storage in storages.all() if storage.mount_path == disk.mount)


def read(env: TaskEnv, disk: Disk | Bucket) -> Names | None:
    return env.do(read_index(find_id(disk)))


def build(env: TaskEnv) -> None:
    env.do(indexing.build_all())
    env.run_all()


def mark(disk: Disk, path: str, *, deep: bool = False) -> None:
    index_marks.put(find_id(disk), [(path, deep)])


def fold_marks(env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run for the marks of just now, as if they were older."""
    monkeypatch.setattr(index_marks, "SLACK_SECONDS", -1.0)
    env.do(indexing.update([]))
    env.run_all()


def get_error(env: TaskEnv) -> str:
    return env.do(indexing.read_progress()).error


def test_a_build_makes_the_index_equal_to_the_tree(indexed: TaskEnv, disk: Disk) -> None:
    build(indexed)
    assert read(indexed, disk) == read_disk(disk.root)
    progress = indexed.do(indexing.read_progress())
    assert (progress.obj_count, progress.is_done, progress.error) == (len(read_disk(disk.root)), True, "")
    assert progress.last_done_time is not None
    assert indexed.list_staged() == []


def test_a_bucket_is_indexed_as_a_disk_is(indexed: TaskEnv, disk: Disk) -> None:
    bucket = indexed.bucket()
    for name in FILES:
        bucket.put(name, b"x")
    build(indexed)
    found = read(indexed, bucket)
    assert found is not None
    assert {path for path, size in found.items() if size is not None} == {f"/{name}" for name in FILES}


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_slices_of_any_length_come_to_the_same(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(index, "BATCH", batch)
    monkeypatch.setattr("mangrove.tasks.core.steps.Run.has_time", lambda run: False)
    build(indexed)
    build(indexed)
    assert read(indexed, disk) == read_disk(disk.root)
    assert list_files(disk) == read_manifest(indexed, disk)


def list_files(disk: Disk) -> list[str]:
    data = config().data
    assert data is not None
    return sorted(path.name for path in (data / "index" / str(find_id(disk))).iterdir() if path.suffix != ".json")


def read_manifest(env: TaskEnv, disk: Disk) -> list[str]:
    """The files that the present index is made of."""
    manifest = env.do(runtime.get(SegmentStore).read_manifest(find_id(disk)))
    assert manifest is not None
    return sorted(manifest.files)


def test_what_the_settings_leave_out_is_left_out(indexed: TaskEnv, disk: Disk) -> None:
    indexed.set(ignore_paths=f"{disk.mount}/one\n{disk.mount}/two/d", max_index_depth="3")
    disk.put("x/y/z", b"")
    build(indexed)
    assert read(indexed, disk) == {
        "/a": 0,
        "/two": None,
        "/two/Ünï": 4,
        "/日本": None,
        "/日本/語": 5,
        "/x": None,
        "/x/y": None,
    }


def test_a_link_to_a_folder_is_named_and_not_entered(indexed: TaskEnv, disk: Disk) -> None:
    (disk.root / "link").symlink_to(disk.root)
    build(indexed)
    assert read(indexed, disk) == read_disk(disk.root) | {"/link": None}


def test_an_alias_that_shows_itself_ends(indexed: TaskEnv, disk: Disk) -> None:
    alias = indexed.mount("Alias", {"paths": "/"})
    build(indexed)
    (id,) = (storage.id for storage in storages.all() if storage.mount_path == alias)
    found = indexed.do(read_index(id))
    assert found is not None
    assert {path for path in found if path.startswith(disk.mount)} == {
        disk.mount, *(f"{disk.mount}{path}" for path in read_disk(disk.root))
    }  # fmt: skip
    assert not [path for path in found if path.count(alias) > 1]


@pytest.mark.parametrize(
    ("paths", "deep"),
    [(["/"], True), (["/two", "/"], False), (["/new", "/", "/two"], False), (["/two", "/new/er"], True)],
)
def test_a_run_for_marks_reads_what_is_marked_and_what_is_new(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch, paths: Collection[str], deep: bool
) -> None:
    build(indexed)
    disk.put("new/er/f", b"new")
    (disk.root / "two" / "d").rename(disk.root / "two" / "e")
    (disk.root / "one").rename(disk.root / "two" / "moved")
    for path in paths:
        mark(disk, path, deep=deep)
    if deep and "/" not in paths:
        mark(disk, "/")
    fold_marks(indexed, monkeypatch)
    assert read(indexed, disk) == read_disk(disk.root)
    assert index_marks.list_of(find_id(disk), 9) == []


def test_a_folder_that_is_a_file_now_and_a_file_that_is_a_folder(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)
    (disk.root / "a").unlink()
    disk.put("a/in", b"")
    (disk.root / "two" / "d").unlink()
    (disk.root / "two" / "Ünï").unlink()
    (disk.root / "two").rmdir()
    disk.put("two", b"file")
    for path in ("/", "/two", "/gone/for/good"):
        mark(disk, path)
    fold_marks(indexed, monkeypatch)
    assert read(indexed, disk) == read_disk(disk.root)


def test_a_mark_that_was_noted_anew_meanwhile_stays(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)
    mark(disk, "/two")

    def note(name: str, call: int) -> None:
        if name == "Settle":
            mark(disk, "/two")

    monkeypatch.setattr(index_marks, "SLACK_SECONDS", -1.0)
    indexed.do(indexing.update([]))
    indexed.run_all(note)
    assert [one.path for one in index_marks.list_of(find_id(disk), 9)] == ["/two"]


def test_a_mark_of_just_now_waits_for_the_next_run(indexed: TaskEnv, disk: Disk) -> None:
    mark(disk, "/two")
    build(indexed)
    assert [one.path for one in index_marks.list_of(find_id(disk), 9)] == ["/two"]


def test_an_update_reads_the_paths_that_are_given_as_deep_as_is_asked(indexed: TaskEnv, disk: Disk) -> None:
    build(indexed)
    before = read_disk(disk.root)
    for name in ("one/x", "one/deep/x", "one/deep/er/x", "two/x"):
        disk.put(name, b"new")
    indexed.do(indexing.update([f"{disk.mount}/one"], 2))
    indexed.run_all()
    assert read(indexed, disk) == before | {"/one/x": 3, "/one/deep/x": 3}
    indexed.do(indexing.update(["/"]))
    indexed.run_all()
    assert read(indexed, disk) == read_disk(disk.root)


def break_listing(monkeypatch: pytest.MonkeyPatch, path: str, problem: Exception) -> None:
    """That folder of every disk cannot be listed."""
    make_scan = Local.make_scan

    def fail(self: Local, wanted: TreePath) -> FolderScan:
        if wanted == path and "index" not in self.root.real:
            raise problem
        return make_scan(self, wanted)

    monkeypatch.setattr(Local, "make_scan", fail)


def test_a_folder_that_cannot_be_read_keeps_what_the_index_says_of_it(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)
    before = read_disk(disk.root)
    disk.put("one/unseen", b"")
    disk.put("two/seen", b"")
    (disk.root / "a").unlink()
    break_listing(monkeypatch, "/one", Forbidden())
    build(indexed)
    wanted = before | {"/two/seen": 0}
    del wanted["/a"]
    assert read(indexed, disk) == wanted
    assert "1 folder is not read: /one: permission denied" in get_error(indexed)


def test_a_storage_that_dies_in_the_middle_keeps_its_index_and_says_so(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)
    before = read(indexed, disk)
    disk.put("two/unseen", b"")
    break_listing(monkeypatch, "/one", Unreachable("gone away"))
    build(indexed)
    assert read(indexed, disk) == before
    progress = indexed.do(indexing.read_progress())
    assert "gone away" in progress.error and progress.obj_count == len(before or ())
    assert list_files(disk) == read_manifest(indexed, disk), "what the run has left is gone"


def test_a_storage_that_does_not_start_says_why(indexed: TaskEnv, disk: Disk) -> None:
    indexed.mount("Local", {"root_folder_path": "/nowhere/at/all"})
    build(indexed)
    assert read(indexed, disk) == read_disk(disk.root)
    assert "object not found" in get_error(indexed)


def test_a_run_that_is_stopped_leaves_the_index_as_it_was(indexed: TaskEnv, disk: Disk) -> None:
    build(indexed)
    before = read(indexed, disk)
    disk.put("unseen", b"")
    indexed.do(indexing.build_all())
    indexed.do(indexing.stop())
    indexed.run_all()
    assert read(indexed, disk) == before
    assert indexed.do(indexing.read_progress()).is_done


def test_a_storage_without_an_index_is_none_and_a_virtual_one_has_none(indexed: TaskEnv, disk: Disk) -> None:
    virtual = indexed.mount("Virtual", {})
    build(indexed)
    (id,) = (storage.id for storage in storages.all() if storage.mount_path == virtual)
    assert indexed.do(read_index(id)) is None
    storages.change(find_id(disk), disable_index=True)
    indexed.do(indexing.refresh())
    indexed.run_all()
    assert indexed.do(runtime.get(SegmentStore).read_manifest(find_id(disk))) is None
    assert indexed.do(mounts.ready()).by_id
    assert indexed.do(indexing.read_progress()).error == ""
    assert State.SUCCEEDED
