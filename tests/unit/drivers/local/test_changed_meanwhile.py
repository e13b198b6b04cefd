"""Other callers change the same names between two steps of a call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath as P
from mangrove.core.problems import EntryExists, EntryNotFound
from mangrove.drivers.local import folders, removal, tmpfile
from mangrove.drivers.local.copy import RangeCopier
from mangrove.drivers.local.folders import make_folders
from mangrove.drivers.local.removal import Remover
from mangrove.drivers.local.rooted import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(str(tmp_path))


def do_before(monkeypatch: pytest.MonkeyPatch, name: str, others: list[Callable[[], object]]) -> None:
    """Call one of `others`, the last one first, before each call of `os.NAME`."""
    call = getattr(os, name)

    def change_and_call(*args: Any, **options: Any) -> Any:
        if others:
            others.pop()()
        return call(*args, **options)

    monkeypatch.setattr(os, name, change_and_call)


def remove(root: Root, path: str) -> None:
    Remover(root, "", RangeCopier()).remove(P(path))


def test_folders_are_made_while_their_parents_are_removed(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed: list[P] = []
    do_before(monkeypatch, "mkdir", [(tmp_path / "a").rmdir, lambda: None])
    make_folders(root, P("/a/b"), 0o777, noticed.append)
    assert (tmp_path / "a" / "b").is_dir()
    assert noticed == ["/a", "/a", "/a/b"]


def test_a_folder_that_is_always_removed_is_missing_in_the_end(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_parent() -> None:
        if (tmp_path / "a").exists():
            (tmp_path / "a").rmdir()

    do_before(monkeypatch, "mkdir", [remove_parent] * 2 * folders.ATTEMPTS)
    with pytest.raises(EntryNotFound):
        make_folders(root, P("/a/b"), 0o777, lambda step: None)


def test_a_folder_is_not_made_below_a_file(root: Root, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("file")
    for path in ("/a", "/a/b"):
        with pytest.raises(EntryExists):
            make_folders(root, P(path), 0o777, lambda step: None)


def test_a_folder_is_removed_with_a_file_that_is_added_meanwhile(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    do_before(monkeypatch, "rmdir", [lambda: (tmp_path / "a" / "new").write_text("new")])
    remove(root, "/a")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_always_filled_stays(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    do_before(monkeypatch, "rmdir", [lambda: (tmp_path / "a" / "new").write_text("new")] * removal.ATTEMPTS)
    with pytest.raises(EntryExists):
        remove(root, "/a")
    assert (tmp_path / "a" / "new").read_text() == "new"


def test_a_folder_that_takes_the_name_of_a_file_meanwhile_is_removed(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_by_folder() -> None:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()

    (tmp_path / "a").write_text("file")
    do_before(monkeypatch, "unlink", [replace_by_folder])
    remove(root, "/a")
    assert os.listdir(tmp_path) == ["b"]


def test_a_file_in_a_removed_folder_has_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    folder = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        (tmp_path / "a").rmdir()
        with pytest.raises(FileNotFoundError):
            os.close(tmpfile.create(folder, "part"))
    finally:
        os.close(folder)
