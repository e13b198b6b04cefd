"""The result of a run of the machine `index`: the tree itself, whatever the index was before."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageForbidden, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.scan import FolderScan
from mangrove.identity.rights import Right
from mangrove.records import index_changes, storages
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.search import words
from mangrove.search.find import find
from mangrove.search.query import Filters
from mangrove.search.segments import SegmentStore
from mangrove.tasks.core.model import State
from mangrove.tasks.index import indexing, walk
from mangrove.tasks.index import worker as index
from mangrove.tree import mounts
from mangrove.tree.operations import changes, transfers, uploads
from mangrove.tree.operations.change_log import INTENT_EXPIRY_SECONDS
from mangrove.tree.operations.plans import TransferRequest
from tests.support.indexes import Names, read_disk, read_index
from tests.support.task_env import Bucket, Disk, TaskEnv
from tests.unit.tree.environment import stream

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


def request_read(disk: Disk, path: str, *, deep: bool = False) -> None:
    index_changes.add(IndexChange(find_id(disk), ChangeKind.READ, path, deep))


def list_reads(disk: Disk) -> list[str]:
    return [change.path for change in index_changes.read_of(find_id(disk)) if change.kind is not ChangeKind.INDEX]


def merge(env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run for the changes of just now, as if they were older."""
    monkeypatch.setattr(index, "MERGED_SECONDS", -1.0)
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
    index_rows = read(indexed, bucket)
    assert index_rows is not None
    assert {path for path, size in index_rows.items() if size is not None} == {f"/{name}" for name in FILES}


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_slices_of_any_length_come_to_the_same(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(walk, "MAX_BATCH_FOLDERS", batch)
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
    index_rows = indexed.do(read_index(id))
    assert index_rows is not None
    assert {path for path in index_rows if path.startswith(disk.mount)} == {
        disk.mount, *(f"{disk.mount}{path}" for path in read_disk(disk.root))
    }  # fmt: skip
    assert not [path for path in index_rows if path.count(alias) > 1]


@pytest.mark.parametrize(
    ("paths", "deep"),
    [(["/"], True), (["/two", "/"], False), (["/new", "/", "/two"], False), (["/two", "/new/er"], True)],
)
def test_update_reads_what_is_asked_for_and_what_is_new(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch, paths: Collection[str], deep: bool
) -> None:
    build(indexed)
    disk.put("new/er/f", b"new")
    (disk.root / "two" / "d").rename(disk.root / "two" / "e")
    (disk.root / "one").rename(disk.root / "two" / "moved")
    for path in paths:
        request_read(disk, path, deep=deep)
    if deep and "/" not in paths:
        request_read(disk, "/")
    merge(indexed, monkeypatch)
    assert read(indexed, disk) == read_disk(disk.root)
    assert list_reads(disk) == []


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
        request_read(disk, path)
    merge(indexed, monkeypatch)
    assert read(indexed, disk) == read_disk(disk.root)


def test_read_that_is_asked_for_meanwhile_stays(indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    build(indexed)
    request_read(disk, "/two")

    def note(name: str, call: int) -> None:
        if name == "Settle":
            time.sleep(0.01)
            request_read(disk, "/two")

    monkeypatch.setattr(index, "MERGED_SECONDS", 0.0)
    indexed.do(indexing.update([]))
    indexed.run_all(note)
    assert list_reads(disk) == ["/two"]


def test_read_below_a_name_removed_just_now_is_repeated(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)
    index_changes.add(IndexChange(find_id(disk), ChangeKind.NAMES, "/", removed=("two",)))
    request_read(disk, "/", deep=False)
    request_read(disk, "/two", deep=True)
    indexed.do(indexing.update([]))
    indexed.run_all()
    assert sorted(list_reads(disk)) == ["/", "/", "/two"]  # the removal, and both reads
    merge(indexed, monkeypatch)
    assert read(indexed, disk) == read_disk(disk.root)
    assert list_reads(disk) == []


def test_change_of_just_now_waits_for_the_next_run(indexed: TaskEnv, disk: Disk) -> None:
    index_changes.add(IndexChange(find_id(disk), ChangeKind.NAMES, "/two"))
    build(indexed)
    assert list_reads(disk) == ["/two"]


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

    def fail(self: Local, requested_path: TreePath) -> FolderScan:
        if requested_path == path and "index" not in self.root.real:
            raise problem
        return make_scan(self, requested_path)

    monkeypatch.setattr(Local, "make_scan", fail)


def test_a_folder_that_cannot_be_read_keeps_what_the_index_says_of_it(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)
    before = read_disk(disk.root)
    disk.put("one/unseen", b"")
    disk.put("two/seen", b"")
    (disk.root / "a").unlink()
    break_listing(monkeypatch, "/one", StorageForbidden())
    build(indexed)
    expected = before | {"/two/seen": 0}
    del expected["/a"]
    assert read(indexed, disk) == expected
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


def test_update_merges_changes_without_reading_a_folder(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(indexed)

    def at(path: str, right: Right) -> Any:
        return indexed.access(f"{disk.mount}{path}", right)

    indexed.do(uploads.write(at("/new/deep/f", Right.WRITE), stream(b"xyz"), Upload(3, 1.0), hashes={}))
    indexed.do(transfers.rename(at("/one/deep", Right.RENAME), "high", False))
    indexed.do(transfers.rename(at("/one/b", Right.RENAME), "B", False))
    indexed.do(
        transfers.transfer(TransferRequest(Right.COPY, at("/one", Right.COPY), at("/new", Right.COPY), ["high"]))
    )
    indexed.do(changes.remove(at("/two", Right.DELETE), ["d"]))
    indexed.do(changes.remove(at("/", Right.DELETE), ["日本"]))
    expected = read_disk(disk.root)
    with monkeypatch.context() as patch:
        for path in ("/", "/new", "/new/deep", "/one", "/one/high", "/two"):
            break_listing(patch, path, AssertionError("a folder is read"))
        merge(indexed, patch)
    assert read(indexed, disk) == expected
    assert [change.kind for change in index_changes.read_of(find_id(disk)) if change.kind != "intent"] == ["index"]
    indexed.run_all()
    build(indexed)
    assert read(indexed, disk) == read_disk(disk.root)


def test_intent_of_a_process_that_died_has_its_folder_read(indexed: TaskEnv, disk: Disk) -> None:
    build(indexed)
    disk.put("two/left", b"behind")
    id = find_id(disk)
    old = index_changes.make_number(time.time() - 2 * INTENT_EXPIRY_SECONDS - 1) + "-x"
    index_changes.write([IndexChange(id, ChangeKind.INTENT, "/two", number=old)])
    index_changes.add(IndexChange(id, ChangeKind.INTENT, "/one"))
    indexed.do(indexing.refresh())
    indexed.run_all()
    assert read(indexed, disk) == read_disk(disk.root)
    assert list_reads(disk) == ["/one"], "its process goes on"


def test_move_during_a_walk_has_its_folders_read(indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    build(indexed)

    def move(name: str, call: int) -> None:
        if name == "Settle":
            access = indexed.access(f"{disk.mount}/one", Right.RENAME)
            indexed.do(transfers.rename(access, "three", False))

    indexed.do(indexing.build_all())
    indexed.run_all(move)
    assert [change.path for change in index_changes.read() if change.kind is ChangeKind.READ] == ["/one", "/three"]
    merge(indexed, monkeypatch)
    assert read(indexed, disk) == read_disk(disk.root)


def test_searches_find_what_a_first_build_has_read(
    indexed: TaskEnv, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MAX_BATCH_FOLDERS", 1)
    monkeypatch.setattr("mangrove.tasks.core.steps.Run.has_time", lambda run: False)
    seen: list[tuple[int, bool]] = []

    def look(name: str, call: int) -> None:
        page = indexed.do(find(indexed.access(disk.mount, Right.READ), Filters(words.parse("*")), 0, 100))
        seen.append((page.total, page.is_partial))

    indexed.do(indexing.build_all())
    indexed.run_all(look)
    look("", 0)
    totals = [total for total, _ in seen]
    assert totals == sorted(totals) and len({*totals}) > 3
    assert [is_partial for _, is_partial in seen].index(False) == len(seen) - 1
    assert seen[-1] == (len(read_disk(disk.root)), False)
