"""A listing that is read anyway corrects the index: what others changed in a storage is found after somebody looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.identity.rights import Right
from mangrove.records import storages
from mangrove.records.files import index_marks
from mangrove.search import corrections
from mangrove.search.corrections import Corrections
from mangrove.search.segments import SegmentStore
from mangrove.tree.listing.listing import ListingObserver, listings
from mangrove.tree.operations import changes
from mangrove.tree.operations.journal import Journal
from tests.unit.search.search_env import SearchEnv

Marks = set[tuple[str, bool]]


@pytest.fixture
def disk(searched: SearchEnv) -> Path:
    disk = searched.tree.mount_disk("/disk", "one/red.txt", "one/deep/blue", "two/green.txt")
    searched.index()
    runtime.put(ListingObserver, Corrections())
    return disk


def list_folder(env: SearchEnv, path: str = "/disk/one") -> Marks:
    """The marks that are there after a listing that was not kept."""
    listings().clear()
    env.tree.run(env.tree.access(path).list_folder())
    return correct(env)


def correct(env: SearchEnv) -> Marks:
    observer = runtime.get(ListingObserver)
    assert isinstance(observer, Corrections)
    for _ in range(8):  # what a search listed waits, too
        env.tree.run(observer.correct_next())
    return {(mark.path, mark.deep) for mark in index_marks.list_all(1000)}


def test_what_others_did_is_found_after_a_listing_and_marked_once(searched: SearchEnv, disk: Path) -> None:
    assert list_folder(searched) == set()
    (disk / "one" / "new.txt").write_text("x")
    assert searched.find("new") == []
    assert list_folder(searched) == {("/one", False)}
    assert searched.find("new") == ["/disk/one/new.txt"]
    index_marks.delete(index_marks.list_all(10))
    runtime.put(Journal, Journal())
    assert list_folder(searched) == set()  # the same listing, and no other index since
    (disk / "one" / "new.txt").rename(disk / "one" / "newer.txt")
    assert list_folder(searched) == {("/one", False)}


@pytest.mark.parametrize("change", ["rename", "remove", "grow"])
def test_every_difference_counts(searched: SearchEnv, disk: Path, change: str) -> None:
    file = disk / "one" / "red.txt"
    if change == "rename":
        file.rename(file.with_name("rot.txt"))
    elif change == "remove":
        file.unlink()
    else:
        file.write_text("much longer")
    assert list_folder(searched) == {("/one", False)}


def test_an_unknown_folder_is_marked_with_all_below_it(
    searched: SearchEnv, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (disk / "one" / "a" / "b").mkdir(parents=True)
    (disk / "one" / "a" / "b" / "found").write_text("x")
    (disk / "one" / "link").symlink_to(disk / "two")
    assert list_folder(searched) == {("/one", False), ("/one/a", True)}
    assert searched.find("found") == ["/disk/one/a/b/found"]
    monkeypatch.setattr(corrections, "MOST_UNKNOWN", 1)
    (disk / "two" / "a").mkdir()
    (disk / "two" / "b").mkdir()
    assert ("/two", True) in list_folder(searched, "/disk/two")


def test_what_was_read_again_is_what_counts(searched: SearchEnv, disk: Path) -> None:
    (disk / "one" / "new.txt").write_text("x")
    list_folder(searched)
    assert searched.find("new") == ["/disk/one/new.txt"]
    runtime.put(Journal, Journal())
    runtime.put(ListingObserver, Corrections())
    before = index_marks.list_all(10)
    list_folder(searched)
    assert index_marks.list_all(10) == before
    (disk / "one" / "new.txt").unlink()
    list_folder(searched)
    assert index_marks.list_all(10) != before
    assert searched.find("new") == []


def test_a_large_folder_is_compared_by_its_number(
    searched: SearchEnv, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "LARGEST", 1)
    assert list_folder(searched) == set()
    (disk / "one" / "red.txt").rename(disk / "one" / "rot.txt")
    assert list_folder(searched) == set()
    (disk / "one" / "more.txt").write_text("x")
    assert list_folder(searched) == {("/one", False)}


def test_what_this_service_changed_just_now_is_marked_already(searched: SearchEnv, disk: Path) -> None:
    searched.tree.run(changes.rename(searched.tree.access("/disk/one/red.txt", Right.RENAME), "rot.txt", False))
    before = index_marks.list_all(10)
    list_folder(searched)
    assert index_marks.list_all(10) == before


def test_nothing_is_compared_where_there_is_no_index_or_none_is_wanted(searched: SearchEnv, disk: Path) -> None:
    (disk / "one" / "new.txt").write_text("x")
    for values in (
        {"auto_update_index": "false"},
        {"auto_update_index": "true", "search_index": "none"},
        {"search_index": "database", "ignore_paths": "/disk/one"},
    ):
        searched.tree.set(**values)
        assert list_folder(searched) == set()
    searched.tree.set(ignore_paths="")
    (storage,) = storages.all()
    searched.tree.run(runtime.get(SegmentStore).drop(storage.id))
    assert list_folder(searched) == set()


def test_few_listings_wait_and_the_rest_is_dropped(
    searched: SearchEnv, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "MOST_WAITING", 1)
    for name in ("one", "two"):
        (disk / name / "new.txt").write_text("x")
        searched.tree.run(searched.tree.access(f"/disk/{name}").list_folder())
    assert correct(searched) == {("/one", False)}
