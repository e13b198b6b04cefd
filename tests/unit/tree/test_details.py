"""Sizes and times of a large folder of the disk are read for the rows that need them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.local import scan
from mangrove.drivers.local.driver import Local
from mangrove.tree.listing import browse, entries, listing
from mangrove.tree.listing import folder as folder_module
from mangrove.tree.listing.browse import PageRequest
from tests.unit.tree.environment import TreeEnv
from tests.unit.tree.test_browse import get_object, list_folder, list_subfolders

NAMES = [f"file {number}" for number in range(20)]


@pytest.fixture
def root(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of more than one batch, whose listing stays in the cache: files of 0 to 19 bytes and two folders."""
    monkeypatch.setattr(scan, "BATCH", 8)
    monkeypatch.setattr(listing, "TOKEN_SECONDS", 60.0)
    folder = tree.mount_disk("/disk", "sub/x", "other/x", order_by="name", extract_folder="front")
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(bytes(number))
        os.utime(folder / name, (0, 1e9 - number))
    return folder


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names whose details are read."""
    names, read = list[str](), Local.read_details

    async def note_names(self: Local, path: Any, requested: Sequence[str]) -> Any:
        names.extend(requested)
        return await read(self, path, requested)

    monkeypatch.setattr(Local, "read_details", note_names)
    return names


def test_page_reads_the_details_of_its_rows(tree: TreeEnv, root: Path, read_names: list[str]) -> None:
    answer = list_folder(tree, "/disk", PageRequest(2, 4))
    assert [(row["name"], row["size"], row["modified"]) for row in answer["content"]] == [
        ("file 2", 2, "2001-09-09T01:46:38Z"),
        ("file 3", 3, "2001-09-09T01:46:37Z"),
        ("file 4", 4, "2001-09-09T01:46:36Z"),
        ("file 5", 5, "2001-09-09T01:46:35Z"),
    ]
    assert answer["total"] == 22 and read_names == NAMES[2:6]
    assert list_folder(tree, "/disk", PageRequest(2, 4)) == answer
    assert read_names == NAMES[2:6]


def test_whole_list_has_all_details(tree: TreeEnv, root: Path, read_names: list[str]) -> None:
    list_folder(tree, "/disk", PageRequest(1, 4))
    rows = list_folder(tree, "/disk")["content"]
    assert [(row["name"], row["size"]) for row in rows[2:]] == [(name, at) for at, name in enumerate(NAMES)]
    assert len(read_names) == 22


@pytest.mark.parametrize(("by", "first"), [("size", "file 19"), ("modified", "file 0")])
def test_order_by_details_reads_them_all(tree: TreeEnv, root: Path, read_names: list[str], by: str, first: str) -> None:
    rows = list_folder(tree, "/disk", PageRequest(1, 3, by, "desc"))["content"]
    assert [row["is_dir"] for row in rows] == [True, True, False] and rows[2]["name"] == first
    assert sorted(read_names) == sorted([*NAMES, "sub", "other"])


def test_order_of_the_storage_by_size_reads_them_all(tree: TreeEnv, root: Path) -> None:
    tree.mount("/by_size", options={"root_folder_path": str(root)}, order_by="size", order_direction="desc")
    rows = list_folder(tree, "/by_size", PageRequest(1, 3))["content"]
    assert [row["name"] for row in rows] == ["file 19", "file 18", "file 17"]


def test_entry_that_is_gone_has_no_row(tree: TreeEnv, root: Path) -> None:
    list_folder(tree, "/disk", PageRequest(1, 4))
    (root / "file 3").unlink()
    assert [row["name"] for row in list_folder(tree, "/disk", PageRequest(2, 4))["content"]] == [
        "file 2", "file 4", "file 5",
    ]  # fmt: skip
    names = [row["name"] for row in list_folder(tree, "/disk")["content"]]
    assert names == ["other", "sub", *(name for name in NAMES if name != "file 3")]


def test_long_answer_without_a_row_is_valid(tree: TreeEnv, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_WHOLE_ROWS", 4)
    monkeypatch.setattr(folder_module, "ROWS_PER_CHUNK", 4)
    list_folder(tree, "/disk", PageRequest(1, 1))
    for name in NAMES:
        (root / name).unlink()

    async def read_pieces() -> list[bytes]:
        answer = await browse.list_folder(access, PageRequest(1, 22), False, "")
        return [piece async for piece in answer["content"].pieces]

    access = tree.access("/disk")
    (piece,) = tree.run(read_pieces())
    assert [row["name"] for row in orjson.loads(b"[" + piece + b"]")] == ["other", "sub"]


def test_entry_that_became_a_folder_is_shown_as_one(tree: TreeEnv, root: Path) -> None:
    list_folder(tree, "/disk", PageRequest(1, 1))
    (root / "file 3").unlink()
    (root / "file 3").mkdir()
    (root / "file 4").unlink()
    (root / "file 4").symlink_to("file 9")
    rows = list_folder(tree, "/disk", PageRequest(2, 4))["content"]
    assert [(row["name"], row["is_dir"], row["size"]) for row in rows[1:3]] == [
        ("file 3", True, 0),
        ("file 4", False, 9),
    ]


def test_folder_that_is_gone_fails_as_its_listing_does(tree: TreeEnv, root: Path) -> None:
    list_folder(tree, "/disk", PageRequest(1, 4))
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(StorageProblem, match=r"^failed get objs: failed get dir: .*object not found"):
        list_folder(tree, "/disk", PageRequest(2, 4))


def test_protocols_and_subfolders_get_details(tree: TreeEnv, root: Path, read_names: list[str]) -> None:
    assert list_subfolders(tree, "/disk") == ["other", "sub"]
    assert sorted(read_names) == ["other", "sub"]

    async def read_sizes() -> dict[str, int | None]:
        return {entry.name: entry.size async for entry in entries.iterate(access)}

    access = tree.access("/disk")
    assert tree.run(read_sizes()) == {"other": 0, "sub": 0, **{name: at for at, name in enumerate(NAMES)}}


def test_related_files_have_details(tree: TreeEnv, root: Path) -> None:
    (root / "film.mkv").write_bytes(b"film")
    (root / "film.srt").write_bytes(b"text!")
    related = get_object(tree, "/disk/film.mkv")["related"]
    assert [(row["name"], row["size"]) for row in related] == [("film.srt", 5)]
