"""A folder is read in batches of plain entries, and with details from the first link on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry
from mangrove.drivers.local import scan
from mangrove.drivers.local.rooted import Root
from mangrove.drivers.local.scan import FolderScan
from mangrove.drivers.plain_entries import PlainEntries
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
