"""Folders that are kept open: files of it are found as by path, and links lead where they lead otherwise."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotAFile, StorageForbidden
from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local.copy import FileCopier
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.rooted import OpenFolders, Root
from tests.support.platforms import use_cloud
from tests.support.proc import list_open

P = TreePath


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with `a/f`, `a/g`, `b/f`, and links in `a`: to `b/f`, to a file outside and to nothing."""
    folder = tmp_path / "root"
    for path in ("a/f", "a/g", "b/f"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    (tmp_path / "secret").write_text("secret")
    (folder / "a/inner").symlink_to("../b/f")
    (folder / "a/out").symlink_to("../../secret")
    (folder / "a/dead").symlink_to("none")
    return Root(str(folder))


def read(folder: OpenFolders, path: str) -> str:
    handle, status = folder.open_file(P(path))
    content = os.read(handle, 99).decode()
    os.close(handle)
    assert status.st_size == len(content)
    return content


def test_a_file_is_that_of_its_path_whatever_was_asked_for_before(root: Root) -> None:
    with OpenFolders(root) as folder:
        paths = ("/a/f", "/a/g", "/b/f", "/a/inner", "/a/f")
        assert [read(folder, path) for path in paths] == ["a/f", "a/g", "b/f", "b/f", "a/f"]
        for path, problem in (
            ("/a/out", EntryNotFound),
            ("/a/dead", EntryNotFound),
            ("/none/f", EntryNotFound),
            ("/a", NotAFile),
        ):
            with pytest.raises(problem):
                folder.open_file(P(path))
        with pytest.raises(NotAFile):
            folder.open_file(P("/"))
        assert read(folder, "/a/g") == "a/g"


def test_a_target_is_where_a_link_leads_and_what_is_there_stays(root: Root) -> None:
    b = os.stat(root.real + "/b").st_ino
    with OpenFolders(root) as folder:
        linked, name = folder.open_target(P("/a/inner"), True)
        assert (os.fstat(linked.handle).st_ino, name) == (b, "f")
        a, name = folder.open_target(P("/a/new"), False)
        assert (os.fstat(a.handle).st_ino, name) == (os.stat(root.real + "/a").st_ino, "new")
        assert folder.open_target(P("/a/f"), True) == (a, "f")
        with pytest.raises(EntryExists):
            folder.open_target(P("/a/f"), False)
        with pytest.raises(StorageForbidden):
            folder.open_target(P("/a/out"), True)


def test_a_target_that_is_removed_during_the_lookup_is_free(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    look = os.access

    def look_then_remove(name: str, *args: Any, **options: Any) -> bool:
        exists = look(name, *args, **options)
        os.unlink(f"{root.real}/a/{name}")
        return exists

    monkeypatch.setattr(os, "access", look_then_remove)
    with OpenFolders(root) as folder:
        target, name = folder.open_target(P("/a/f"), True)
        assert (os.fstat(target.handle).st_ino, name) == (os.stat(root.real + "/a").st_ino, "f")


def test_no_handle_is_left(root: Root, tmp_path: Path) -> None:
    before = list_open(tmp_path)
    with OpenFolders(root) as folder:
        for path in ("/a/f", "/a/inner", "/b/f"):
            read(folder, path)
            folder.open_target(P(path), True)
        with pytest.raises(EntryNotFound):
            folder.open_file(P("/a/out"))
    assert list_open(tmp_path) == before


PER_FILE = {"open": 2, "fstat": 2, "access": 0, "copy_file_range": 1, "utime": 1, "link": 1, "close": 2}
PER_FOLDER = 50  # calls to open it at both ends, and to flush its name and those above it


class Calls:
    """The calls of the system that this thread makes meanwhile, by name, and how many of them failed."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.failed = 0

    def _note(self, _: object, event: str, what: Any) -> None:
        if getattr(what, "__module__", "") == os.name:
            self.made[what.__name__] += event == "c_call"
            self.failed += event == "c_exception"

    def __enter__(self) -> Calls:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


@pytest.mark.parametrize("durable", [False, True])
def test_folders_are_opened_once_for_many_files(tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cloud()  # without the reserve of a data disk, which takes calls of its own
    source, target = Root(str(tmp_path / "source")), Root(str(tmp_path / "target"))
    requests = []
    for folder in ("a", "b"):
        (tmp_path / "source" / folder).mkdir(parents=True)
        (tmp_path / "target" / folder).mkdir(parents=True)
        for number in range(100):
            file = tmp_path / "source" / folder / str(number)
            file.write_text(f"{folder}{number}")
            path = P(f"/{folder}/{number}")
            status = file.stat()
            requests.append(CopyRequest(path, path, status.st_size, status.st_mtime, False, "", durable))
    opened: list[tuple[Root, str]] = []
    open_folder = Root.open_folder

    def note(root: Root, path: TreePath) -> AbstractContextManager[int]:
        opened.append((root, path))
        return open_folder(root, path)

    copier = FileCopier(target, Durability(target))
    assert copier.copy_from(source, requests[:1]) == [None]  # what works between the two is known from now on
    monkeypatch.setattr(Root, "open_folder", note)
    with Calls() as calls:
        results = copier.copy_from(source, requests[1:])
    assert results == [None] * 199
    assert (tmp_path / "target/b/99").read_text() == "b99"
    assert sorted(path for _, path in opened) == ["/a", "/a", "/b", "/b"]
    assert calls.failed == 0
    assert {name: calls.made[name] // 199 for name in PER_FILE} == PER_FILE
    assert calls.made.total() - 199 * sum(PER_FILE.values()) <= 2 * PER_FOLDER
