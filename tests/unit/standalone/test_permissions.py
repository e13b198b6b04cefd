"""A data directory is closed to other accounts; one that was open is closed with one line."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from mangrove.standalone import permissions
from mangrove.standalone.data_directory import DataDirectory, StartupError
from tests.support.accounts import NOBODY, needs_root


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory as an older version left it, open to all."""
    data = tmp_path / "data"
    for folder in ("files/a/b", "staging/task"):
        (data / folder).mkdir(parents=True)
    for file in ("key", "records.db", "records.db-wal", "files/f", "files/a/b/program", "staging/task/body"):
        (data / file).write_bytes(b"x")
        (data / file).chmod(0o644)
    (data / "files/a/b/program").chmod(0o755)
    for path in (data, *data.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    return data


def list_modes(data: Path) -> dict[str, str]:
    return {str(path.relative_to(data)): f"{path.stat().st_mode & 0o7777:o}" for path in [data, *data.rglob("*")]}


CLOSED = {"key": "600", "records.db": "600", "records.db-wal": "600", "mangrove.lock": "600"}
CLOSED |= {".": "700", "files": "700", "files/a": "700", "files/a/b": "700", "staging": "700", "staging/task": "700"}
CLOSED |= {"files/f": "600", "files/a/b/program": "700", "staging/task/body": "600"}


def test_open_data_directory_is_closed_and_logged_once(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="mangrove"):
        DataDirectory(data).lock()
    assert list_modes(data) == CLOSED
    (line,) = caplog.records
    assert line.message == "data directory closed to other accounts"
    assert line.__dict__["facts"] == {"data": str(data), "mode": "755"}


def test_a_data_directory_that_is_closed_is_not_spoken_of(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    permissions.close_to_others(str(data))
    caplog.clear()
    permissions.close_to_others(str(data))
    assert caplog.records == []


def test_one_whose_closing_was_cut_off_is_closed_at_the_next_start(data: Path) -> None:
    data.chmod(0o700)  # this was done first, and no more
    permissions.close_to_others(str(data))
    assert list_modes(data) == {name: mode for name, mode in CLOSED.items() if name != "mangrove.lock"}


def test_links_are_not_followed_and_hard_links_stay_open(data: Path) -> None:
    outside = data.parent / "outside"
    (outside / "folder").mkdir(parents=True)
    for name in ("linked", "shared", "folder/below"):
        (outside / name).write_bytes(b"x")
        (outside / name).chmod(0o644)
    outside.chmod(0o755)
    (data / "files/link").symlink_to(outside / "linked")
    (data / "files/folder").symlink_to(outside / "folder")
    (data / "files/shared").hardlink_to(outside / "shared")
    permissions.close_to_others(str(data))
    assert {name: mode for name, mode in list_modes(outside).items() if name != "folder"} == {
        ".": "755", "linked": "644", "shared": "644", "folder/below": "644"
    }  # fmt: skip


def test_a_new_data_directory_is_closed_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        directory = DataDirectory(tmp_path / "new")
        directory.lock()
        directory.prepare()
    finally:
        os.umask(before)
    assert list_modes(tmp_path / "new") == {".": "700", "key": "600", "mangrove.lock": "600"}


@pytest.mark.parametrize("taken", ["file of somebody", "files"])
def test_an_open_folder_with_other_files_is_no_data_directory(tmp_path: Path, taken: str) -> None:
    data = tmp_path / "srv"
    data.mkdir()
    data.chmod(0o755)
    (data / taken).write_bytes(b"")
    with pytest.raises(StartupError, match="contains files of other accounts"):
        DataDirectory(data).lock()
    assert list_modes(data)["."] == "755"
    assert [path.name for path in data.iterdir()] == [taken]


def test_an_empty_folder_of_a_disk_of_its_own_becomes_one(tmp_path: Path) -> None:
    data = tmp_path / "disk"
    (data / "lost+found").mkdir(parents=True)
    data.chmod(0o755)
    DataDirectory(data).lock()
    assert list_modes(data)["."] == "700"


@needs_root
def test_a_data_directory_of_another_account_is_refused_by_name(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(data, NOBODY, NOBODY)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(StartupError) as caught:
        DataDirectory(data).lock()
    assert str(caught.value) == f"the data directory {data} belongs to another account (uid {NOBODY})"
    assert stat.S_IMODE(data.stat().st_mode) == 0o755


@needs_root
def test_root_works_on_the_data_directory_of_another_account_and_says_so(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    permissions.close_to_others(str(data))
    caplog.clear()
    os.chown(data, NOBODY, NOBODY)
    DataDirectory(data).lock()
    assert [record.message for record in caplog.records] == [
        "the data directory belongs to an account that can read the records"
    ]
