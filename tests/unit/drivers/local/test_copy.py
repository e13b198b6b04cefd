"""Copies that are done at once: what is copied, what is left to a task, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local import copy
from mangrove.drivers.local.rooted import Root
from mangrove.paths import TreePath
from mangrove.problems import Exists, NotFound, NotSupported, StorageProblem

P = TreePath


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def request_of(path: Path, name: str, overwrite: bool = False) -> CopyRequest:
    status = (path / name).stat()
    return CopyRequest(P(f"/{name}"), P(f"/{name}"), status.st_size, status.st_mtime, overwrite)


def test_a_file_is_copied_with_its_time_and_mode(roots: tuple[Path, Path]) -> None:
    folder, _ = roots
    (folder / "f").write_bytes(b"content")
    (folder / "f").chmod(0o640)
    os.utime(folder / "f", (1, 1_700_000_000.5))
    copy.copy(Root(str(folder)), P("/f"), P("/g"), ".part")
    status = (folder / "g").stat()
    assert (status.st_mtime, status.st_mode & 0o777) == (1_700_000_000.5, 0o640)
    assert (folder / "g").read_bytes() == b"content"
    assert sorted(os.listdir(folder)) == ["f", "g"]


def test_an_empty_folder_is_copied_and_a_full_one_is_work_for_a_task(roots: tuple[Path, Path]) -> None:
    folder, _ = roots
    (folder / "empty").mkdir()
    root = Root(str(folder))
    copy.copy(root, P("/empty"), P("/copied"), ".part")
    assert (folder / "copied").is_dir()
    (folder / "empty/f").touch()
    with pytest.raises(NotSupported):
        copy.copy(root, P("/empty"), P("/again"), ".part")
    os.mkfifo(folder / "device")
    with pytest.raises(StorageProblem, match="cannot copy a device"):
        copy.copy(root, P("/device"), P("/again"), ".part")
    assert not (folder / "again").exists()


def test_small_files_of_another_root_are_copied_each_by_itself(roots: tuple[Path, Path]) -> None:
    source, target = roots
    for name in ("new", "taken", "replaced", "changed", "gone"):
        (source / name).write_bytes(name.encode())
    for name in ("taken", "replaced"):
        (target / name).write_bytes(b"old")
    files = [request_of(source, name, overwrite=name == "replaced") for name in ("new", "taken", "replaced")]
    files += [request_of(source, "changed")._replace(size=1), request_of(source, "gone")]
    (source / "gone").unlink()
    results = copy.copy_from(Root(str(source)), Root(str(target)), files, ".part")
    assert [type(result) for result in results] == [type(None), Exists, type(None), StorageProblem, NotFound]
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        "new": b"new", "taken": b"old", "replaced": b"replaced",
    }  # fmt: skip


def test_a_folder_at_the_target_is_not_replaced(roots: tuple[Path, Path]) -> None:
    source, target = roots
    (source / "f").write_bytes(b"f")
    (target / "f").mkdir()
    (result,) = copy.copy_from(Root(str(source)), Root(str(target)), [request_of(source, "f", True)], ".part")
    assert isinstance(result, Exists)
    assert os.listdir(target) == ["f"]


@pytest.mark.parametrize(("offset", "length", "copied"), [(0, 5, 5), (3, 99, 7), (10, 1, 0)])
def test_a_range_is_copied_to_the_same_offset(roots: tuple[Path, Path], offset: int, length: int, copied: int) -> None:
    source, target = roots
    (source / "f").write_bytes(b"0123456789")
    with copy.open_file(Root(str(source)), P("/f")) as handle, open(target / "f", "wb") as file:
        assert copy.copy_range(handle, file.fileno(), offset, length) == copied
    expected = bytes(offset) + b"0123456789"[offset : offset + length] if copied else b""
    assert (target / "f").read_bytes() == expected
