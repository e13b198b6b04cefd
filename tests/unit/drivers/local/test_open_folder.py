"""A folder that is kept open: files of it are found as by path, and links lead where they lead otherwise."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local.copy import FileCopier
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.open_folder import OpenFolder
from mangrove.drivers.local.rooted import Root
from mangrove.paths import TreePath
from mangrove.problems import Exists, Forbidden, NotAFile, NotFound

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


def read(folder: OpenFolder, path: str) -> str:
    handle, status = folder.open_file(P(path))
    content = os.read(handle, 99).decode()
    os.close(handle)
    assert status.st_size == len(content)
    return content


def test_a_file_is_that_of_its_path_whatever_was_asked_for_before(root: Root) -> None:
    with OpenFolder(root) as folder:
        paths = ("/a/f", "/a/g", "/b/f", "/a/inner", "/a/f")
        assert [read(folder, path) for path in paths] == ["a/f", "a/g", "b/f", "b/f", "a/f"]
        for path, problem in (("/a/out", NotFound), ("/a/dead", NotFound), ("/none/f", NotFound), ("/a", NotAFile)):
            with pytest.raises(problem):
                folder.open_file(P(path))
        with pytest.raises(NotAFile):
            folder.open_file(P("/"))
        assert read(folder, "/a/g") == "a/g"


def test_a_target_is_where_a_link_leads_and_what_is_there_stays(root: Root) -> None:
    b = os.stat(root.real + "/b").st_ino
    with OpenFolder(root) as folder:
        handle, name = folder.open_target(P("/a/inner"), True)
        assert (os.fstat(handle).st_ino, name) == (b, "f")
        handle, name = folder.open_target(P("/a/new"), False)
        assert (os.fstat(handle).st_ino, name) == (os.stat(root.real + "/a").st_ino, "new")
        assert folder.open_target(P("/a/f"), True) == (handle, "f")
        with pytest.raises(Exists):
            folder.open_target(P("/a/f"), False)
        with pytest.raises(Forbidden):
            folder.open_target(P("/a/out"), True)


def test_no_handle_is_left(root: Root) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with OpenFolder(root) as folder:
        for path in ("/a/f", "/a/inner", "/b/f"):
            read(folder, path)
            folder.open_target(P(path), True)
        with pytest.raises(NotFound):
            folder.open_file(P("/a/out"))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("durable", [False, True])
def test_files_of_one_folder_open_it_once_at_both_ends(
    tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = Root(str(tmp_path / "source")), Root(str(tmp_path / "target"))
    requests = []
    for folder in ("a", "b"):
        (tmp_path / "source" / folder).mkdir(parents=True)
        (tmp_path / "target" / folder).mkdir(parents=True)
        for number in range(50):
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

    monkeypatch.setattr(Root, "open_folder", note)
    assert FileCopier(target, Durability(target)).copy_from(source, requests) == [None] * 100
    assert (tmp_path / "target/b/49").read_text() == "b49"
    assert opened.count((source, "/a")) == opened.count((source, "/b")) == 1
    assert opened.count((target, "/b")) <= (2 if durable else 1)  # once for the bytes, once for the names
