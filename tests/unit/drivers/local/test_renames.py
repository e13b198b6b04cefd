"""Renames: what has several names, and file systems that cannot refuse a name by themselves."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import DriverContext
from mangrove.drivers.local import kernel, noreplace
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.noreplace import can_refuse_existing, rename_noreplace
from mangrove.drivers.local.quarantine import rename

WITHOUT_FLAG = [errno.EINVAL, errno.ENOSYS]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


@pytest.fixture(params=["flag", "links", "nothing"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The call by which the file system refuses a name that is taken."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL if request.param == "links" else errno.ENOSYS, "unknown")

    def refuse_link(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no links")

    if request.param != "flag":
        monkeypatch.setattr(kernel, "rename_noreplace", refuse)
    if request.param == "nothing":
        monkeypatch.setattr(os, "link", refuse_link)
    return str(request.param)


def test_a_rename_that_must_not_replace_does_not(folder: int, tmp_path: Path, means: str) -> None:
    for name in ("f", "g"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("empty", "full", "full/sub"):
        (tmp_path / name).mkdir()
    before = sorted(os.listdir(tmp_path))
    for old in ("f", "link", "empty", "full"):
        for new in {"g", "link", "empty", "full"} - {old}:
            with pytest.raises(FileExistsError):
                rename(old, new, folder, folder, overwrite=False)
    assert (tmp_path / "g").read_text() == "g"
    assert sorted(os.listdir(tmp_path)) == before
    rename("f", "new", folder, folder, overwrite=False)
    rename("full", "full2", folder, folder, overwrite=False)
    rename("link", "link2", folder, folder, overwrite=False)
    assert sorted(os.listdir(tmp_path)) == ["empty", "full2", "g", "link2", "new"]


def test_a_storage_says_whether_it_can_refuse_a_name(folder: int, tmp_path: Path, means: str) -> None:
    assert can_refuse_existing(folder) is (means != "nothing")
    assert os.listdir(tmp_path) == []
    driver = Local(Local.Options(root_folder_path=str(tmp_path)), DriverContext())
    assert asyncio.run(driver.can_refuse_existing()) is (means != "nothing")


def test_a_file_over_another_name_of_itself_loses_the_old_one(folder: int, tmp_path: Path, means: str) -> None:
    (tmp_path / "f").write_text("f")
    os.symlink("f", tmp_path / "g") if means == "nothing" else os.link(tmp_path / "f", tmp_path / "g")
    with pytest.raises(FileExistsError):
        rename("f", "g", folder, folder, overwrite=False)
    rename("f", "g", folder, folder, overwrite=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("g", "f")]


def test_a_file_with_many_names_keeps_the_others(folder: int, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("f")
    for name in ("g", "h"):
        os.link(tmp_path / "f", tmp_path / name)
    rename("f", "new", folder, folder, overwrite=True)
    rename("new", "g", folder, folder, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["g", "h"]


def test_a_folder_is_not_moved_into_itself(folder: int, tmp_path: Path, means: str) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    inner = os.open(tmp_path / "d/e", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"Invalid argument"):
            rename("d", "f", folder, inner, overwrite=True)
    finally:
        os.close(inner)
    assert os.listdir(tmp_path / "d") == ["e"]


def test_a_file_that_replaces_the_renamed_one_at_once_is_kept(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system where a rename takes two steps, another file gets the old name between them."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "unknown")

    link = os.link

    def link_and_replace(old: str, new: str, **options: int) -> None:
        link(old, new, **options)
        monkeypatch.setattr(os, "link", link)
        (tmp_path / "other").write_text("newer")
        (tmp_path / "other").rename(tmp_path / "f")

    (tmp_path / "f").write_text("f")
    monkeypatch.setattr(kernel, "rename_noreplace", refuse)
    monkeypatch.setattr(os, "link", link_and_replace)
    with suppress(EntryChanged):
        rename("f", "g", folder, folder, overwrite=False)
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [("f", "newer"), ("g", "f")]


def test_a_name_is_never_taken_twice(folder: int, tmp_path: Path, means: str) -> None:
    (tmp_path / "f").write_text("f")
    rename_noreplace("f", "g", folder, folder)
    (tmp_path / "f").write_text("second")
    with pytest.raises(FileExistsError):
        rename_noreplace("f", "g", folder, folder)
    assert (tmp_path / "g").read_text() == "f"


def test_a_name_changes_its_case_where_case_does_not_count(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behave as FAT, whose kernel reports that the new name is taken, by the file itself."""

    def find_taken(*_: object) -> None:
        raise FileExistsError(errno.EEXIST, "exists")

    stat = os.stat
    (tmp_path / "name").write_text("f")
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "rename_noreplace", find_taken)
        patch.setattr(os, "stat", lambda name, **options: stat(name.lower(), **options))
        rename("name", "NAME", folder, folder, overwrite=False)
    assert os.listdir(tmp_path) == ["NAME"]


def test_a_trial_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    for name in (".mangrove-trial-old.part", ".mangrove-trial-new.part"):
        (tmp_path / name).touch()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        noreplace.can_refuse_existing(folder)
    finally:
        os.close(folder)
    assert list(tmp_path.iterdir()) == []
