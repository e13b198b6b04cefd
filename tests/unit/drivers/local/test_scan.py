"""A folder is read in batches of plain entries, and with details from the first link on."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry
from mangrove.drivers.local import scan
from mangrove.drivers.local.rooted import Root
from mangrove.drivers.local.scan import FolderScan, FoldersScan
from mangrove.drivers.local.sorted_names import RUN_NAMES, SortedNames
from mangrove.drivers.plain_entries import NamedEntries, PlainEntries
from mangrove.drivers.threads import StorageThreads

FOLDER = TreePath("/")


def read_batches(folder: Path, show_hidden: bool = True) -> list[list[Entry]]:
    def make_entry(name: str, status: os.stat_result, _: TreePath) -> Entry:
        return Entry(name, status.st_size, status.st_mtime, name.endswith("folder"))

    folder_scan = FolderScan(Root(str(folder)), StorageThreads("scan"), FOLDER, make_entry, False)
    batches = [folder_scan.begin(show_hidden)]
    while folder_scan.has_more:
        batches.append(folder_scan.read_batch())
    return [[*batch] for batch in batches]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "d", "e"):
        (tmp_path / name).write_bytes(name.encode() * 3)
    return tmp_path


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_link_among_files_is_followed(folder: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH", size)
    (folder / "c").symlink_to("a")
    (folder / "gone").symlink_to("nothing")
    entries = [entry for batch in read_batches(folder) for entry in batch]
    assert [(entry.name, entry.size, entry.is_link) for entry in entries] == [
        (name, 3, name == "c") for name in ("a", "b", "c", "d", "e")
    ]


def test_folder_without_links_has_plain_entries(folder: Path) -> None:
    (folder / "folder").mkdir()
    folder_scan = FolderScan(
        Root(str(folder)), StorageThreads("scan"), FOLDER, lambda *_: Entry("folder", 0, 1.0, True), False
    )
    batch = folder_scan.begin(False)
    assert isinstance(batch, PlainEntries)
    assert [entry.name for entry in batch] == ["a", "b", "d", "e", "folder"]
    assert [entry.is_dir for entry in batch] == [False] * 4 + [True]


@pytest.mark.parametrize("other", ["é", "no\\path", ".hidden"])
def test_names_are_shown_whatever_their_neighbours(folder: Path, other: str) -> None:
    (folder / other).touch()
    shown = {entry.name for batch in read_batches(folder, show_hidden=False) for entry in batch}
    assert shown == {"a", "b", "d", "e"} | ({other} if other == "é" else set())


def read_names(folder: Path) -> tuple[FolderScan, list[Sequence[Entry]]]:
    """The batches of a folder whose details are read later, and the scan."""

    def make_entry(name: str, status: os.stat_result, _: TreePath) -> Entry:
        return Entry(name, status.st_size, status.st_mtime, stat.S_ISDIR(status.st_mode))

    folder_scan = FolderScan(Root(str(folder)), StorageThreads("scan"), FOLDER, make_entry, False)
    batches = [folder_scan.begin(False, True)]
    while folder_scan.has_more:
        batches.append(folder_scan.read_batch())
    return folder_scan, batches


def test_large_folder_is_read_without_a_status(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH", 2)
    (folder / "c").mkdir()
    read_status, names = os.stat, list[str]()

    def note_name(name: str, **options: Any) -> os.stat_result:
        names.append(name)
        return read_status(name, **options)

    monkeypatch.setattr(os, "stat", note_name)
    folder_scan, (batch,) = read_names(folder)
    assert isinstance(batch, NamedEntries) and names == []
    assert [*batch] == [Entry(name, None, 0.0, name == "c") for name in "abcde"]
    (folder / "d").unlink()
    details = folder_scan.read_details(["a", "d", "c"])
    assert names == ["a", "d", "c"]
    assert [entry and (entry.name, entry.size, entry.is_dir) for entry in details][:2] == [("a", 3, False), None]
    assert details[2] is not None and details[2].is_dir


def test_batch_with_a_link_is_read_with_details(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH", 2)
    (folder / "c").symlink_to("a")
    (folder / "f").symlink_to("nothing")
    batches = read_names(folder)[1]
    assert [[(entry.name, entry.size) for entry in batch] for batch in batches] == [
        [("a", None), ("b", None)],
        [("c", 3), ("d", 3)],
        [("e", 3)],
    ]
    assert batches[1][0].is_link


def test_names_come_in_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH", 1)
    monkeypatch.setattr(scan, "MAX_NAMED_ENTRIES", 3)
    batches = read_names(folder)[1]
    assert [[entry.name for entry in batch] for batch in batches] == [["a", "b", "d"], ["e"]]


def test_folder_of_one_batch_is_read_with_details(folder: Path) -> None:
    _, (batch,) = read_names(folder)
    assert isinstance(batch, PlainEntries) and [entry.size for entry in batch] == [3] * 4


def test_folder_that_may_not_be_entered_is_read_as_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH", 2)
    folder.chmod(0o400)
    try:
        _, batches = read_names(folder)
    finally:
        folder.chmod(0o700)
    if os.geteuid() == 0:  # who may enter any folder
        assert [len(batch) for batch in batches] == [4]
    else:
        assert [len(batch) for batch in batches] == [0]


def make_scan(folder: Path) -> FolderScan:
    def make_entry(name: str, status: os.stat_result, _: TreePath) -> Entry:
        return Entry(name, status.st_size, status.st_mtime, stat.S_ISDIR(status.st_mode))

    return FolderScan(Root(str(folder)), StorageThreads("scan"), FOLDER, make_entry, False)


@pytest.mark.parametrize("sizes", [[], [1], [3, 0, 1], [RUN_NAMES] * 5 + [7]])
def test_names_of_all_runs_are_sorted(sizes: list[int]) -> None:
    names = [f"ä {number:06}" if number % 3 else f"{number}\udcff" for number in range(sum(sizes))]
    random.Random(4).shuffle(names)
    rest, runs = iter(names), SortedNames()
    for size in sizes:
        runs.add([next(rest) for _ in range(size)])
    parts = list(runs.take())
    assert [name for part in parts for name in part] == sorted(names)
    assert max(map(len, parts), default=0) <= 3 * RUN_NAMES


def test_names_after_removed_files_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose files were all removed does not end the listing."""
    monkeypatch.setattr(scan, "BATCH", 1)
    folder_scan = make_scan(folder)
    shown = [*folder_scan.begin(True)]
    for name in ("b", "d"):
        (folder / name).unlink()
    while folder_scan.has_more:
        shown += folder_scan.read_batch()
    assert [entry.name for entry in shown] == ["a", "e"]


def test_call_ends_before_all_names_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work has a turn while the names of a large folder are read and sorted."""
    monkeypatch.setattr(scan, "BATCH", 1)
    monkeypatch.setattr(scan, "RUN_NAMES", 1)
    folder_scan = make_scan(folder)
    assert [*folder_scan.begin(True, end=0.0)] == [] and folder_scan.has_more
    assert [*folder_scan.read_batch(0.0)] == [] and folder_scan.has_more
    shown = list[Entry]()
    while folder_scan.has_more:
        shown += folder_scan.read_batch()
    assert [(entry.name, entry.size) for entry in shown] == [(name, 3) for name in "abde"]


def test_large_folder_among_others_takes_several_calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CALL_SECONDS", -1.0)
    monkeypatch.setattr(scan, "BATCH", 1)
    monkeypatch.setattr(scan, "RUN_NAMES", 1)
    folders, batches = FoldersScan([FOLDER, FOLDER], lambda _: make_scan(folder), True), []
    while folders.has_more:
        batches += folders.read_batch()
    assert any(not batch.entries for batch in batches)
    assert [(batch.number, entry.name) for batch in batches for entry in batch.entries] == [
        (number, name) for number in range(2) for name in "abde"
    ]
