"""Small uploads that are stored together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from mangrove.core.problems import AccessDenied, BadRequest, EntryExists, NameConflict, Unreachable
from mangrove.drivers.base import NewFile, Upload
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Right
from mangrove.tree.operations import small_uploads
from mangrove.tree.operations.small_uploads import SmallUpload
from tests.unit.tree.environment import TreeEnv, find_files

NAMES = [f"new/{number}" for number in range(40)]


def write(tree: TreeEnv, *paths: str, overwrite: bool = False, **hashes: str) -> list[type[BaseException] | None]:
    """Store files, each with its path as the content; the class of each failure."""
    files = [
        SmallUpload(tree.access(path, Right.WRITE), path.encode(), Upload(len(path.encode()), 7.0), hashes)
        for path in paths
    ]
    problems = tree.run(small_uploads.write(files, overwrite=overwrite))
    return [None if problem is None else type(problem) for problem in problems]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files of each call of the driver."""
    counts: list[int] = []
    write_whole = Local.write_whole

    async def count(driver: Local, files: Sequence[NewFile]) -> Any:
        counts.append(len(files))
        return await write_whole(driver, files)

    monkeypatch.setattr(Local, "write_whole", count)
    return counts


def test_files_of_one_storage_are_stored_in_one_call(tree: TreeEnv, calls: list[int]) -> None:
    disk, other = tree.mount_disk(), tree.mount_disk("/other")
    assert write(tree, *(f"/disk/{name}" for name in NAMES), "/other/file") == [None] * 41
    assert find_files(disk) == {*NAMES}
    assert find_files(other) == {"file"}
    assert (disk / NAMES[7]).read_text() == f"/disk/{NAMES[7]}"
    assert (disk / NAMES[7]).stat().st_mtime == 7.0
    assert calls == [40, 1]
    assert len(list(tree.run(tree.access("/disk/new").list_folder()).entries)) == 40


def test_refused_files_leave_the_others(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "old", "folder/x")
    paths = ["/disk/old", "/disk/folder", "/disk/old/below", "/disk/new", "/disk/.DS_Store"]
    tree.set(ignore_system_files="true")
    outcomes = write(tree, *paths)
    assert outcomes[:2] == [NameConflict, NameConflict]
    assert outcomes[2] is not None and issubclass(outcomes[2], EntryExists)
    assert outcomes[3:] == [None, AccessDenied]
    assert write(tree, *paths[:2], overwrite=True) == [None, EntryExists]
    assert find_files(disk) == {"old", "folder/x", "new"}
    assert (disk / "old").read_text() == "/disk/old"


def test_file_with_a_wrong_hash_is_not_stored(tree: TreeEnv) -> None:
    disk = tree.mount_disk()
    sha256 = hashlib.sha256(b"/disk/a").hexdigest().upper()
    assert write(tree, "/disk/a", "/disk/b", sha256=sha256) == [None, BadRequest]
    assert find_files(disk) == {"a"}


def test_storage_that_does_not_answer_fails_all_of_its_files(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Local, __: Sequence[NewFile]) -> Any:
        raise Unreachable

    tree.mount_disk()
    monkeypatch.setattr(Local, "write_whole", fail)
    assert write(tree, "/disk/a", "/disk/b") == [Unreachable] * 2


def test_storage_without_such_a_call_stores_them_one_by_one(tree: TreeEnv, calls: list[int]) -> None:
    disk = tree.mount_disk()
    tree.mount("/alias", "Alias", options={"paths": "/disk", "put_conflict_policy": "all"})
    assert write(tree, "/alias/a", "/alias/b") == [None, None]
    assert find_files(disk) == {"a", "b"}
    assert calls == [1, 1]
