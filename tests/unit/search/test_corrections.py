"""Changes by other programs are found after a listing of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.drivers.local import scan
from mangrove.identity.rights import Right
from mangrove.records import index_changes, storages
from mangrove.records.index_changes import ChangeKind
from mangrove.search import corrections
from mangrove.search.corrections import Corrections
from mangrove.search.segments import SegmentStore
from mangrove.tree.listing.listing import listings
from mangrove.tree.operations import transfers
from tests.unit.search.search_env import SearchEnv

Log = list[tuple[str, str]]


@pytest.fixture
def disk(searched: SearchEnv) -> Path:
    disk = searched.tree.mount_disk("/disk", "one/red.txt", "one/deep/blue", "two/green.txt")
    searched.index()
    return disk


@pytest.fixture
def observer(disk: Path) -> Corrections:
    return Corrections()


def list_folder(env: SearchEnv, observer: Corrections, path: str = "/disk/one") -> Log:
    """Return the log after a listing that was not cached."""
    before = {row.number for row in index_changes.read()}
    listings().clear()
    env.tree.run(env.tree.access(path).list_folder())
    for _ in range(4):
        env.tree.run(observer.correct_next())
    rows = [row for row in index_changes.read() if row.number not in before]
    return [(row.kind.value, row.path) for row in rows if row.kind is not ChangeKind.INTENT]


def test_listing_logs_what_others_did_once(searched: SearchEnv, disk: Path, observer: Corrections) -> None:
    assert list_folder(searched, observer) == []
    (disk / "one" / "new.txt").write_text("x")
    assert searched.find("new") == []
    assert list_folder(searched, observer) == [("names", "/one")]
    assert searched.find("new") == ["/disk/one/new.txt"]
    assert list_folder(searched, observer) == []
    (disk / "one" / "new.txt").rename(disk / "one" / "newer.txt")
    list_folder(searched, observer)
    assert searched.find("new") == ["/disk/one/newer.txt"]
    (disk / "one" / "newer.txt").unlink()
    list_folder(searched, observer)
    assert searched.find("new") == []


@pytest.mark.parametrize("batch", [1, 2000], ids=["details read later", "whole listing"])
def test_listing_of_a_changed_file_logs_it(
    searched: SearchEnv, disk: Path, observer: Corrections, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "BATCH", batch)
    assert list_folder(searched, observer) == []
    (disk / "one" / "red.txt").write_text("much longer")
    assert list_folder(searched, observer) == [("names", "/one")]
    assert [hit.size for hit in searched.search("red").hits] == [11]


def test_unknown_folder_is_to_be_read(searched: SearchEnv, disk: Path, observer: Corrections) -> None:
    (disk / "one" / "a" / "b").mkdir(parents=True)
    (disk / "one" / "link").symlink_to(disk / "two")
    assert list_folder(searched, observer) == [("names", "/one"), ("read", "/one/a")]
    assert searched.find("a", scope=1) == ["/disk/one/a"] and searched.search("a").behind


def test_own_changes_make_no_difference(searched: SearchEnv, disk: Path, observer: Corrections) -> None:
    searched.tree.run(transfers.rename(searched.tree.access("/disk/one/red.txt", Right.RENAME), "rot.txt", False))
    searched.tree.run(transfers.rename(searched.tree.access("/disk/one", Right.RENAME), "three", False))
    assert list_folder(searched, observer, "/disk/three") == []


def test_nothing_is_logged_where_none_is_wanted(searched: SearchEnv, disk: Path, observer: Corrections) -> None:
    (disk / "one" / "new.txt").write_text("x")
    for values in (
        {"auto_update_index": "false"},
        {"auto_update_index": "true", "search_index": "none"},
        {"search_index": "database", "ignore_paths": "/disk/one"},
    ):
        searched.tree.set(**values)
        assert list_folder(searched, observer) == []
    searched.tree.set(ignore_paths="")
    (storage,) = storages.all()
    searched.tree.run(runtime.get(SegmentStore).drop(storage.id))
    assert list_folder(searched, observer) == []


def test_few_listings_wait(
    searched: SearchEnv, disk: Path, observer: Corrections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "MAX_WAITING_LISTINGS", 1)
    (disk / "two" / "new.txt").write_text("x")
    searched.tree.run(searched.tree.access("/disk/one").list_folder())
    assert list_folder(searched, observer, "/disk/two") == []
    monkeypatch.setattr(corrections, "MAX_COMPARED_ENTRIES", 1)
    assert list_folder(searched, observer, "/disk/two") == []
