"""Removing a file only if it is the one that was meant: beside writers, after kills, and while others restore it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, NotAFile
from mangrove.drivers import base
from mangrove.drivers.base import DriverContext
from mangrove.drivers.local import quarantine
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.noreplace import unlink
from mangrove.drivers.local.rooted import FileStat, Root

P = TreePath


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


def make(path: Path, content: bytes) -> FileStat:
    """Put a file as this service does: whole, over what is there."""
    part = path.with_name(f".mangrove-{threading.get_ident()}.part")
    part.write_bytes(content)
    os.utime(part, (1, 1_700_000_000))
    version = FileStat.of(part.stat())
    part.rename(path)
    return version


def put_aside(path: Path) -> Path:
    """Return the file that a process leaves which was killed in the middle of a removal."""
    place = path.with_name(quarantine.make_place_name(path.name))
    place.mkdir()
    return path.rename(place / path.name)


class Storage:
    """A driver, called from a test that is not asynchronous."""

    def __init__(self, root: Path, **options: str) -> None:
        self.driver = Local(Local.Options(root_folder_path=str(root), **options), DriverContext())

    def stat(self, path: str) -> base.Entry:
        return asyncio.run(self.driver.stat(P(path)))

    def list_names(self) -> list[str]:
        return [entry.name for entry in asyncio.run(base.list_all(self.driver, P("/")))]

    def remove_unchanged(self, path: str, entry: base.Entry) -> None:
        asyncio.run(self.driver.remove_unchanged(P(path), entry))


def test_a_version_that_comes_between_the_look_and_the_removal_stays(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = make(tmp_path / "f", b"old")
    rename = os.rename

    def replace_before(old: str, new: str, **folders: int) -> None:
        monkeypatch.undo()
        make(tmp_path / "f", b"new")
        rename(old, new, **folders)

    monkeypatch.setattr(os, "rename", replace_before)
    with pytest.raises(EntryChanged):
        quarantine.remove_unchanged(folder, "f", version, unlink)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"new")]


def test_of_two_versions_that_come_in_between_none_is_lost(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = make(tmp_path / "f", b"old")
    rename = os.rename

    def replace_twice(old: str, new: str, **folders: int) -> None:
        monkeypatch.undo()
        make(tmp_path / "f", b"second")
        rename(old, new, **folders)
        make(tmp_path / "f", b"third")  # without overwrite, as it finds nothing of that name

    monkeypatch.setattr(os, "rename", replace_twice)
    with pytest.raises(EntryChanged):
        quarantine.remove_unchanged(folder, "f", version, unlink)
    assert (tmp_path / "f").read_bytes() == b"third"
    (quarantined,) = [path for path in tmp_path.iterdir() if path.name != "f"]
    assert quarantined.name.startswith("f_")
    assert quarantined.read_bytes() == b"second"


def test_a_move_never_deletes_a_version_that_is_newer(folder: int, tmp_path: Path) -> None:
    """Run 200 rounds of a removal during a put, while another process restores quarantined files."""
    for number in range(200):
        version = make(tmp_path / "f", b"old")
        newer = b"%06d" % number
        start = threading.Barrier(3)

        def put(start: threading.Barrier = start, newer: bytes = newer) -> None:
            start.wait()
            make(tmp_path / "f", newer)

        def look(start: threading.Barrier = start) -> None:
            start.wait()
            quarantine.restore(folder, "f")

        threads = [threading.Thread(target=work) for work in (put, look)]
        for thread in threads:
            thread.start()
        start.wait()
        try:
            quarantine.remove_unchanged(folder, "f", version, unlink)
        except EntryChanged:
            pass
        for thread in threads:
            thread.join()
        contents = [path.read_bytes() for path in tmp_path.iterdir()]
        assert newer in contents
        for path in tmp_path.iterdir():
            path.unlink()


def test_a_file_that_others_put_back_all_the_time_is_removed_in_the_end(folder: int, tmp_path: Path) -> None:
    version = make(tmp_path / "f", b"old")
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.0005):
            quarantine.restore(folder, "f")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        quarantine.remove_unchanged(folder, "f", version, unlink)
    finally:
        ended.set()
        thread.join()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_put_aside_is_found_by_its_name(tmp_path: Path) -> None:
    make(tmp_path / "f", b"content")
    put_aside(tmp_path / "f")
    assert Storage(tmp_path).stat("/f").size == 7
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("hidden", [False, True])
def test_what_a_killed_process_put_aside_is_listed_again(
    tmp_path: Path, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "ABANDONED_AFTER_SECONDS", 600.0)
    make(tmp_path / "f", b"content")
    place = put_aside(tmp_path / "f").parent
    storage = Storage(tmp_path, show_hidden=not hidden)  # type: ignore[arg-type]
    assert storage.list_names() == []  # its process may still be at work
    os.utime(place, (1, 1))
    storage.list_names()
    assert storage.list_names() == os.listdir(tmp_path) == ["f"]


def test_what_a_killed_process_put_aside_does_not_replace_what_came_later(tmp_path: Path) -> None:
    make(tmp_path / "f", b"older")
    os.utime(put_aside(tmp_path / "f").parent, (1, 1))
    make(tmp_path / "f", b"newer")
    storage = Storage(tmp_path)
    storage.list_names()
    assert [name[:2] for name in storage.list_names()] == ["f", "f_"]
    assert (tmp_path / "f").read_bytes() == b"newer"


def test_a_removal_that_was_killed_is_done_again(tmp_path: Path) -> None:
    make(tmp_path / "f", b"content")
    storage = Storage(tmp_path)
    entry = storage.stat("/f")
    put_aside(tmp_path / "f")
    storage.remove_unchanged("/f", entry)
    storage.remove_unchanged("/f", entry)
    assert os.listdir(tmp_path) == []


def test_another_file_that_a_killed_process_put_aside_is_not_removed(tmp_path: Path) -> None:
    make(tmp_path / "f", b"content")
    storage = Storage(tmp_path)
    entry = storage.stat("/f")
    make(tmp_path / "f", b"another")
    put_aside(tmp_path / "f")
    with pytest.raises(EntryChanged):
        storage.remove_unchanged("/f", entry)
    assert (tmp_path / "f").read_bytes() == b"another"


def test_a_name_as_long_as_it_may_be_is_put_aside_and_kept_beside(tmp_path: Path) -> None:
    name = "ä" * 127 + "x"
    make(tmp_path / name, b"older")
    storage = Storage(tmp_path)
    entry = storage.stat(f"/{name}")
    os.utime(put_aside(tmp_path / name).parent, (1, 1))
    make(tmp_path / name, b"newer")
    storage.list_names()
    assert len(storage.list_names()) == 2
    with pytest.raises(EntryChanged):
        storage.remove_unchanged(f"/{name}", entry)


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    make(tmp_path / "f", b"content")
    (tmp_path / "link").symlink_to("f")
    storage = Storage(tmp_path)
    storage.remove_unchanged("/link", storage.stat("/link"))
    assert os.listdir(tmp_path) == ["f"]
    (tmp_path / "d").mkdir()
    with pytest.raises(NotAFile):
        storage.remove_unchanged("/d", storage.stat("/d"))


def test_a_removal_that_fails_gives_the_name_back(tmp_path: Path) -> None:
    """Here because the recycle bin is a file."""
    (tmp_path / "root").mkdir()
    (tmp_path / "bin").touch()
    make(tmp_path / "root/f", b"content")
    storage = Storage(tmp_path / "root", recycle_bin_path=str(tmp_path / "bin"))
    with pytest.raises(base.StorageProblem):
        storage.remove_unchanged("/f", storage.stat("/f"))
    assert os.listdir(tmp_path / "root") == ["f"]


@pytest.mark.parametrize("path", ["/" + "a" * 256, "/" + "a" * 256 + "/b"])
def test_a_name_that_is_too_long_has_no_entry(tmp_path: Path, path: str) -> None:
    with pytest.raises(EntryNotFound):
        quarantine.stat_or_restore(Root(str(tmp_path)), P(path))
